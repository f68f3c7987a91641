/// Inserts and reads people on many threads, each with a store of its own, and checks every answer.
/// Arguments: the URL of the store, the number of threads, the number of rows of each thread.
program people_client;

{$mode delphi}{$H+}

uses
  cmem, cthreads, SysUtils, Classes, Marmota, PeopleModel;

type
  TWorker = class(TThread)
  public
    URL: RawUtf8;
    Number, Rows, Assertions, Failed: Integer;
    IDs: TInt64s;
    Error: string;
    procedure Verify(IsTrue: Boolean);
    procedure Work;
    procedure Execute; override;
  end;

procedure TWorker.Verify(IsTrue: Boolean);
begin
  Inc(Assertions);
  if not IsTrue then
    Inc(Failed);
end;

procedure TWorker.Work;
var
  store: TMarmotaStore;
  people, found: TPeople;
  i: Integer;
begin
  people := TPeople.Create;
  found := TPeople.Create;
  store := TMarmotaStore.Create(URL, [TPeople]);
  try
    SetLength(IDs, Rows);
    for i := 0 to Rows - 1 do
    begin
      people.ID := 0;
      people.FirstName := RawUtf8(Format('First%d', [i]));
      people.LastName := RawUtf8(Format('Last%d-%d', [Number, i]));
      people.YearOfBirth := 1000 + i;
      people.YearOfDeath := 1060 + i;
      IDs[i] := store.Add(people);
      Verify(IDs[i] > 0);
      Verify(store.Retrieve(IDs[i], found));
      Verify((found.ID = IDs[i]) and (found.FirstName = people.FirstName));
      Verify((found.LastName = people.LastName) and (found.YearOfBirth = 1000 + i));
      Verify(found.YearOfDeath = 1060 + i);
    end;
  finally
    store.Free;
    people.Free;
    found.Free;
  end;
end;

procedure TWorker.Execute;
begin
  try
    Work;
  except
    on E: Exception do
    begin
      Verify(false);
      Error := E.Message;
    end;
  end;
end;

function Compare(const A, B: Int64): Integer;
begin
  if A < B then
    result := -1
  else
    result := Ord(A > B);
end;

procedure Sort(var IDs: TInt64s; First, Last: Integer);
var
  i, j: Integer;
  middle, swap: Int64;
begin
  i := First;
  j := Last;
  if First >= Last then
    exit;
  middle := IDs[(First + Last) div 2];
  repeat
    while Compare(IDs[i], middle) < 0 do
      Inc(i);
    while Compare(IDs[j], middle) > 0 do
      Dec(j);
    if i <= j then
    begin
      swap := IDs[i];
      IDs[i] := IDs[j];
      IDs[j] := swap;
      Inc(i);
      Dec(j);
    end;
  until i > j;
  Sort(IDs, First, j);
  Sort(IDs, i, Last);
end;

var
  workers: array of TWorker;
  all: TInt64s;
  i, j, rows, assertions, failed: Integer;
  start: QWord;
begin
  SetLength(workers, StrToInt(ParamStr(2)));
  rows := StrToInt(ParamStr(3));
  start := GetTickCount64;
  for i := 0 to High(workers) do
  begin
    workers[i] := TWorker.Create(true);
    workers[i].URL := ParamStr(1);
    workers[i].Number := i;
    workers[i].Rows := rows;
  end;
  for i := 0 to High(workers) do
    workers[i].Start;
  assertions := 0;
  failed := 0;
  for i := 0 to High(workers) do
  begin
    workers[i].WaitFor;
    Inc(assertions, workers[i].Assertions);
    Inc(failed, workers[i].Failed);
    if workers[i].Error <> '' then
      WriteLn('thread ', i, ': ', workers[i].Error);
    j := Length(all);
    SetLength(all, j + Length(workers[i].IDs));
    if Length(workers[i].IDs) > 0 then
      Move(workers[i].IDs[0], all[j], Length(workers[i].IDs) * SizeOf(Int64));
    workers[i].Free;
  end;
  Sort(all, 0, High(all));
  for i := 1 to High(all) do
  begin
    Inc(assertions);
    if all[i] = all[i - 1] then
      Inc(failed);
  end;
  WriteLn('Assertions failed: ', failed, ' / ', assertions);
  WriteLn('Operations: ', Length(all) * 2, ' in ', GetTickCount64 - start, ' ms');
  if failed > 0 then
    Halt(1);
end.
