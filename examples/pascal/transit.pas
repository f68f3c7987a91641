/// Serves the schedules of a transit agency: GET /schedules/{route_id}, joined from the files trips.txt
/// and stop_times.txt of a feed (GTFS) in memory. Arguments: the folder of the feed, the address.
program transit;

{$mode delphi}{$H+}

uses
  cthreads, Classes, SysUtils, csvreadwrite, fpjson, Generics.Collections, Marmota;

type
  /// The rows of a key; lists keep the order of the file.
  TRowLists = TObjectDictionary<RawUtf8, TList<Integer>>;
  TLine = TArray<RawUtf8>;

  TTrip = record
    TripId, ServiceId, RouteId: RawUtf8;
  end;

  TStopTime = record
    TripId, StopId, ArrivalTime, DepartureTime: RawUtf8;
  end;

  TSchedules = class
  private
    fTrips: TArray<TTrip>;
    fStopTimes: TArray<TStopTime>;
    fTripCount, fStopTimeCount: Integer;
    fTripsOfRoute, fTimesOfTrip: TRowLists;
    procedure AddTrip(const Line: TLine);
    procedure AddStopTime(const Line: TLine);
  public
    constructor Create(const Folder: string);
    destructor Destroy; override;
    procedure Schedule(ctx: TMarmotaContext);
  end;

  TAddLine = procedure(const Line: TLine) of object;

/// Reads the columns of a file, and adds each line. Equal texts are kept once.
procedure Load(const FileName: string; const Columns: array of string; Add: TAddLine);
var
  parser: TCSVParser;
  texts: TDictionary<RawUtf8, RawUtf8>;
  source: TMemoryStream;
  places: TArray<Integer>;
  line: TLine;
  text, known: RawUtf8;
  i, row: Integer;
  began: QWord;
begin
  began := GetTickCount64;
  row := 0;
  SetLength(line, Length(Columns));
  places := nil;
  parser := TCSVParser.Create;
  texts := TDictionary<RawUtf8, RawUtf8>.Create;
  source := TMemoryStream.Create;
  try
    source.LoadFromFile(FileName);
    parser.SetSource(source);
    while parser.ParseNextCell do
    begin
      if parser.CurrentRow > row then
      begin
        if row > 0 then
          Add(line);
        row := parser.CurrentRow;
      end;
      text := parser.CurrentCellText;
      if row = 0 then
      begin
        SetLength(places, parser.CurrentCol + 1);
        places[parser.CurrentCol] := -1;
        for i := 0 to High(Columns) do
          if Columns[i] = text then
            places[parser.CurrentCol] := i;
      end
      else if (parser.CurrentCol < Length(places)) and (places[parser.CurrentCol] >= 0) then
      begin
        if not texts.TryGetValue(text, known) then
        begin
          known := text;
          texts.Add(text, text);
        end;
        line[places[parser.CurrentCol]] := known;
      end;
    end;
    if row > 0 then
      Add(line);
  finally
    source.Free;
    texts.Free;
    parser.Free;
  end;
  WriteLn(FileName, ': ', row, ' rows in ', GetTickCount64 - began, ' ms');
end;

procedure AddTo(Lists: TRowLists; const Key: RawUtf8; Row: Integer);
var
  list: TList<Integer>;
begin
  if not Lists.TryGetValue(Key, list) then
  begin
    list := TList<Integer>.Create;
    Lists.Add(Key, list);
  end;
  list.Add(Row);
end;

constructor TSchedules.Create(const Folder: string);
begin
  fTripsOfRoute := TRowLists.Create([doOwnsValues]);
  fTimesOfTrip := TRowLists.Create([doOwnsValues]);
  Load(Folder + '/trips.txt', ['trip_id', 'service_id', 'route_id'], AddTrip);
  Load(Folder + '/stop_times.txt', ['trip_id', 'stop_id', 'arrival_time', 'departure_time'], AddStopTime);
end;

destructor TSchedules.Destroy;
begin
  fTripsOfRoute.Free;
  fTimesOfTrip.Free;
  inherited;
end;

procedure TSchedules.AddTrip(const Line: TLine);
begin
  if fTripCount = Length(fTrips) then
    SetLength(fTrips, 2 * fTripCount + 1000);
  with fTrips[fTripCount] do
  begin
    TripId := Line[0];
    ServiceId := Line[1];
    RouteId := Line[2];
  end;
  AddTo(fTripsOfRoute, Line[2], fTripCount);
  Inc(fTripCount);
end;

procedure TSchedules.AddStopTime(const Line: TLine);
begin
  if fStopTimeCount = Length(fStopTimes) then
    SetLength(fStopTimes, 2 * fStopTimeCount + 1000);
  with fStopTimes[fStopTimeCount] do
  begin
    TripId := Line[0];
    StopId := Line[1];
    ArrivalTime := Line[2];
    DepartureTime := Line[3];
  end;
  AddTo(fTimesOfTrip, Line[0], fStopTimeCount);
  Inc(fStopTimeCount);
end;

/// Sends the trips of a route with their stops.
procedure TSchedules.Schedule(ctx: TMarmotaContext);
var
  trips, times: TList<Integer>;
  out: TStringStream;
  trip, time: Integer;
  separator, inner: RawUtf8;
begin
  out := TStringStream.Create('');
  try
    separator := '[';
    if fTripsOfRoute.TryGetValue(ctx.Param('route_id'), trips) then
      for trip in trips do
        with fTrips[trip] do
        begin
          out.WriteString(separator + '{"trip_id":"' + StringToJSONString(TripId) + '","service_id":"' +
            StringToJSONString(ServiceId) + '","route_id":"' + StringToJSONString(RouteId) + '","schedules":');
          inner := '[';
          if fTimesOfTrip.TryGetValue(TripId, times) then
            for time in times do
            begin
              with fStopTimes[time] do
                out.WriteString(inner + '{"stop_id":"' + StringToJSONString(StopId) + '","arrival_time":"' +
                  StringToJSONString(ArrivalTime) + '","departure_time":"' +
                  StringToJSONString(DepartureTime) + '"}');
              inner := ',';
            end;
          if inner = '[' then
            out.WriteString('[');
          out.WriteString(']}');
          separator := ',';
        end;
    if separator = '[' then
      out.WriteString('[');
    out.WriteString(']');
    ctx.SendJson(out.DataString);
  finally
    out.Free;
  end;
end;

var
  schedules: TSchedules;
  server: TMarmotaServer;
  folder: string;
  address: RawUtf8;
begin
  folder := 'data';
  address := '127.0.0.1:4000';
  if ParamCount > 0 then
    folder := ParamStr(1);
  if ParamCount > 1 then
    address := ParamStr(2);
  schedules := TSchedules.Create(folder);
  server := TMarmotaServer.Create(address);
  server.Get('/schedules/{route_id}', schedules.Schedule);
  server.Start;
  WriteLn('http://127.0.0.1:', server.Port, '/schedules/Red; Enter stops');
  Flush(Output);
  ReadLn;
  server.Free;
  schedules.Free;
end.
