/// The HTTP server, its routes, and requests.
unit MarmotaHttp;

{$ifdef FPC}{$mode delphi}{$endif}
{$H+}{$M+}

interface

uses
  SysUtils, Classes, Contnrs, {$ifdef FPC}fpjson, jsonparser,{$endif} MarmotaApi, MarmotaModels,
  MarmotaStores{$ifdef FPC}, TypInfo, MarmotaServices{$endif};

type
  /// An error of a route, with a status of 400 to 599.
  EMarmotaHttp = class(Exception)
  private
    fStatus: Word;
  public
    constructor Create(aStatus: Word; const aMessage: string);
    property Status: Word read fStatus;
  end;

  /// A Mustache template: `{{name}}`, `{{{name}}}`, `{{#list}}…{{/list}}`, `{{^list}}…{{/list}}`.
  TMarmotaTemplate = class
  private
    fHandle: TMarmotaHandle;
  public
    constructor Create(const Source: RawUtf8);
    destructor Destroy; override;
    /// Renders the members of a JSON object.
    function Render(const Json: RawUtf8): RawUtf8;
  end;

  /// A request and its answer, for the time of a route.
  TMarmotaContext = class
  private
    fRequest: TMarmotaHandle;
    {$ifdef FPC}fJson: TJSONData;{$endif}
  public
    destructor Destroy; override;
    function Method: RawUtf8;
    function Path: RawUtf8;
    /// A part of the path or a parameter of the query; Default if the request has neither.
    function Param(const Name: RawUtf8; const Default: RawUtf8 = ''): RawUtf8;
    function ParamInt(const Name: RawUtf8; Default: Int64 = 0): Int64;
    function Header(const Name: RawUtf8): RawUtf8;
    function Body: RawUtf8;
    {$ifdef FPC}
    /// The body as a JSON object. Any other body is a problem with status 400.
    function Json: TJSONObject;
    {$endif}
    procedure Status(aStatus: Word);
    procedure SetHeader(const Name, Value: RawUtf8);
    procedure Send(const ContentType, Content: RawUtf8);
    procedure SendText(const Text: RawUtf8);
    procedure SendHtml(const Html: RawUtf8);
    /// Sends a template with the members of a JSON object.
    procedure SendTemplate(Template: TMarmotaTemplate; const Json: RawUtf8);
    procedure SendJson(const Json: RawUtf8); overload;
    /// Sends the batch of the store after the route, and the route's answer once it is committed. The
    /// thread answers other requests meanwhile, whose batches share the commit. If the batch fails, the
    /// client gets the error.
    procedure AnswerAfterBatch(Store: TMarmotaStore);
    {$ifdef FPC}
    /// Sends a JSON value, and frees it.
    procedure SendJson(Json: TJSONData); overload;
    {$endif}
  end;

  /// A route. It runs on all threads of the server at once.
  TMarmotaHandler = procedure(ctx: TMarmotaContext) of object;

  /// An HTTP server.
  TMarmotaServer = class
  private
    fHandle: TMarmotaHandle;
    fRoutes: TObjectList;
    function GetPort: Word;
    procedure SetThreads(Threads: NativeUInt);
  public
    /// Creates a server for an address such as '127.0.0.1:8080', with the REST API of a store at
    /// /api, which any caller may use.
    constructor Create(const Address: RawUtf8; Store: TMarmotaStore = nil);
    /// Stops the server: requests that are executing are answered.
    destructor Destroy; override;
    procedure Rest(Store: TMarmotaStore; const Path: RawUtf8 = '/api');
    /// Serves the store to stores of other processes, which open http://HOST:PORT/store.
    procedure Share(Store: TMarmotaStore; const Path: RawUtf8 = '/store');
    procedure Route(const Method, Pattern: RawUtf8; const Handler: TMarmotaHandler);
    procedure Get(const Pattern: RawUtf8; const Handler: TMarmotaHandler);
    procedure Post(const Pattern: RawUtf8; const Handler: TMarmotaHandler);
    {$ifdef FPC}
    /// Serves the methods of an interface at /services: by routes, JSON-RPC, WebSockets and
    /// TMarmotaClient. They run on several threads at once.
    procedure Service(Info: PTypeInfo; const Instance: IInterface);
    {$endif}
    procedure Start;
    property Threads: NativeUInt write SetThreads;
    property Port: Word read GetPort;
  end;

implementation

type
  TRoute = class
  public
    Handler: TMarmotaHandler;
  end;

{ EMarmotaHttp }

constructor EMarmotaHttp.Create(aStatus: Word; const aMessage: string);
begin
  inherited Create(aMessage);
  fStatus := aStatus;
end;

{ TMarmotaTemplate }

constructor TMarmotaTemplate.Create(const Source: RawUtf8);
begin
  Check(marmota_template_new(PAnsiChar(Source), fHandle));
end;

destructor TMarmotaTemplate.Destroy;
begin
  if fHandle <> 0 then
    marmota_template_free(fHandle);
  inherited;
end;

function TMarmotaTemplate.Render(const Json: RawUtf8): RawUtf8;
var
  text: PAnsiChar;
  length: NativeUInt;
begin
  Check(marmota_template_render(fHandle, PAnsiChar(Json), text, length));
  SetText(result, text, length);
end;

{ TMarmotaContext }

destructor TMarmotaContext.Destroy;
begin
  {$ifdef FPC}fJson.Free;{$endif}
  inherited;
end;

function TMarmotaContext.Method: RawUtf8;
var
  text: PAnsiChar;
  length: NativeUInt;
begin
  Check(marmota_request_method(fRequest, text, length));
  SetText(result, text, length);
end;

function TMarmotaContext.Path: RawUtf8;
var
  text: PAnsiChar;
  length: NativeUInt;
begin
  Check(marmota_request_path(fRequest, text, length));
  SetText(result, text, length);
end;

function TMarmotaContext.Param(const Name, Default: RawUtf8): RawUtf8;
var
  text: PAnsiChar;
  length: NativeUInt;
  code: Integer;
begin
  code := marmota_request_param(fRequest, PAnsiChar(Name), text, length);
  if code = MARMOTA_NOT_FOUND then
    exit(Default);
  Check(code);
  SetText(result, text, length);
end;

function TMarmotaContext.ParamInt(const Name: RawUtf8; Default: Int64): Int64;
begin
  result := StrToInt64Def(string(Param(Name)), Default);
end;

function TMarmotaContext.Header(const Name: RawUtf8): RawUtf8;
var
  text: PAnsiChar;
  length: NativeUInt;
  code: Integer;
begin
  result := '';
  code := marmota_request_header(fRequest, PAnsiChar(Name), text, length);
  if code = MARMOTA_NOT_FOUND then
    exit;
  Check(code);
  SetText(result, text, length);
end;

function TMarmotaContext.Body: RawUtf8;
var
  bytes: PAnsiChar;
  length: NativeUInt;
begin
  Check(marmota_request_body(fRequest, bytes, length));
  SetText(result, bytes, length);
end;

{$ifdef FPC}
function TMarmotaContext.Json: TJSONObject;
begin
  if fJson = nil then
    try
      fJson := GetJSON(Body);
    except
      on E: Exception do
        raise EMarmotaHttp.Create(400, 'the body is not JSON: ' + E.Message);
    end;
  if not (fJson is TJSONObject) then
    raise EMarmotaHttp.Create(400, 'the body is not a JSON object');
  result := TJSONObject(fJson);
end;

procedure TMarmotaContext.SendJson(Json: TJSONData);
begin
  try
    SendJson(RawUtf8(Json.AsJSON));
  finally
    Json.Free;
  end;
end;
{$endif}

procedure TMarmotaContext.Status(aStatus: Word);
begin
  Check(marmota_response_status(fRequest, aStatus));
end;

procedure TMarmotaContext.SetHeader(const Name, Value: RawUtf8);
begin
  Check(marmota_response_header(fRequest, PAnsiChar(Name), PAnsiChar(Value)));
end;

procedure TMarmotaContext.Send(const ContentType, Content: RawUtf8);
begin
  Check(marmota_response_body(fRequest, PAnsiChar(ContentType), PAnsiChar(Content), Length(Content)));
end;

procedure TMarmotaContext.SendText(const Text: RawUtf8);
begin
  Send('text/plain', Text);
end;

procedure TMarmotaContext.SendHtml(const Html: RawUtf8);
begin
  Send('text/html; charset=utf-8', Html);
end;

procedure TMarmotaContext.SendTemplate(Template: TMarmotaTemplate; const Json: RawUtf8);
begin
  SendHtml(Template.Render(Json));
end;

procedure TMarmotaContext.SendJson(const Json: RawUtf8);
begin
  Send('application/json', Json);
end;

procedure TMarmotaContext.AnswerAfterBatch(Store: TMarmotaStore);
begin
  Store.BatchSendBefore(fRequest);
end;

{ TMarmotaServer }

/// Runs a route. No exception leaves it.
function RunRoute(request: TMarmotaHandle; context: Pointer): Integer; cdecl;
var
  ctx: TMarmotaContext;
begin
  try
    ctx := TMarmotaContext.Create;
    try
      ctx.fRequest := request;
      TRoute(context).Handler(ctx);
      result := MARMOTA_OK;
    finally
      ctx.Free;
    end;
  except
    on E: EMarmota do
      if E.Code <> 0 then
        result := E.Code
      else
        result := marmota_response_problem(request, 400, PAnsiChar(RawUtf8(E.Message)));
    on E: EMarmotaHttp do
      result := marmota_response_problem(request, E.Status, PAnsiChar(RawUtf8(E.Message)));
    on E: Exception do
    begin
      WriteLn(StdErr, 'a route failed: ', E.ClassName, ': ', E.Message);
      result := marmota_response_problem(request, 500, 'an internal error; see the log');
    end;
  else
    result := marmota_response_problem(request, 500, 'an internal error');
  end;
end;

constructor TMarmotaServer.Create(const Address: RawUtf8; Store: TMarmotaStore);
begin
  fRoutes := TObjectList.Create;
  Check(marmota_server_new(PAnsiChar(Address), fHandle));
  if Store <> nil then
    Rest(Store);
end;

destructor TMarmotaServer.Destroy;
begin
  if fHandle <> 0 then
    marmota_server_free(fHandle);
  fRoutes.Free;
  inherited;
end;

procedure TMarmotaServer.Rest(Store: TMarmotaStore; const Path: RawUtf8);
begin
  Check(marmota_server_rest(fHandle, Store.Handle, PAnsiChar(Path)));
end;

procedure TMarmotaServer.Share(Store: TMarmotaStore; const Path: RawUtf8);
begin
  Check(marmota_server_store(fHandle, Store.Handle, PAnsiChar(Path)));
end;

procedure TMarmotaServer.Route(const Method, Pattern: RawUtf8; const Handler: TMarmotaHandler);
var
  one: TRoute;
begin
  one := TRoute.Create;
  one.Handler := Handler;
  fRoutes.Add(one);
  Check(marmota_server_route(fHandle, PAnsiChar(Method), PAnsiChar(Pattern), @RunRoute, one));
end;

procedure TMarmotaServer.Get(const Pattern: RawUtf8; const Handler: TMarmotaHandler);
begin
  Route('GET', Pattern, Handler);
end;

procedure TMarmotaServer.Post(const Pattern: RawUtf8; const Handler: TMarmotaHandler);
begin
  Route('POST', Pattern, Handler);
end;

{$ifdef FPC}
procedure TMarmotaServer.Service(Info: PTypeInfo; const Instance: IInterface);
var
  one: TMarmotaService;
begin
  one := TMarmotaService.Create(Info, Instance);
  fRoutes.Add(one);
  Check(marmota_server_service(fHandle, PAnsiChar(one.Contract.Json), @RunService, one));
end;
{$endif}

procedure TMarmotaServer.Start;
begin
  Check(marmota_server_start(fHandle));
end;

procedure TMarmotaServer.SetThreads(Threads: NativeUInt);
begin
  Check(marmota_server_threads(fHandle, Threads));
end;

function TMarmotaServer.GetPort: Word;
begin
  Check(marmota_server_port(fHandle, result));
end;

end.
