/// Serves people: REST at /api/people, the store of people_client at /store, and a route.
program people_server;

{$mode delphi}{$H+}

uses
  cmem, cthreads, SysUtils, fpjson, Marmota, PeopleModel;

type
  TRoutes = class
  public
    Store: TMarmotaStore;
    procedure BornIn(ctx: TMarmotaContext);
    procedure Import(ctx: TMarmotaContext);
  end;

/// The number of people who were born in a year, and the first of them by name.
procedure TRoutes.BornIn(ctx: TMarmotaContext);
var
  filter: RawUtf8;
  rows: TMarmotaCursor;
  answer: TJSONObject;
begin
  filter := MarmotaFilter('year_of_birth=?', [ctx.ParamInt('year')]);
  rows := Store.Cursor(TPeople, filter, 'last_name', 1);
  try
    if not rows.Next then
      raise EMarmotaHttp.Create(404, 'no one was born in this year');
    answer := TJSONObject.Create(['count', Int64(Store.Count(TPeople, filter)), 'first', rows.Text(2)]);
  finally
    rows.Free;
  end;
  ctx.SendJson(answer);
end;

/// Inserts the people of an array: all or none.
procedure TRoutes.Import(ctx: TMarmotaContext);
var
  people: TJSONArray;
  one: TPeople;
  i: Integer;
begin
  people := ctx.Json.Get('people', TJSONArray(nil));
  if people = nil then
    raise EMarmotaHttp.Create(422, 'the body has no array `people`');
  Store.TransactionBegin;
  try
    for i := 0 to people.Count - 1 do
    begin
      one := TPeople.Create;
      try
        Store.FromJson(people[i].AsJSON, one);
        Store.Add(one);
      finally
        one.Free;
      end;
    end;
    Store.Commit;
  except
    Store.RollBack;
    raise;
  end;
  ctx.Status(201);
  ctx.SendJson(TJSONObject.Create(['inserted', people.Count]));
end;

var
  routes: TRoutes;
  server: TMarmotaServer;
  address: RawUtf8;
begin
  address := '127.0.0.1:8080';
  if ParamCount > 0 then
    address := ParamStr(1);
  routes := TRoutes.Create;
  routes.Store := TMarmotaStore.Create('sqlite:people.db', [TPeople]);
  server := TMarmotaServer.Create(address, routes.Store);
  server.Share(routes.Store);
  server.Get('/born-in/{year}', routes.BornIn);
  server.Post('/import', routes.Import);
  server.Start;
  WriteLn('http://127.0.0.1:', server.Port, '/api/people; Enter stops');
  Flush(Output);
  ReadLn;
  server.Free;
  routes.Store.Free;
  routes.Free;
end.
