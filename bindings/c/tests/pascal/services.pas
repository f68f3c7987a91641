/// Interfaces as services: values of all types, errors, both transports, several threads.
program services;

{$mode delphi}{$H+}{$codepage utf8}

uses
  cmem, cthreads, Classes, SysUtils, Marmota;

type
  TColour = (Red, Green, Blue);

  ICalculator = interface(IInvokable)
    ['{5B1F0C53-9B65-4C65-9E5F-5D6A0E9D7F10}']
    function Add(a, b: Integer): Integer;
    function Mean(const First: Double; Second: Single): Double;
    function Greet(const Name: RawUtf8; Times: Byte; Loud: Boolean): RawUtf8;
    function Wide(const Text: UnicodeString): UnicodeString;
    function Next(Colour: TColour): TColour;
    function IsLarge(Value: Int64): Boolean;
    procedure Remember(Value: Int64);
    function Remembered: Int64;
    procedure Fail(const Reason: RawUtf8);
    procedure Crash;
  end;

  TCalculator = class(TInterfacedObject, ICalculator)
  private
    fValue: Int64;
  public
    function Add(a, b: Integer): Integer;
    function Mean(const First: Double; Second: Single): Double;
    function Greet(const Name: RawUtf8; Times: Byte; Loud: Boolean): RawUtf8;
    function Wide(const Text: UnicodeString): UnicodeString;
    function Next(Colour: TColour): TColour;
    function IsLarge(Value: Int64): Boolean;
    procedure Remember(Value: Int64);
    function Remembered: Int64;
    procedure Fail(const Reason: RawUtf8);
    procedure Crash;
  end;

  IWrong = interface(IInvokable)
    ['{0A3D3C0E-5C0A-4D1F-8C62-0DA3F6B9E001}']
    procedure Change(var Value: Integer);
  end;

  TWrong = class(TInterfacedObject, IWrong)
    procedure Change(var Value: Integer);
  end;

  TCaller = class(TThread)
  public
    Calculator: ICalculator;
    Passed: Boolean;
    procedure Execute; override;
  end;

procedure Expect(Condition: Boolean; const What: string);
begin
  if not Condition then
  begin
    WriteLn(StdErr, 'not as expected: ', What);
    Halt(1);
  end;
end;

function TCalculator.Add(a, b: Integer): Integer;
begin
  result := a + b;
end;

function TCalculator.Mean(const First: Double; Second: Single): Double;
begin
  result := (First + Second) / 2;
end;

function TCalculator.Greet(const Name: RawUtf8; Times: Byte; Loud: Boolean): RawUtf8;
var
  i: Integer;
begin
  result := '';
  for i := 1 to Times do
    result := result + 'Hello ' + Name;
  if Loud then
    result := result + '!';
end;

function TCalculator.Wide(const Text: UnicodeString): UnicodeString;
begin
  result := Text + Text;
end;

function TCalculator.Next(Colour: TColour): TColour;
begin
  result := Succ(Colour);
end;

function TCalculator.IsLarge(Value: Int64): Boolean;
begin
  result := Value > 1000000000000;
end;

procedure TCalculator.Remember(Value: Int64);
begin
  fValue := Value;
end;

function TCalculator.Remembered: Int64;
begin
  result := fValue;
end;

procedure TCalculator.Fail(const Reason: RawUtf8);
begin
  raise EMarmota.CreateCode(MARMOTA_CONFLICT, Reason);
end;

procedure TCalculator.Crash;
begin
  raise EConvertError.Create('a secret');
end;

procedure TWrong.Change(var Value: Integer);
begin
  Value := 1;
end;

procedure TCaller.Execute;
var
  i: Integer;
begin
  Passed := true;
  for i := 1 to 100 do
    Passed := Passed and (Calculator.Add(i, i) = 2 * i) and (Calculator.Greet('é', 1, false) = 'Hello é');
end;

procedure CallAll(const Url: RawUtf8);
var
  client: TMarmotaClient;
  calculator: ICalculator;
  callers: array[1..4] of TCaller;
  code: Integer;
  text: string;
  i: Integer;
begin
  client := TMarmotaClient.Create(Url);
  client.Resolve(TypeInfo(ICalculator), calculator);
  Expect(calculator.Add(40, 2) = 42, 'Add');
  Expect(calculator.Add(-2147483647, -1) = Low(Integer), 'Add of small numbers');
  Expect(calculator.Mean(1.5, 2.5) = 2.0, 'Mean');
  Expect(calculator.Greet('Ada "é"', 2, true) = 'Hello Ada "é"Hello Ada "é"!', 'Greet');
  Expect(calculator.Greet('', 0, false) = '', 'Greet without a text');
  Expect(calculator.Wide('フレ') = 'フレフレ', 'Wide');
  Expect(calculator.Next(Red) = Green, 'Next');
  Expect(calculator.IsLarge(High(Int64)) and not calculator.IsLarge(-1), 'IsLarge');
  calculator.Remember(-5000000000);
  Expect(calculator.Remembered = -5000000000, 'Remembered');
  code := 0;
  try
    calculator.Fail('taken');
  except
    on E: EMarmota do
    begin
      code := E.Code;
      text := E.Message;
    end;
  end;
  Expect((code = MARMOTA_CONFLICT) and (text = 'taken'), 'Fail');
  try
    calculator.Crash;
  except
    on E: EMarmota do
      text := E.Message;
  end;
  Expect(Pos('secret', text) = 0, 'Crash');
  for i := 1 to 4 do
  begin
    callers[i] := TCaller.Create(true);
    callers[i].Calculator := calculator;
    callers[i].Start;
  end;
  for i := 1 to 4 do
  begin
    callers[i].WaitFor;
    Expect(callers[i].Passed, 'a thread');
    callers[i].Free;
  end;
  Expect(client.Call('calculator.greet', '{"name":"x","times":1,"loud":true}') = '"Hello x!"', 'Call');
  for text in TStringArray.Create('{"a":1}', '{"a":1,"b":"2"}', '{"a":1,"b":2147483648}', '{"a":1,"b":1.5}') do
  begin
    code := 0;
    try
      client.Call('calculator.add', text);
    except
      on E: EMarmota do
        code := E.Code;
    end;
    Expect(code = MARMOTA_INVALID, text);
  end;
  calculator := nil;
  client.Free;
end;

var
  server: TMarmotaServer;
  template: TMarmotaTemplate;
  address: RawUtf8;
  refused: Boolean;
begin
  server := TMarmotaServer.Create('127.0.0.1:0');
  server.Service(TypeInfo(ICalculator), TCalculator.Create);
  refused := false;
  try
    server.Service(TypeInfo(IWrong), TWrong.Create);
  except
    on E: EMarmota do
      refused := Pos('IWrong.Change', E.Message) > 0;
  end;
  Expect(refused, 'a parameter by address');
  server.Start;
  address := '127.0.0.1:' + RawUtf8(IntToStr(server.Port)) + '/services';
  CallAll('http://' + address);
  CallAll('ws://' + address);
  server.Free;
  template := TMarmotaTemplate.Create('{{#rows}}<i>{{name}}</i>{{/rows}}');
  Expect(template.Render('{"rows":[{"name":"<é>"},{"name":"b"}]}') = '<i>&lt;é&gt;</i><i>b</i>', 'Render');
  template.Free;
  WriteLn('ok');
end.
