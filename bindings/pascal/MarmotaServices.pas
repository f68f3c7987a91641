/// Interfaces as services: their methods are called over every transport.
//
// A method has parameters and a result of integers, enumerations, Booleans, Single, Double and texts.
// The interface inherits from IInvokable and has a GUID.
unit MarmotaServices;

{$ifdef FPC}{$mode delphi}{$endif}
{$H+}

interface

{$ifdef FPC}
uses
  SysUtils, TypInfo, Rtti, ffi, fpjson, jsonparser, MarmotaApi, MarmotaModels;

type
  TMarmotaParameter = record
    Name: RawUtf8;
    Info: PTypeInfo;
  end;

  /// A method of an interface, prepared for calls.
  TMarmotaMethod = class
  private
    fName: RawUtf8;
    fIndex: Integer;
    fParameters: array of TMarmotaParameter;
    fResult: PTypeInfo;
    fTypes: array of pffi_type;
    fCall: ffi_cif;
    function Place(Parameter: Integer): Integer;
    procedure Prepare;
  public
    function Contract: RawUtf8;
    /// Calls the method. Arguments and result are JSON.
    function Invoke(const Instance: IInterface; const Arguments: RawUtf8): RawUtf8;
    property Name: RawUtf8 read fName;
  end;

  /// The methods of an interface.
  TMarmotaContract = class
  private
    fName: RawUtf8;
    fMethods: array of TMarmotaMethod;
    function GetCount: Integer;
    function GetMethod(Index: Integer): TMarmotaMethod;
  public
    constructor Create(Info: PTypeInfo);
    destructor Destroy; override;
    function Find(const MethodName: RawUtf8): TMarmotaMethod;
    /// The contract as JSON, for `marmota_server_service`.
    function Json: RawUtf8;
    property Name: RawUtf8 read fName;
    property Count: Integer read GetCount;
    property Methods[Index: Integer]: TMarmotaMethod read GetMethod;
  end;

  /// A service of a server.
  TMarmotaService = class
  private
    fContract: TMarmotaContract;
    fInstance: IInterface;
  public
    constructor Create(Info: PTypeInfo; const Instance: IInterface);
    destructor Destroy; override;
    property Contract: TMarmotaContract read fContract;
  end;

  /// A connection to the services of a server. It must live longer than the interfaces it resolves.
  TMarmotaClient = class
  private
    fHandle: TMarmotaHandle;
  public
    /// Connects to a URL such as 'http://127.0.0.1:8080/services' or 'ws:'.
    constructor Create(const Url: RawUtf8; const Token: RawUtf8 = '');
    destructor Destroy; override;
    /// Calls a method by its name, such as 'calculator.add'. Arguments and result are JSON.
    function Call(const Method, Arguments: RawUtf8): RawUtf8;
    /// Returns an object whose methods call the service of an interface.
    procedure Resolve(Info: PTypeInfo; out Obj);
  end;

/// Executes a call for `marmota_server_service`; the context is a TMarmotaService.
function RunService(call: TMarmotaHandle; method, arguments: PAnsiChar; context: Pointer): Integer; cdecl;
{$endif}

implementation

{$ifdef FPC}
const
  {$if defined(CPUX86_64) and not defined(WIN64)}
  // FFI_UNIX64 of libffi; the unit ffi of Free Pascal 3.2.2 has another number for it.
  ABI = ffi_abi(2);
  {$else}
  ABI = FFI_DEFAULT_ABI;
  {$endif}
  TEXTS = [tkAString, tkUString, tkWString];
  // The methods of IInterface come first.
  FIRST_METHOD = 3;

type
  PPointers = ^TPointers;
  TPointers = array[0..65535] of Pointer;

  /// A value of a parameter or a result in memory.
  TSlot = record
    Wide: Int64;
    Text: RawUtf8;
    Unicode: UnicodeString;
    Wider: WideString;
    function Address(Info: PTypeInfo): Pointer;
    procedure Read(Info: PTypeInfo; const Name: RawUtf8; Json: TJSONData);
  end;
  PSlot = ^TSlot;

  TProxy = class;

  /// A function that calls a method of a service.
  TClosure = class
  private
    fProxy: TProxy;
    fMethod: TMarmotaMethod;
    fClosure: Pointer;
    fCode: CodePointer;
  public
    constructor Create(Proxy: TProxy; Method: TMarmotaMethod);
    destructor Destroy; override;
  end;

  /// An object with the methods of an interface, each of which calls a service.
  TProxy = class(TInterfacedObject)
  private
    // An interface is the address of a pointer to its methods.
    fMethods: ^Pointer;
    fTable: array of Pointer;
    fClosures: array of TClosure;
    fContract: TMarmotaContract;
    fGuid: TGuid;
    fClient: TMarmotaClient;
  public
    constructor Create(Client: TMarmotaClient; Info: PTypeInfo);
    destructor Destroy; override;
  end;

{ Values }

function TypeName(Info: PTypeInfo): RawUtf8;
const
  INTEGERS: array[TOrdType] of RawUtf8 = ('i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64');
begin
  if Info = nil then
    exit('()');
  case Info^.Kind of
    tkBool: result := 'bool';
    tkInteger, tkEnumeration, tkInt64, tkQWord: result := INTEGERS[GetTypeData(Info)^.OrdType];
    tkFloat:
      case GetTypeData(Info)^.FloatType of
        ftSingle: result := 'f32';
        ftDouble: result := 'f64';
      else
        result := '';
      end;
    tkAString, tkUString, tkWString: result := 'String';
  else
    result := '';
  end;
  if result = '' then
    raise EMarmota.CreateFmt('a method of a service cannot have the type %s: use integers, enumerations, ' +
      'Booleans, Single, Double and texts', [Info^.Name]);
end;

function FfiType(Info: PTypeInfo): pffi_type;
const
  INTEGERS: array[TOrdType] of pffi_type = (@ffi_type_sint8, @ffi_type_uint8, @ffi_type_sint16,
    @ffi_type_uint16, @ffi_type_sint32, @ffi_type_uint32, @ffi_type_sint64, @ffi_type_uint64);
begin
  if Info = nil then
    exit(@ffi_type_void);
  case Info^.Kind of
    tkFloat:
      if GetTypeData(Info)^.FloatType = ftSingle then
        result := @ffi_type_float
      else
        result := @ffi_type_double;
    tkAString, tkUString, tkWString: result := @ffi_type_pointer;
  else
    result := INTEGERS[GetTypeData(Info)^.OrdType];
  end;
end;

function TSlot.Address(Info: PTypeInfo): Pointer;
begin
  case Info^.Kind of
    tkAString: result := @Text;
    tkUString: result := @Unicode;
    tkWString: result := @Wider;
  else
    result := @Wide;
  end;
end;

procedure TSlot.Read(Info: PTypeInfo; const Name: RawUtf8; Json: TJSONData);
const
  // The smallest and the largest value; those of UInt64 are limited to Int64.
  LOW_VALUES: array[TOrdType] of Int64 = (-128, 0, -32768, 0, Low(Longint), 0, Low(Int64), 0);
  HIGH_VALUES: array[TOrdType] of Int64 = (127, 255, 32767, 65535, High(Longint), High(Cardinal),
    High(Int64), High(Int64));
var
  fits: Boolean;
begin
  case Info^.Kind of
    tkBool:
      begin
        fits := (Json <> nil) and (Json.JSONType = jtBoolean);
        if fits then
          Wide := Ord(Json.AsBoolean);
      end;
    tkFloat:
      begin
        fits := (Json <> nil) and (Json.JSONType = jtNumber);
        if fits and (GetTypeData(Info)^.FloatType = ftSingle) then
          PSingle(@Wide)^ := Json.AsFloat
        else if fits then
          PDouble(@Wide)^ := Json.AsFloat;
      end;
    tkAString, tkUString, tkWString:
      begin
        fits := (Json <> nil) and (Json.JSONType = jtString);
        if fits then
        begin
          Text := Json.AsString;
          Unicode := UTF8Decode(Text);
          Wider := Unicode;
        end;
      end;
  else
    fits := (Json <> nil) and (Json.JSONType = jtNumber) and
      (TJSONNumber(Json).NumberType in [ntInteger, ntInt64]);
    if fits then
    begin
      Wide := Json.AsInt64;
      with GetTypeData(Info)^ do
        fits := (Wide >= LOW_VALUES[OrdType]) and (Wide <= HIGH_VALUES[OrdType]) and
          ((Info^.Kind <> tkEnumeration) or (Wide >= MinValue) and (Wide <= MaxValue));
    end;
  end;
  if not fits then
    raise EMarmota.CreateCode(MARMOTA_INVALID, Format('`%s` is not a valid %s', [Name, TypeName(Info)]));
end;

/// Returns a value in memory as JSON.
function JsonOf(Info: PTypeInfo; At: Pointer): TJSONData;
begin
  case Info^.Kind of
    tkBool: result := TJSONBoolean.Create(PByte(At)^ <> 0);
    tkFloat:
      if GetTypeData(Info)^.FloatType = ftSingle then
        result := TJSONFloatNumber.Create(PSingle(At)^)
      else
        result := TJSONFloatNumber.Create(PDouble(At)^);
    tkAString: result := TJSONString.Create(PRawByteString(At)^);
    tkUString: result := TJSONString.Create(UTF8Encode(PUnicodeString(At)^));
    tkWString: result := TJSONString.Create(UTF8Encode(PWideString(At)^));
  else
    case GetTypeData(Info)^.OrdType of
      otSByte: result := TJSONInt64Number.Create(PShortInt(At)^);
      otUByte: result := TJSONInt64Number.Create(PByte(At)^);
      otSWord: result := TJSONInt64Number.Create(PSmallInt(At)^);
      otUWord: result := TJSONInt64Number.Create(PWord(At)^);
      otSLong: result := TJSONInt64Number.Create(PLongint(At)^);
      otULong: result := TJSONInt64Number.Create(PCardinal(At)^);
      otUQWord: result := TJSONQWordNumber.Create(PQWord(At)^);
    else
      result := TJSONInt64Number.Create(PInt64(At)^);
    end;
  end;
end;

{ TMarmotaMethod }

/// The place of a parameter among the arguments: `Self`, the address of a text as result, parameters.
function TMarmotaMethod.Place(Parameter: Integer): Integer;
begin
  result := Parameter + Length(fTypes) - Length(fParameters);
end;

procedure TMarmotaMethod.Prepare;
var
  i: Integer;
  returned: pffi_type;
begin
  returned := FfiType(fResult);
  SetLength(fTypes, Length(fParameters) + 1);
  if (fResult <> nil) and (fResult^.Kind in TEXTS) then
  begin
    returned := @ffi_type_void;
    SetLength(fTypes, Length(fParameters) + 2);
    fTypes[1] := @ffi_type_pointer;
  end;
  fTypes[0] := @ffi_type_pointer;
  for i := 0 to High(fParameters) do
    fTypes[Place(i)] := FfiType(fParameters[i].Info);
  if ffi_prep_cif(@fCall, ABI, Length(fTypes), returned, @fTypes[0]) <> FFI_OK then
    raise EMarmota.CreateFmt('libffi cannot call the method %s', [fName]);
end;

function TMarmotaMethod.Contract: RawUtf8;
var
  i: Integer;
begin
  result := '{"name":"' + fName + '","parameters":[';
  for i := 0 to High(fParameters) do
  begin
    if i > 0 then
      result := result + ',';
    result := result + '{"name":"' + fParameters[i].Name + '","type":"' +
      TypeName(fParameters[i].Info) + '"}';
  end;
  result := result + '],"result":"' + TypeName(fResult) + '"}';
end;

function TMarmotaMethod.Invoke(const Instance: IInterface; const Arguments: RawUtf8): RawUtf8;
var
  json: TJSONData;
  slots: array of TSlot;
  returned: TSlot;
  addresses: array of Pointer;
  target, into: Pointer;
  i: Integer;
begin
  SetLength(slots, Length(fParameters));
  SetLength(addresses, Length(fTypes));
  target := Pointer(Instance);
  addresses[0] := @target;
  FillChar(returned.Wide, SizeOf(returned.Wide), 0);
  json := GetJSON(Arguments);
  try
    for i := 0 to High(fParameters) do
    begin
      slots[i].Read(fParameters[i].Info, fParameters[i].Name, json.FindPath(fParameters[i].Name));
      addresses[Place(i)] := slots[i].Address(fParameters[i].Info);
    end;
  finally
    json.Free;
  end;
  if (fResult <> nil) and (fResult^.Kind in TEXTS) then
  begin
    into := returned.Address(fResult);
    addresses[1] := @into;
  end;
  ffi_call(@fCall, ffi_fn(PPointers(PPointer(target)^)^[fIndex]), @returned.Wide, @addresses[0]);
  if fResult = nil then
    exit('null');
  json := JsonOf(fResult, returned.Address(fResult));
  try
    result := json.AsJSON;
  finally
    json.Free;
  end;
end;

{ TMarmotaContract }

constructor TMarmotaContract.Create(Info: PTypeInfo);
var
  context: TRttiContext;
  method: TRttiMethod;
  parameter: TRttiParameter;
  one: TMarmotaMethod;
  name: string;
begin
  name := string(Info^.Name);
  if (Length(name) > 1) and (name[1] = 'I') and (name[2] in ['A'..'Z']) then
    System.Delete(name, 1, 1);
  fName := MarmotaName(name);
  context := TRttiContext.Create;
  try
    for method in context.GetType(Info).GetMethods do
    begin
      one := TMarmotaMethod.Create;
      SetLength(fMethods, Length(fMethods) + 1);
      fMethods[High(fMethods)] := one;
      one.fName := MarmotaName(method.Name);
      one.fIndex := method.VirtualIndex;
      if method.ReturnType <> nil then
        one.fResult := method.ReturnType.Handle;
      for parameter in method.GetParameters do
      begin
        if parameter.Flags * [pfVar, pfOut, pfArray, pfConstRef] <> [] then
          raise EMarmota.CreateFmt('%s.%s: a parameter of a service is a value or `const`',
            [Info^.Name, method.Name]);
        SetLength(one.fParameters, Length(one.fParameters) + 1);
        with one.fParameters[High(one.fParameters)] do
        begin
          Name := MarmotaName(parameter.Name);
          Info := parameter.ParamType.Handle;
          TypeName(Info);
        end;
      end;
      TypeName(one.fResult);
      one.Prepare;
    end;
  finally
    context.Free;
  end;
  if fMethods = nil then
    raise EMarmota.CreateFmt('%s has no methods with type information: inherit from IInvokable', [Info^.Name]);
end;

destructor TMarmotaContract.Destroy;
var
  one: TMarmotaMethod;
begin
  for one in fMethods do
    one.Free;
  inherited;
end;

function TMarmotaContract.GetCount: Integer;
begin
  result := Length(fMethods);
end;

function TMarmotaContract.GetMethod(Index: Integer): TMarmotaMethod;
begin
  result := fMethods[Index];
end;

function TMarmotaContract.Find(const MethodName: RawUtf8): TMarmotaMethod;
begin
  for result in fMethods do
    if result.fName = MethodName then
      exit;
  raise EMarmota.CreateCode(MARMOTA_NOT_FOUND, Format('%s has no method `%s`', [fName, MethodName]));
end;

function TMarmotaContract.Json: RawUtf8;
var
  i: Integer;
begin
  result := '{"name":"' + fName + '","methods":[';
  for i := 0 to High(fMethods) do
  begin
    if i > 0 then
      result := result + ',';
    result := result + fMethods[i].Contract;
  end;
  result := result + ']}';
end;

{ TMarmotaService }

constructor TMarmotaService.Create(Info: PTypeInfo; const Instance: IInterface);
begin
  fContract := TMarmotaContract.Create(Info);
  if Supports(Instance, GetTypeData(Info)^.Guid, fInstance) then
    exit;
  raise EMarmota.CreateFmt('the object does not implement %s', [Info^.Name]);
end;

destructor TMarmotaService.Destroy;
begin
  fContract.Free;
  inherited;
end;

function RunService(call: TMarmotaHandle; method, arguments: PAnsiChar; context: Pointer): Integer; cdecl;
begin
  try
    with TMarmotaService(context) do
      result := marmota_call_answer(call,
        PAnsiChar(fContract.Find(method).Invoke(fInstance, arguments)));
  except
    on E: EMarmota do
      if E.Code <> 0 then
        result := marmota_call_refuse(call, E.Code, PAnsiChar(RawUtf8(E.Message)))
      else
        result := marmota_call_refuse(call, MARMOTA_INVALID, PAnsiChar(RawUtf8(E.Message)));
    on E: Exception do
    begin
      WriteLn(StdErr, 'a method failed: ', E.ClassName, ': ', E.Message);
      result := marmota_call_refuse(call, MARMOTA_BUG, 'an internal error; see the log');
    end;
  else
    result := marmota_call_refuse(call, MARMOTA_BUG, 'an internal error');
  end;
end;

{ TMarmotaClient }

constructor TMarmotaClient.Create(const Url, Token: RawUtf8);
begin
  if Token = '' then
    Check(marmota_client_connect(PAnsiChar(Url), nil, fHandle))
  else
    Check(marmota_client_connect(PAnsiChar(Url), PAnsiChar(Token), fHandle));
end;

destructor TMarmotaClient.Destroy;
begin
  if fHandle <> 0 then
    marmota_client_free(fHandle);
  inherited;
end;

function TMarmotaClient.Call(const Method, Arguments: RawUtf8): RawUtf8;
var
  json: PAnsiChar;
  length: NativeUInt;
begin
  Check(marmota_client_call(fHandle, PAnsiChar(Method), PAnsiChar(Arguments), json, length));
  SetText(result, json, length);
end;

procedure TMarmotaClient.Resolve(Info: PTypeInfo; out Obj);
var
  proxy: TProxy;
begin
  proxy := TProxy.Create(self, Info);
  proxy._AddRef;
  Pointer(Obj) := @proxy.fMethods;
end;

{ TProxy }

/// Returns the object of an interface.
function ProxyOf(This: Pointer): TProxy;
begin
  result := TProxy(This - (PtrUInt(@TProxy(nil).fMethods)));
end;

function QueryProxy(This: Pointer; constref Id: TGuid; out Obj): Longint; cdecl;
begin
  if not IsEqualGuid(Id, ProxyOf(This).fGuid) and not IsEqualGuid(Id, IInterface) then
    exit(E_NOINTERFACE);
  ProxyOf(This)._AddRef;
  Pointer(Obj) := This;
  result := S_OK;
end;

function AddProxy(This: Pointer): Longint; cdecl;
begin
  result := ProxyOf(This)._AddRef;
end;

function ReleaseProxy(This: Pointer): Longint; cdecl;
begin
  result := ProxyOf(This)._Release;
end;

constructor TProxy.Create(Client: TMarmotaClient; Info: PTypeInfo);
var
  i: Integer;
begin
  fClient := Client;
  fGuid := GetTypeData(Info)^.Guid;
  fContract := TMarmotaContract.Create(Info);
  SetLength(fTable, FIRST_METHOD + fContract.Count);
  SetLength(fClosures, fContract.Count);
  fTable[0] := @QueryProxy;
  fTable[1] := @AddProxy;
  fTable[2] := @ReleaseProxy;
  for i := 0 to fContract.Count - 1 do
  begin
    fClosures[i] := TClosure.Create(self, fContract.Methods[i]);
    fTable[fContract.Methods[i].fIndex] := fClosures[i].fCode;
  end;
  fMethods := @fTable[0];
end;

destructor TProxy.Destroy;
var
  one: TClosure;
begin
  for one in fClosures do
    one.Free;
  fContract.Free;
  inherited;
end;

{ TClosure }

/// Runs a call of a method of a proxy. An exception leaves it, to the caller of the method.
procedure RunClosure(Cif: pffi_cif; Returned: Pointer; Args: PPointers; Context: Pointer); cdecl;
var
  method: TMarmotaMethod;
  arguments: TJSONObject;
  json: TJSONData;
  slot: TSlot;
  text: RawUtf8;
  i: Integer;
begin
  method := TClosure(Context).fMethod;
  arguments := TJSONObject.Create;
  try
    for i := 0 to High(method.fParameters) do
      arguments.Add(method.fParameters[i].Name,
        JsonOf(method.fParameters[i].Info, Args^[method.Place(i)]));
    text := arguments.AsJSON;
  finally
    arguments.Free;
  end;
  with TClosure(Context).fProxy do
    text := fClient.Call(fContract.fName + '.' + method.fName, text);
  if method.fResult = nil then
    exit;
  slot.Wide := 0;
  json := GetJSON(text);
  try
    slot.Read(method.fResult, 'result', json);
  finally
    json.Free;
  end;
  case method.fResult^.Kind of
    // The address of the text is an argument.
    tkAString: PRawByteString(PPointer(Args^[1])^)^ := slot.Text;
    tkUString: PUnicodeString(PPointer(Args^[1])^)^ := slot.Unicode;
    tkWString: PWideString(PPointer(Args^[1])^)^ := slot.Wider;
  else
    PInt64(Returned)^ := slot.Wide;
  end;
end;

constructor TClosure.Create(Proxy: TProxy; Method: TMarmotaMethod);
begin
  fProxy := Proxy;
  fMethod := Method;
  fClosure := ffi_closure_alloc(SizeOf(ffi_closure), @fCode);
  if (fClosure = nil) or
    (ffi_prep_closure_loc(fClosure, @Method.fCall, @RunClosure, self, fCode) <> FFI_OK) then
    raise EMarmota.CreateFmt('libffi makes no function for the method %s', [Method.fName]);
end;

destructor TClosure.Destroy;
begin
  if fClosure <> nil then
    ffi_closure_free(fClosure);
  inherited;
end;
{$endif}

end.
