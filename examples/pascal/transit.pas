/// Serves the schedules of a transit agency: GET /schedules/{route_id}, joined from the files trips.txt
/// and stop_times.txt of a feed (GTFS) in memory. Arguments: the folder of the feed, the address.
program transit;

{$mode delphi}{$H+}

uses
  cmem, cthreads, Classes, SysUtils, Marmota;

type
  TTrip = class(TMarmotaModel)
  private
    fTripId, fServiceId, fRouteId: RawUtf8;
  published
    property TripId: RawUtf8 read fTripId write fTripId;
    property ServiceId: RawUtf8 read fServiceId write fServiceId;
    property RouteId: RawUtf8 read fRouteId write fRouteId;
  end;

  TStopTime = class(TMarmotaModel)
  private
    fTripId, fStopId, fArrivalTime, fDepartureTime: RawUtf8;
  published
    property TripId: RawUtf8 read fTripId write fTripId;
    property StopId: RawUtf8 read fStopId write fStopId;
    property ArrivalTime: RawUtf8 read fArrivalTime write fArrivalTime;
    property DepartureTime: RawUtf8 read fDepartureTime write fDepartureTime;
  end;

  TSchedules = class
  private
    fTrips, fStopTimes: TMarmotaColumns;
  public
    constructor Create(const Folder: string);
    destructor Destroy; override;
    procedure Schedule(ctx: TMarmotaContext);
  end;

function Load(const FileName: string; Model: TMarmotaModelClass; const Field: RawUtf8): TMarmotaColumns;
var
  began: QWord;
begin
  began := GetTickCount64;
  result := TMarmotaColumns.Create(FileName, Model);
  result.Index(Field);
  WriteLn(FileName, ': ', result.Count, ' rows in ', GetTickCount64 - began, ' ms');
end;

constructor TSchedules.Create(const Folder: string);
begin
  fTrips := Load(Folder + '/trips.txt', TTrip, 'route_id');
  fStopTimes := Load(Folder + '/stop_times.txt', TStopTime, 'trip_id');
end;

destructor TSchedules.Destroy;
begin
  fTrips.Free;
  fStopTimes.Free;
  inherited;
end;

/// Sends the trips of a route with their stops.
procedure TSchedules.Schedule(ctx: TMarmotaContext);
var
  trip: Cardinal;
  text: RawUtf8;
  separator: Char;
  answer: TStringStream;
begin
  answer := TStringStream.Create('');
  try
    separator := '[';
    for trip in fTrips.Find('route_id', ctx.Param('route_id')) do
    begin
      answer.WriteString(separator);
      text := fTrips.Json('trip_id,service_id,route_id', [trip]);
      // The object in the array, without its end.
      answer.WriteBuffer(text[2], Length(text) - 3);
      answer.WriteString(',"schedules":' + fStopTimes.Json('stop_id,arrival_time,departure_time',
        fStopTimes.Find('trip_id', fTrips.Text(trip, 'trip_id'))) + '}');
      separator := ',';
    end;
    if separator = '[' then
      answer.WriteString('[');
    answer.WriteString(']');
    ctx.SendJson(answer.DataString);
  finally
    answer.Free;
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
