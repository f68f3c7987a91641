/// Stores, cursors, batches and transactions.
unit MarmotaStores;

{$ifdef FPC}{$mode delphi}{$endif}
{$H+}{$M+}

interface

uses
  SysUtils, Classes, Contnrs, MarmotaApi, MarmotaModels;

type
  /// Rows of SQL or of a list, one after the other. It belongs to its thread.
  TMarmotaCursor = class
  private
    fHandle: TMarmotaHandle;
    fRow: PMarmotaValue;
    fCount: NativeUInt;
    function At(Column: Integer): PMarmotaValue;
  public
    destructor Destroy; override;
    /// Goes to the next row; false after the last one.
    function Next: Boolean;
    function ColumnCount: Integer;
    function ColumnName(Column: Integer): RawUtf8;
    function IsNull(Column: Integer): Boolean;
    function Int(Column: Integer): Int64;
    function Float(Column: Integer): Double;
    function Text(Column: Integer): RawUtf8;
  end;

  /// A store. All threads may use it; a transaction and a batch belong to the thread that began them.
  TMarmotaStore = class
  private
    fHandle: TMarmotaHandle;
    fTables: TObjectList;
    function Target: TMarmotaHandle;
    function Table(aClass: TClass): TMarmotaTableInfo;
  public
    property Handle: TMarmotaHandle read fHandle;
    /// Opens the store of a URL: sqlite:FILE, memory:, postgres://…, http://HOST/store, …
    constructor Create(const URL: RawUtf8; const Models: array of TMarmotaModelClass;
      RecordChanges: Boolean = false);
    destructor Destroy; override;
    /// Inserts a row. Sets the ID of the model, and returns it.
    function Add(Model: TMarmotaModel): Int64;
    /// Inserts a row, or updates the one with this ID or unique value.
    function AddOrUpdate(Model: TMarmotaModel): Int64;
    /// Writes all fields of a row.
    procedure Update(Model: TMarmotaModel);
    /// Reads a row into a model; false if it does not exist.
    function Retrieve(ID: Int64; Model: TMarmotaModel): Boolean;
    /// Reads the rows with these IDs, each by its own read, and returns new models in their order, which
    /// the caller frees with the list. IDs without a row are left out.
    function RetrieveMany(Model: TMarmotaModelClass; const IDs: array of Int64): TObjectList;
    /// Returns new models, which the caller frees with the list.
    function RetrieveList(Model: TMarmotaModelClass; const Filter: RawUtf8 = '';
      const Order: RawUtf8 = ''; Limit: UInt64 = 0): TObjectList;
    /// Deletes a row; false if it does not exist.
    function Delete(Model: TMarmotaModelClass; ID: Int64): Boolean;
    /// Deletes the rows of a filter, and returns their number.
    function DeleteWhere(Model: TMarmotaModelClass; const Filter: RawUtf8): UInt64;
    function Count(Model: TMarmotaModelClass; const Filter: RawUtf8 = ''): UInt64;
    /// Returns a cursor over rows; the columns are the ID and the published properties.
    function Cursor(Model: TMarmotaModelClass; const Filter: RawUtf8 = '';
      const Order: RawUtf8 = ''; Limit: UInt64 = 0): TMarmotaCursor;
    /// Begins a batch of this thread.
    procedure BatchStart;
    procedure BatchAdd(Model: TMarmotaModel);
    procedure BatchUpdate(Model: TMarmotaModel);
    procedure BatchDelete(Model: TMarmotaModelClass; ID: Int64);
    /// Sends the batch: all or nothing. Returns the ID of each write that is an insert.
    function BatchSend: TInt64s;
    /// Sends the batch after a route, before its answer: TMarmotaContext.AnswerAfterBatch calls it.
    procedure BatchSendBefore(Request: TMarmotaHandle);
    procedure TransactionBegin;
    procedure Commit;
    procedure RollBack;
    /// Runs SQL that reads. The arguments are those of its parameters.
    function Query(const SQL: RawUtf8; const Args: array of const): TMarmotaCursor;
    /// Runs SQL that changes rows, and returns their number.
    function Execute(const SQL: RawUtf8; const Args: array of const): UInt64;
    function ToJson(Model: TMarmotaModel): RawUtf8;
    /// Sets the properties of a model that a JSON object has.
    procedure FromJson(const Json: RawUtf8; Model: TMarmotaModel);
  end;

implementation

type
  /// The transaction and the batch of a thread, and the store that they belong to.
  TThreadState = record
    Store: TMarmotaStore;
    Transaction: TMarmotaHandle;
    Batch: TMarmotaHandle;
    Inserts: array of Boolean;
    Count: Integer;
  end;

threadvar
  State: TThreadState;

{ TMarmotaCursor }

destructor TMarmotaCursor.Destroy;
begin
  marmota_cursor_free(fHandle);
  inherited;
end;

function TMarmotaCursor.Next: Boolean;
var
  code: Integer;
begin
  code := marmota_cursor_next(fHandle, fRow, fCount);
  result := code = MARMOTA_OK;
  if code = MARMOTA_END then
    fCount := 0
  else
    Check(code);
end;

function TMarmotaCursor.At(Column: Integer): PMarmotaValue;
begin
  if (Column < 0) or (NativeUInt(Column) >= fCount) then
    raise EMarmota.CreateFmt('column %d: the row has %d columns', [Column, Integer(fCount)]);
  result := fRow;
  Inc(result, Column);
end;

function TMarmotaCursor.ColumnCount: Integer;
var
  count: NativeUInt;
begin
  Check(marmota_cursor_columns(fHandle, count));
  result := count;
end;

function TMarmotaCursor.ColumnName(Column: Integer): RawUtf8;
var
  name: PAnsiChar;
begin
  Check(marmota_cursor_column(fHandle, Column, name));
  result := name;
end;

function TMarmotaCursor.IsNull(Column: Integer): Boolean;
begin
  result := At(Column)^.Kind <= MARMOTA_NULL;
end;

function TMarmotaCursor.Int(Column: Integer): Int64;
begin
  with At(Column)^ do
    if Kind = MARMOTA_FLOAT then
      result := Trunc(Real)
    else
      result := Int;
end;

function TMarmotaCursor.Float(Column: Integer): Double;
begin
  with At(Column)^ do
    if Kind = MARMOTA_FLOAT then
      result := Real
    else
      result := Int;
end;

function TMarmotaCursor.Text(Column: Integer): RawUtf8;
begin
  with At(Column)^ do
    case Kind of
      MARMOTA_ABSENT, MARMOTA_NULL: result := '';
      MARMOTA_TEXT, MARMOTA_BLOB, MARMOTA_JSON, MARMOTA_UUID: SetText(result, Data, Length);
      MARMOTA_FLOAT: result := RawUtf8(FloatToStr(Real));
    else
      result := RawUtf8(IntToStr(Int));
    end;
end;

{ TMarmotaStore }

constructor TMarmotaStore.Create(const URL: RawUtf8; const Models: array of TMarmotaModelClass;
  RecordChanges: Boolean);
var
  i: Integer;
  info: TMarmotaTableInfo;
  tables: RawUtf8;
  options: Cardinal;
begin
  fTables := TObjectList.Create;
  tables := '';
  for i := 0 to High(Models) do
  begin
    info := TMarmotaTableInfo.Create(Models[i]);
    fTables.Add(info);
    if i > 0 then
      tables := tables + ',';
    tables := tables + info.Definition;
  end;
  tables := '{"tables":{' + tables + '}}';
  options := 0;
  if RecordChanges then
    options := MARMOTA_RECORD_CHANGES;
  Check(marmota_store_open(PAnsiChar(URL), PAnsiChar(tables), options, fHandle));
  for i := 0 to High(Models) do
  begin
    info := TMarmotaTableInfo(fTables[i]);
    Check(marmota_table_find(fHandle, PAnsiChar(Models[i].TableName), info.Number));
  end;
end;

destructor TMarmotaStore.Destroy;
begin
  if State.Store = self then
  begin
    if State.Batch <> 0 then
      marmota_batch_free(State.Batch);
    if State.Transaction <> 0 then
      marmota_transaction_rollback(State.Transaction);
    Finalize(State);
    FillChar(State, SizeOf(State), 0);
  end;
  if fHandle <> 0 then
    marmota_store_close(fHandle);
  fTables.Free;
  inherited;
end;

function TMarmotaStore.Target: TMarmotaHandle;
begin
  if (State.Store = self) and (State.Transaction <> 0) then
    result := State.Transaction
  else
    result := fHandle;
end;

function TMarmotaStore.Table(aClass: TClass): TMarmotaTableInfo;
var
  i: Integer;
begin
  for i := 0 to fTables.Count - 1 do
  begin
    result := TMarmotaTableInfo(fTables.List^[i]);
    if result.ModelClass = aClass then
      exit;
  end;
  raise EMarmota.CreateFmt('%s is not a model of this store: pass it to Create', [aClass.ClassName]);
end;

function TMarmotaStore.Add(Model: TMarmotaModel): Int64;
var
  row: TMarmotaValues;
  texts: TStringArray;
  key: TMarmotaValue;
  info: TMarmotaTableInfo;
begin
  info := Table(Model.ClassType);
  info.Write(Model, row, texts);
  Check(marmota_row_insert(Target, info.Number, @row[0], Length(row), key));
  Model.ID := key.Int;
  result := key.Int;
end;

function TMarmotaStore.AddOrUpdate(Model: TMarmotaModel): Int64;
var
  row: TMarmotaValues;
  texts: TStringArray;
  key: TMarmotaValue;
  info: TMarmotaTableInfo;
begin
  info := Table(Model.ClassType);
  info.Write(Model, row, texts);
  Check(marmota_row_upsert(Target, info.Number, @row[0], Length(row), MARMOTA_UPDATE, key, nil));
  Model.ID := key.Int;
  result := key.Int;
end;

procedure TMarmotaStore.Update(Model: TMarmotaModel);
var
  row: TMarmotaValues;
  texts: TStringArray;
  info: TMarmotaTableInfo;
begin
  info := Table(Model.ClassType);
  info.Write(Model, row, texts);
  Check(marmota_row_update(Target, info.Number, @row[0], Length(row)));
end;

function KeyOf(ID: Int64): TMarmotaValue;
begin
  FillChar(result, SizeOf(result), 0);
  result.Kind := MARMOTA_INT;
  result.Int := ID;
end;

function TMarmotaStore.Retrieve(ID: Int64; Model: TMarmotaModel): Boolean;
var
  key: TMarmotaValue;
  row: PMarmotaValue;
  count: NativeUInt;
  info: TMarmotaTableInfo;
  code: Integer;
begin
  info := Table(Model.ClassType);
  key := KeyOf(ID);
  code := marmota_row_get(Target, info.Number, @key, row, count);
  result := code <> MARMOTA_NOT_FOUND;
  if not result then
    exit;
  Check(code);
  info.Read(Model, row);
end;

function TMarmotaStore.RetrieveMany(Model: TMarmotaModelClass;
  const IDs: array of Int64): TObjectList;
var
  keys: TMarmotaValues;
  row: PMarmotaValue;
  width: NativeUInt;
  one: TMarmotaModel;
  info: TMarmotaTableInfo;
  i: Integer;
begin
  info := Table(Model);
  SetLength(keys, Length(IDs));
  for i := 0 to High(IDs) do
    keys[i] := KeyOf(IDs[i]);
  Check(marmota_rows_get(Target, info.Number, PMarmotaValue(keys), Length(keys), row, width));
  result := TObjectList.Create;
  try
    result.Capacity := Length(IDs);
    for i := 0 to High(IDs) do
    begin
      // A row that does not exist has no ID.
      if row^.Kind <> MARMOTA_ABSENT then
      begin
        one := Model.Create;
        result.Add(one);
        info.Read(one, row);
      end;
      Inc(row, width);
    end;
  except
    result.Free;
    raise;
  end;
end;

function TMarmotaStore.RetrieveList(Model: TMarmotaModelClass; const Filter, Order: RawUtf8;
  Limit: UInt64): TObjectList;
var
  rows: TMarmotaCursor;
  one: TMarmotaModel;
  info: TMarmotaTableInfo;
begin
  info := Table(Model);
  result := TObjectList.Create;
  rows := nil;
  try
    rows := Cursor(Model, Filter, Order, Limit);
    while rows.Next do
    begin
      one := Model.Create;
      result.Add(one);
      info.Read(one, rows.fRow);
    end;
  except
    rows.Free;
    result.Free;
    raise;
  end;
  rows.Free;
end;

function TMarmotaStore.Delete(Model: TMarmotaModelClass; ID: Int64): Boolean;
var
  key: TMarmotaValue;
  code: Integer;
begin
  key := KeyOf(ID);
  code := marmota_row_delete(Target, Table(Model).Number, @key);
  result := code <> MARMOTA_NOT_FOUND;
  if result then
    Check(code);
end;

function TMarmotaStore.DeleteWhere(Model: TMarmotaModelClass; const Filter: RawUtf8): UInt64;
begin
  Check(marmota_rows_delete(Target, Table(Model).Number, PAnsiChar(Filter), result));
end;

function TMarmotaStore.Count(Model: TMarmotaModelClass; const Filter: RawUtf8): UInt64;
begin
  Check(marmota_rows_count(Target, Table(Model).Number, PAnsiChar(Filter), result));
end;

function TMarmotaStore.Cursor(Model: TMarmotaModelClass; const Filter, Order: RawUtf8;
  Limit: UInt64): TMarmotaCursor;
var
  handle: TMarmotaHandle;
begin
  Check(marmota_cursor_open(Target, Table(Model).Number, PAnsiChar(Filter), PAnsiChar(Order), Limit,
    handle));
  result := TMarmotaCursor.Create;
  result.fHandle := handle;
end;

procedure TMarmotaStore.BatchStart;
begin
  if State.Batch <> 0 then
    raise EMarmota.Create('this thread has a batch already: send it first');
  if (State.Store <> self) and (State.Transaction <> 0) then
    raise EMarmota.Create('this thread has a transaction of another store: end it first');
  State.Store := self;
  State.Count := 0;
  Check(marmota_batch_new(Target, State.Batch));
end;

procedure Added(IsInsert: Boolean);
begin
  if State.Count = Length(State.Inserts) then
    SetLength(State.Inserts, State.Count * 2 + 64);
  State.Inserts[State.Count] := IsInsert;
  Inc(State.Count);
end;

procedure CheckBatch(Store: TMarmotaStore);
begin
  if (State.Batch = 0) or (State.Store <> Store) then
    raise EMarmota.Create('this thread has no batch: call BatchStart first');
end;

procedure EndBatch;
begin
  marmota_batch_free(State.Batch);
  State.Batch := 0;
  State.Inserts := nil;
end;

procedure TMarmotaStore.BatchAdd(Model: TMarmotaModel);
var
  row: TMarmotaValues;
  texts: TStringArray;
  info: TMarmotaTableInfo;
begin
  CheckBatch(self);
  info := Table(Model.ClassType);
  info.Write(Model, row, texts);
  Check(marmota_batch_insert(State.Batch, info.Number, @row[0], Length(row)));
  Added(true);
end;

procedure TMarmotaStore.BatchUpdate(Model: TMarmotaModel);
var
  row: TMarmotaValues;
  texts: TStringArray;
  info: TMarmotaTableInfo;
begin
  CheckBatch(self);
  info := Table(Model.ClassType);
  info.Write(Model, row, texts);
  Check(marmota_batch_update(State.Batch, info.Number, @row[0], Length(row)));
  Added(false);
end;

procedure TMarmotaStore.BatchDelete(Model: TMarmotaModelClass; ID: Int64);
var
  key: TMarmotaValue;
begin
  CheckBatch(self);
  key := KeyOf(ID);
  Check(marmota_batch_delete(State.Batch, Table(Model).Number, @key));
  Added(false);
end;

function TMarmotaStore.BatchSend: TInt64s;
var
  count: NativeUInt;
  key: TMarmotaValue;
  i, made: Integer;
begin
  CheckBatch(self);
  try
    Check(marmota_batch_send(State.Batch, MARMOTA_ALL_OR_NOTHING, count));
    SetLength(result, State.Count);
    made := 0;
    for i := 0 to State.Count - 1 do
      if State.Inserts[i] then
      begin
        Check(marmota_batch_result(State.Batch, i, key));
        result[made] := key.Int;
        Inc(made);
      end;
    SetLength(result, made);
  finally
    EndBatch;
  end;
end;

procedure TMarmotaStore.BatchSendBefore(Request: TMarmotaHandle);
begin
  CheckBatch(self);
  try
    Check(marmota_response_after_batch(Request, State.Batch));
  finally
    EndBatch;
  end;
end;

procedure TMarmotaStore.TransactionBegin;
begin
  if (State.Transaction <> 0) or (State.Batch <> 0) then
    raise EMarmota.Create('this thread has a transaction or a batch already: end it first');
  State.Store := self;
  Check(marmota_transaction_begin(fHandle, State.Transaction));
end;

function EndTransaction(Store: TMarmotaStore): TMarmotaHandle;
begin
  if (State.Transaction = 0) or (State.Store <> Store) then
    raise EMarmota.Create('this thread has no transaction: call TransactionBegin first');
  result := State.Transaction;
  State.Transaction := 0;
end;

procedure TMarmotaStore.Commit;
begin
  Check(marmota_transaction_commit(EndTransaction(self)));
end;

procedure TMarmotaStore.RollBack;
begin
  Check(marmota_transaction_rollback(EndTransaction(self)));
end;

procedure ValuesOf(const Args: array of const; out Values: TMarmotaValues; var Texts: array of RawUtf8);
var
  i: Integer;
begin
  SetLength(Values, Length(Args));
  for i := 0 to High(Args) do
    Values[i] := ValueOf(Args[i], Texts[i]);
end;

function TMarmotaStore.Query(const SQL: RawUtf8; const Args: array of const): TMarmotaCursor;
var
  values: TMarmotaValues;
  texts: array of RawUtf8;
  handle: TMarmotaHandle;
begin
  SetLength(texts, Length(Args));
  ValuesOf(Args, values, texts);
  Check(marmota_sql_query(Target, PAnsiChar(SQL), PMarmotaValue(values), Length(values), handle));
  result := TMarmotaCursor.Create;
  result.fHandle := handle;
end;

function TMarmotaStore.Execute(const SQL: RawUtf8; const Args: array of const): UInt64;
var
  values: TMarmotaValues;
  texts: array of RawUtf8;
begin
  SetLength(texts, Length(Args));
  ValuesOf(Args, values, texts);
  Check(marmota_sql_execute(Target, PAnsiChar(SQL), PMarmotaValue(values), Length(values), result));
end;

function TMarmotaStore.ToJson(Model: TMarmotaModel): RawUtf8;
var
  row: TMarmotaValues;
  texts: TStringArray;
  json: PAnsiChar;
  length: NativeUInt;
  info: TMarmotaTableInfo;
begin
  info := Table(Model.ClassType);
  info.Write(Model, row, texts);
  Check(marmota_row_to_json(fHandle, info.Number, @row[0], System.Length(row), json, length));
  SetText(result, json, length);
end;

procedure TMarmotaStore.FromJson(const Json: RawUtf8; Model: TMarmotaModel);
var
  row: PMarmotaValue;
  count: NativeUInt;
  info: TMarmotaTableInfo;
begin
  info := Table(Model.ClassType);
  Check(marmota_row_from_json(fHandle, info.Number, PAnsiChar(Json), Length(Json), row, count));
  info.Read(Model, row);
end;

end.
