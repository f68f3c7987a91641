/// Documents of a database over HTTP: a constant page, an object as JSON, a row by its key, a page from
/// a template. Arguments: the URL of the store (MongoDB by default), the address.
program office;

{$mode delphi}{$H+}{$codepage utf8}

uses
  cmem, cthreads, SysUtils, Marmota;

type
  TOfficeLocation = class(TMarmotaModel)
  private
    fTenantId, fName, fAddress, fEmail: RawUtf8;
    fLatitude, fLongitude: Double;
    fSendICalNotifications: Boolean;
    fOptions: RawJson;
  published
    property TenantId: RawUtf8 index 40 read fTenantId write fTenantId;
    property Name: RawUtf8 read fName write fName;
    property Address: RawUtf8 read fAddress write fAddress;
    property Email: RawUtf8 read fEmail write fEmail;
    property Latitude: Double read fLatitude write fLatitude;
    property Longitude: Double read fLongitude write fLongitude;
    property SendICalNotifications: Boolean read fSendICalNotifications write fSendICalNotifications;
    property Options: RawJson read fOptions write fOptions;
  end;

  TRoutes = class
  public
    Store: TMarmotaStore;
    Template: TMarmotaTemplate;
    function Find(ctx: TMarmotaContext): RawUtf8;
    procedure Hello(ctx: TMarmotaContext);
    procedure First(ctx: TMarmotaContext);
    procedure AsJson(ctx: TMarmotaContext);
    procedure Page(ctx: TMarmotaContext);
  end;

const
  PAGE_SOURCE = '<!doctype html><meta charset="utf-8"><title>{{name}}</title><h1>{{name}}</h1>' +
    '<address>{{address}}</address>{{#email}}<a href="mailto:{{email}}">{{email}}</a>{{/email}}' +
    '{{#options}}<p>Open from {{availableFromHour}} to {{availableUntilHour}} h</p>{{/options}}';

function FirstOffice: TOfficeLocation;
begin
  result := TOfficeLocation.Create;
  result.ID := 1;
  result.TenantId := 'marmota';
  result.Name := 'Burrow "Nord" & <Süd>';
  result.Address := 'Alp 1';
  result.Email := 'office@example.org';
  result.Options := '{"availableFromHour":8,"availableUntilHour":18}';
end;

/// The office of the path, as JSON.
function TRoutes.Find(ctx: TMarmotaContext): RawUtf8;
var
  office: TOfficeLocation;
begin
  office := TOfficeLocation.Create;
  try
    if not Store.Retrieve(ctx.ParamInt('id'), office) then
      raise EMarmotaHttp.Create(404, 'there is no such office');
    result := Store.ToJson(office);
  finally
    office.Free;
  end;
end;

procedure TRoutes.Hello(ctx: TMarmotaContext);
begin
  ctx.SendHtml('<h1>Hello, World!</h1>');
end;

procedure TRoutes.First(ctx: TMarmotaContext);
var
  office: TOfficeLocation;
begin
  office := FirstOffice;
  try
    ctx.SendJson(Store.ToJson(office));
  finally
    office.Free;
  end;
end;

procedure TRoutes.AsJson(ctx: TMarmotaContext);
begin
  ctx.SendJson(Find(ctx));
end;

procedure TRoutes.Page(ctx: TMarmotaContext);
begin
  ctx.SendTemplate(Template, Find(ctx));
end;

var
  routes: TRoutes;
  server: TMarmotaServer;
  office: TOfficeLocation;
  url, address: RawUtf8;
begin
  url := 'mongodb://127.0.0.1:27017/office';
  address := '127.0.0.1:8080';
  if ParamCount > 0 then
    url := ParamStr(1);
  if ParamCount > 1 then
    address := ParamStr(2);
  routes := TRoutes.Create;
  routes.Template := TMarmotaTemplate.Create(PAGE_SOURCE);
  routes.Store := TMarmotaStore.Create(url, [TOfficeLocation]);
  office := FirstOffice;
  routes.Store.AddOrUpdate(office);
  office.Free;
  server := TMarmotaServer.Create(address);
  // The driver of MongoDB waits on the thread of a route.
  server.Threads := 64;
  server.Get('/hello', routes.Hello);
  server.Get('/json', routes.First);
  server.Get('/mongo/{id}', routes.AsJson);
  server.Get('/office/{id}', routes.Page);
  server.Start;
  WriteLn('http://127.0.0.1:', server.Port, '/office/1; Enter stops');
  Flush(Output);
  ReadLn;
  server.Free;
  routes.Store.Free;
  routes.Template.Free;
  routes.Free;
end.
