/// The tests of the TechEmpower benchmarks: json, plaintext, db, queries, updates, fortunes.
/// Arguments: the URL of the store, the address.
program techempower;

{$mode delphi}{$H+}{$codepage utf8}

uses
  cmem, cthreads, SysUtils, Classes, Contnrs, Marmota;

type
  TWorld = class(TMarmotaModel)
  private
    fRandomNumber: Integer;
  published
    property RandomNumber: Integer read fRandomNumber write fRandomNumber;
  end;

  TFortune = class(TMarmotaModel)
  private
    fMessage: RawUtf8;
  published
    property Message: RawUtf8 read fMessage write fMessage;
  end;

  TRoutes = class
  public
    Store: TMarmotaStore;
    Page: TMarmotaTemplate;
    procedure Fill;
    function Worlds(ctx: TMarmotaContext): TObjectList;
    procedure SendWorlds(ctx: TMarmotaContext; List: TObjectList);
    procedure Plaintext(ctx: TMarmotaContext);
    procedure Json(ctx: TMarmotaContext);
    procedure Db(ctx: TMarmotaContext);
    procedure Queries(ctx: TMarmotaContext);
    procedure Updates(ctx: TMarmotaContext);
    procedure Fortunes(ctx: TMarmotaContext);
  end;

const
  WORLD_COUNT = 10000;
  PAGE = '<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>' +
    '<tr><th>id</th><th>message</th></tr>' +
    '{{#rows}}<tr><td>{{id}}</td><td>{{message}}</td></tr>{{/rows}}</table></body></html>';
  MESSAGES: array[0..3] of RawUtf8 = ('fortune: No such file or directory',
    'A computer program does what you tell it to do, not what you want it to do.',
    '<script>alert("This should not be displayed in a browser alert box.");</script>',
    'フレームワークのベンチマーク');

procedure TRoutes.Fill;
var
  world: TWorld;
  fortune: TFortune;
  i: Integer;
begin
  if Store.Count(TWorld) > 0 then
    exit;
  world := TWorld.Create;
  fortune := TFortune.Create;
  Store.BatchStart;
  for i := 1 to WORLD_COUNT do
  begin
    world.ID := i;
    world.RandomNumber := Random(WORLD_COUNT) + 1;
    Store.BatchAdd(world);
  end;
  for i := 0 to High(MESSAGES) do
  begin
    fortune.ID := i + 1;
    fortune.Message := MESSAGES[i];
    Store.BatchAdd(fortune);
  end;
  Store.BatchSend;
  world.Free;
  fortune.Free;
end;

function AsJson(World: TWorld): RawUtf8;
begin
  result := '{"id":' + RawUtf8(IntToStr(World.ID)) + ',"randomNumber":' +
    RawUtf8(IntToStr(World.RandomNumber)) + '}';
end;

/// Reads as many random worlds as the parameter `queries` states, 1 to 500.
function TRoutes.Worlds(ctx: TMarmotaContext): TObjectList;
var
  count, i: Integer;
  ids: TInt64s;
begin
  count := ctx.ParamInt('queries', 1);
  if count < 1 then
    count := 1
  else if count > 500 then
    count := 500;
  SetLength(ids, count);
  for i := 0 to count - 1 do
    ids[i] := Random(WORLD_COUNT) + 1;
  result := Store.RetrieveMany(TWorld, ids);
end;

procedure TRoutes.SendWorlds(ctx: TMarmotaContext; List: TObjectList);
var
  text: RawUtf8;
  i: Integer;
begin
  text := '[';
  for i := 0 to List.Count - 1 do
  begin
    if i > 0 then
      text := text + ',';
    text := text + AsJson(TWorld(List[i]));
  end;
  ctx.SendJson(text + ']');
end;

procedure TRoutes.Plaintext(ctx: TMarmotaContext);
begin
  ctx.SendText('Hello, World!');
end;

procedure TRoutes.Json(ctx: TMarmotaContext);
begin
  ctx.SendJson('{"message":"Hello, World!"}');
end;

procedure TRoutes.Db(ctx: TMarmotaContext);
var
  world: TWorld;
begin
  world := TWorld.Create;
  try
    Store.Retrieve(Random(WORLD_COUNT) + 1, world);
    ctx.SendJson(AsJson(world));
  finally
    world.Free;
  end;
end;

procedure TRoutes.Queries(ctx: TMarmotaContext);
var
  list: TObjectList;
begin
  list := Worlds(ctx);
  try
    SendWorlds(ctx, list);
  finally
    list.Free;
  end;
end;

procedure TRoutes.Updates(ctx: TMarmotaContext);
var
  list: TObjectList;
  i: Integer;
begin
  list := Worlds(ctx);
  try
    Store.BatchStart;
    for i := 0 to list.Count - 1 do
    begin
      TWorld(list[i]).RandomNumber := Random(WORLD_COUNT) + 1;
      Store.BatchUpdate(TWorld(list[i]));
    end;
    SendWorlds(ctx, list);
    ctx.AnswerAfterBatch(Store);
  finally
    list.Free;
  end;
end;

function ByMessage(A, B: Pointer): Integer;
begin
  result := CompareStr(TFortune(A).Message, TFortune(B).Message);
end;

procedure TRoutes.Fortunes(ctx: TMarmotaContext);
var
  list: TObjectList;
  extra: TFortune;
  rows: RawUtf8;
  i: Integer;
begin
  list := Store.RetrieveList(TFortune);
  try
    extra := TFortune.Create;
    extra.Message := 'Additional fortune added at request time.';
    list.Add(extra);
    list.Sort(ByMessage);
    for i := 0 to list.Count - 1 do
      rows := rows + ',' + Store.ToJson(TFortune(list[i]));
    ctx.SendTemplate(Page, '{"rows":[' + Copy(rows, 2, MaxInt) + ']}');
  finally
    list.Free;
  end;
end;

var
  routes: TRoutes;
  server: TMarmotaServer;
  url, address: RawUtf8;
begin
  url := 'sqlite:techempower.db';
  address := '127.0.0.1:8080';
  if ParamCount > 0 then
    url := ParamStr(1);
  if ParamCount > 1 then
    address := ParamStr(2);
  Randomize;
  routes := TRoutes.Create;
  routes.Store := TMarmotaStore.Create(url, [TWorld, TFortune]);
  routes.Page := TMarmotaTemplate.Create(PAGE);
  routes.Fill;
  server := TMarmotaServer.Create(address);
  server.Get('/plaintext', routes.Plaintext);
  server.Get('/json', routes.Json);
  server.Get('/db', routes.Db);
  server.Get('/queries', routes.Queries);
  server.Get('/updates', routes.Updates);
  server.Get('/fortunes', routes.Fortunes);
  server.Start;
  WriteLn('http://127.0.0.1:', server.Port, '/fortunes; Enter stops');
  Flush(Output);
  ReadLn;
  server.Free;
  routes.Page.Free;
  routes.Store.Free;
  routes.Free;
end.
