/// Columns: the rows of a CSV file in little memory, for reading.
unit MarmotaColumns;

{$ifdef FPC}{$mode delphi}{$endif}
{$H+}

interface

uses
  MarmotaApi, MarmotaModels;

type
  /// The numbers of rows.
  TMarmotaRows = array of Cardinal;

  /// The rows of a file. All threads may use them at once. Rows have the numbers from 0 on.
  TMarmotaColumns = class
  private
    fHandle: TMarmotaHandle;
    function GetCount: NativeUInt;
  public
    /// Loads a CSV file whose first line has names: those of the class's properties are kept.
    constructor Create(const FileName: RawUtf8; Model: TMarmotaModelClass);
    destructor Destroy; override;
    /// Makes an index of a field, for Find.
    procedure Index(const Field: RawUtf8);
    /// Returns the rows whose field has a text.
    function Find(const Field, Text: RawUtf8): TMarmotaRows;
    function Text(Row: Cardinal; const Field: RawUtf8): RawUtf8;
    /// Returns rows as a JSON array of objects with some fields: their names, separated by commas.
    function Json(const Fields: RawUtf8; const Rows: array of Cardinal): RawUtf8;
    property Count: NativeUInt read GetCount;
  end;

implementation

constructor TMarmotaColumns.Create(const FileName: RawUtf8; Model: TMarmotaModelClass);
var
  table: TMarmotaTableInfo;
begin
  table := TMarmotaTableInfo.Create(Model);
  try
    Check(marmota_columns_load(PAnsiChar(FileName),
      PAnsiChar('{"tables":{' + table.Definition + '}}'), fHandle));
  finally
    table.Free;
  end;
end;

destructor TMarmotaColumns.Destroy;
begin
  if fHandle <> 0 then
    marmota_columns_free(fHandle);
  inherited;
end;

function TMarmotaColumns.GetCount: NativeUInt;
begin
  Check(marmota_columns_count(fHandle, result));
end;

procedure TMarmotaColumns.Index(const Field: RawUtf8);
begin
  Check(marmota_columns_index(fHandle, PAnsiChar(Field)));
end;

function TMarmotaColumns.Find(const Field, Text: RawUtf8): TMarmotaRows;
var
  rows: PCardinal;
  count: NativeUInt;
begin
  Check(marmota_columns_find(fHandle, PAnsiChar(Field), PAnsiChar(Text), rows, count));
  SetLength(result, count);
  if count > 0 then
    Move(rows^, result[0], count * SizeOf(Cardinal));
end;

function TMarmotaColumns.Text(Row: Cardinal; const Field: RawUtf8): RawUtf8;
var
  value: PMarmotaValue;
begin
  Check(marmota_columns_value(fHandle, Row, PAnsiChar(Field), value));
  SetText(result, value^.Data, value^.Length);
end;

function TMarmotaColumns.Json(const Fields: RawUtf8; const Rows: array of Cardinal): RawUtf8;
var
  text: PAnsiChar;
  length: NativeUInt;
begin
  Check(marmota_columns_json(fHandle, PAnsiChar(Fields), @Rows, System.Length(Rows), text, length));
  SetText(result, text, length);
end;

end.
