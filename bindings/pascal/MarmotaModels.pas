/// Models: classes whose published properties make tables, and what rows and errors are in Pascal.
unit MarmotaModels;

{$ifdef FPC}{$mode delphi}{$endif}
{$H+}{$M+}

interface

uses
  SysUtils, Classes, TypInfo, MarmotaApi;

const
  /// For `stored`: the property's values are unique in the table.
  AS_UNIQUE = false;

type
  {$ifdef FPC}
  RawUtf8 = type AnsiString(CP_UTF8);
  {$else}
  RawUtf8 = type AnsiString(65001);
  {$endif}
  /// JSON; an empty text is null.
  RawJson = type RawUtf8;
  TInt64s = array of Int64;

  /// An error of Marmota. In a route it becomes a problem document.
  EMarmota = class(Exception)
  private
    fCode: Integer;
    fField: RawUtf8;
  public
    constructor CreateCode(aCode: Integer; const aMessage: string);
    /// The code of the C interface: MARMOTA_NOT_FOUND, MARMOTA_CONFLICT, …
    property Code: Integer read fCode;
    /// The first field at fault, or an empty text.
    property Field: RawUtf8 read fField;
  end;

  /// A row. Each published property is a field: FirstName is `first_name`. `index 40` is the maximum
  /// length of a text, `stored AS_UNIQUE` makes values unique. TPeople is the table `people`.
  TMarmotaModel = class(TPersistent)
  private
    fID: Int64;
  public
    constructor Create; virtual;
    class function TableName: RawUtf8;
    property ID: Int64 read fID write fID;
  end;
  TMarmotaModelClass = class of TMarmotaModel;

  /// What a property is in a row.
  TMarmotaField = record
    Prop: PPropInfo;
    Name: RawUtf8;
    Kind: Cardinal;
  end;

  /// The table of a class.
  TMarmotaTableInfo = class
  private
    fClass: TMarmotaModelClass;
    fFields: array of TMarmotaField;
  public
    /// The number of the table in its store.
    Number: TMarmotaTable;
    constructor Create(aClass: TMarmotaModelClass);
    /// The table in an application file.
    function Definition: RawUtf8;
    procedure Write(Model: TMarmotaModel; out Row: TMarmotaValues; out Texts: TStringArray);
    procedure Read(Model: TMarmotaModel; Row: PMarmotaValue);
    property ModelClass: TMarmotaModelClass read fClass;
  end;

/// Returns a filter whose ? are replaced by arguments, texts in quotes.
function MarmotaFilter(const Format: RawUtf8; const Args: array of const): RawUtf8;
/// Returns the name of a field or table: FirstName is first_name.
function MarmotaName(const Name: string): RawUtf8;

/// Raises the error of a call that failed.
procedure Check(Code: Integer);
procedure SetText(out Text: RawUtf8; Data: PAnsiChar; Length: NativeUInt);
/// Returns an argument as a value; Text keeps its text alive.
function ValueOf(const Arg: TVarRec; out Text: RawUtf8): TMarmotaValue;

implementation

constructor EMarmota.CreateCode(aCode: Integer; const aMessage: string);
begin
  inherited Create(aMessage);
  fCode := aCode;
end;

procedure Check(Code: Integer);
var
  error: EMarmota;
begin
  if Code = MARMOTA_OK then
    exit;
  error := EMarmota.Create(string(marmota_error_message));
  error.fCode := Code;
  if marmota_error_count > 0 then
    error.fField := marmota_error_field(0);
  raise error;
end;

procedure SetText(out Text: RawUtf8; Data: PAnsiChar; Length: NativeUInt);
begin
  SetString(Text, Data, Length);
  SetCodePage(RawByteString(Text), 65001, false);
end;

function MarmotaName(const Name: string): RawUtf8;
var
  i: Integer;
begin
  result := '';
  for i := 1 to Length(Name) do
    if Name[i] in ['A'..'Z'] then
    begin
      if (i > 1) and not (Name[i - 1] in ['A'..'Z', '_']) then
        result := result + '_';
      result := result + AnsiChar(Ord(Name[i]) + 32);
    end
    else
      result := result + AnsiChar(Name[i]);
end;

function ValueOf(const Arg: TVarRec; out Text: RawUtf8): TMarmotaValue;
begin
  FillChar(result, SizeOf(result), 0);
  result.Kind := MARMOTA_INT;
  case Arg.VType of
    vtInteger: result.Int := Arg.VInteger;
    vtInt64: result.Int := Arg.VInt64^;
    {$ifdef FPC}vtQWord: result.Int := Int64(Arg.VQWord^);{$endif}
    vtBoolean:
      begin
        result.Kind := MARMOTA_BOOL;
        result.Int := Ord(Arg.VBoolean);
      end;
    vtExtended:
      begin
        result.Kind := MARMOTA_FLOAT;
        result.Real := Arg.VExtended^;
      end;
    vtCurrency:
      begin
        result.Kind := MARMOTA_CURRENCY;
        result.Int := PInt64(Arg.VCurrency)^;
      end;
  else
    begin
      case Arg.VType of
        vtChar: Text := Arg.VChar;
        vtString: Text := RawUtf8(Arg.VString^);
        vtAnsiString: Text := RawUtf8(AnsiString(Arg.VAnsiString));
        vtPChar: Text := RawUtf8(AnsiString(Arg.VPChar));
        vtUnicodeString: Text := UTF8Encode(UnicodeString(Arg.VUnicodeString));
        vtWideString: Text := UTF8Encode(WideString(Arg.VWideString));
      else
        raise EMarmota.Create('an argument is not a number, a Boolean or a text');
      end;
      result.Kind := MARMOTA_TEXT;
      result.Data := PAnsiChar(Text);
      result.Length := Length(Text);
    end;
  end;
end;

function MarmotaFilter(const Format: RawUtf8; const Args: array of const): RawUtf8;
var
  i, arg: Integer;
  value: TMarmotaValue;
  text, number: RawUtf8;
  plain: TFormatSettings;
begin
  result := '';
  arg := 0;
  plain := DefaultFormatSettings;
  plain.DecimalSeparator := '.';
  for i := 1 to Length(Format) do
    if Format[i] <> '?' then
      result := result + Format[i]
    else
    begin
      if arg > High(Args) then
        raise EMarmota.CreateFmt('the filter %s has more ? than arguments', [Format]);
      value := ValueOf(Args[arg], text);
      Inc(arg);
      case value.Kind of
        MARMOTA_TEXT:
          number := '''' + StringReplace(StringReplace(text, '\', '\\', [rfReplaceAll]), '''', '''''',
            [rfReplaceAll]) + '''';
        MARMOTA_FLOAT: number := FloatToStr(value.Real, plain);
        MARMOTA_CURRENCY: number := CurrToStr(PCurrency(@value.Int)^, plain);
        MARMOTA_BOOL: if value.Int <> 0 then number := 'true' else number := 'false';
      else
        number := IntToStr(value.Int);
      end;
      result := result + number;
    end;
  if arg <= High(Args) then
    raise EMarmota.CreateFmt('the filter %s has fewer ? than arguments', [Format]);
end;

{ TMarmotaModel }

constructor TMarmotaModel.Create;
begin
  inherited Create;
end;

class function TMarmotaModel.TableName: RawUtf8;
var
  name: string;
begin
  name := ClassName;
  if (Length(name) > 1) and (name[1] = 'T') and (name[2] in ['A'..'Z']) then
    System.Delete(name, 1, 1);
  result := MarmotaName(name);
end;

{ TMarmotaTableInfo }

const
  /// Days from 1899-12-30, where TDateTime begins, to 1970-01-01.
  UNIX_DAYS = 25569;
  DAY_MICROS = Int64(86400) * 1000000;
  KIND_NAMES: array[MARMOTA_BOOL..MARMOTA_TIMESTAMP] of RawUtf8 = ('boolean', 'integer', 'float',
    'currency', 'text', 'blob', 'json', 'date', 'time', 'timestamp');

constructor TMarmotaTableInfo.Create(aClass: TMarmotaModelClass);
var
  props: PPropList;
  i, count: Integer;
begin
  fClass := aClass;
  count := GetPropList(PTypeInfo(aClass.ClassInfo), props);
  try
    SetLength(fFields, count);
    for i := 0 to count - 1 do
    begin
      fFields[i].Prop := props^[i];
      fFields[i].Name := MarmotaName(props^[i]^.Name);
      case props^[i]^.PropType^.Kind of
        tkInteger, tkInt64, {$ifdef FPC}tkQWord,{$endif} tkEnumeration, tkChar:
          fFields[i].Kind := MARMOTA_INT;
        {$ifdef FPC}tkBool: fFields[i].Kind := MARMOTA_BOOL;{$endif}
        tkFloat:
          if props^[i]^.PropType = TypeInfo(TDateTime) then
            fFields[i].Kind := MARMOTA_TIMESTAMP
          else if props^[i]^.PropType = TypeInfo(Currency) then
            fFields[i].Kind := MARMOTA_CURRENCY
          else
            fFields[i].Kind := MARMOTA_FLOAT;
        {$ifdef FPC}tkAString,{$endif} tkLString, tkUString, tkWString, tkSString:
          if props^[i]^.PropType = TypeInfo(RawByteString) then
            fFields[i].Kind := MARMOTA_BLOB
          else if props^[i]^.PropType = TypeInfo(RawJson) then
            fFields[i].Kind := MARMOTA_JSON
          else
            fFields[i].Kind := MARMOTA_TEXT;
      else
        raise EMarmota.CreateFmt('%s.%s: a property is a number, a text, a TDateTime, a ' +
          'RawJson or a RawByteString', [aClass.ClassName, props^[i]^.Name]);
      end;
    end;
  finally
    FreeMem(props);
  end;
end;

function TMarmotaTableInfo.Definition: RawUtf8;
var
  i: Integer;
begin
  result := '"' + fClass.TableName + '":{"fields":{"id":{"kind":"integer","role":"key"}';
  for i := 0 to High(fFields) do
    with fFields[i] do
    begin
      result := result + ',"' + Name + '":{"kind":"' + KIND_NAMES[Kind] + '"';
      if (Kind = MARMOTA_TEXT) and (Prop^.Index > 0) then
        result := result + ',"max":' + RawUtf8(IntToStr(Prop^.Index));
      if not IsStoredProp(TObject(nil), Prop) then
        result := result + ',"unique":true';
      result := result + '}';
    end;
  result := result + '}}';
end;

procedure TMarmotaTableInfo.Write(Model: TMarmotaModel; out Row: TMarmotaValues;
  out Texts: TStringArray);
var
  i: Integer;
  real: Double;
begin
  SetLength(Row, Length(fFields) + 1);
  SetLength(Texts, Length(fFields));
  FillChar(Row[0], Length(Row) * SizeOf(Row[0]), 0);
  if Model.ID <> 0 then
  begin
    Row[0].Kind := MARMOTA_INT;
    Row[0].Int := Model.ID;
  end;
  for i := 0 to High(fFields) do
    with Row[i + 1] do
    begin
      Kind := fFields[i].Kind;
      case Kind of
        MARMOTA_INT, MARMOTA_BOOL: Int := GetOrdProp(Model, fFields[i].Prop);
        MARMOTA_FLOAT: Real := GetFloatProp(Model, fFields[i].Prop);
        MARMOTA_CURRENCY: PCurrency(@Int)^ := GetFloatProp(Model, fFields[i].Prop);
        MARMOTA_TIMESTAMP:
          begin
            real := GetFloatProp(Model, fFields[i].Prop);
            Int := Round((real - UNIX_DAYS) * DAY_MICROS);
          end;
        MARMOTA_TEXT, MARMOTA_BLOB, MARMOTA_JSON:
          begin
            if fFields[i].Prop^.PropType^.Kind in [tkUString, tkWString] then
              Texts[i] := UTF8Encode(GetUnicodeStrProp(Model, fFields[i].Prop))
            else
              Texts[i] := GetStrProp(Model, fFields[i].Prop);
            if (Kind = MARMOTA_JSON) and (Texts[i] = '') then
              Texts[i] := 'null';
            Data := PAnsiChar(Texts[i]);
            Length := System.Length(Texts[i]);
          end;
      end;
    end;
end;

procedure TMarmotaTableInfo.Read(Model: TMarmotaModel; Row: PMarmotaValue);
var
  i: Integer;
  text: RawUtf8;
begin
  if Row^.Kind = MARMOTA_INT then
    Model.ID := Row^.Int;
  for i := 0 to High(fFields) do
  begin
    Inc(Row);
    case Row^.Kind of
      MARMOTA_INT, MARMOTA_BOOL: SetOrdProp(Model, fFields[i].Prop, Row^.Int);
      MARMOTA_FLOAT: SetFloatProp(Model, fFields[i].Prop, Row^.Real);
      MARMOTA_CURRENCY: SetFloatProp(Model, fFields[i].Prop, PCurrency(@Row^.Int)^);
      MARMOTA_TIMESTAMP:
        SetFloatProp(Model, fFields[i].Prop, Row^.Int / DAY_MICROS + UNIX_DAYS);
      MARMOTA_TEXT, MARMOTA_BLOB, MARMOTA_JSON:
        begin
          SetText(text, Row^.Data, Row^.Length);
          if fFields[i].Prop^.PropType^.Kind in [tkUString, tkWString] then
            SetUnicodeStrProp(Model, fFields[i].Prop, UTF8Decode(text))
          else
            SetStrProp(Model, fFields[i].Prop, text);
        end;
    end;
  end;
end;

end.
