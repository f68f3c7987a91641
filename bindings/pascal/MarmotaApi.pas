/// The functions of libmarmota for Pascal; bindings/c/include/marmota.h describes them.
unit MarmotaApi;

{$ifdef FPC}{$mode delphi}{$endif}

interface

const
  MARMOTA_LIB = 'marmota';

  MARMOTA_OK = 0;
  MARMOTA_NOT_FOUND = 1;
  MARMOTA_CONFLICT = 2;
  MARMOTA_INVALID = 4;
  MARMOTA_BUG = 16;
  MARMOTA_END = 100;

  MARMOTA_ABSENT = 0;
  MARMOTA_NULL = 1;
  MARMOTA_BOOL = 2;
  MARMOTA_INT = 3;
  MARMOTA_FLOAT = 4;
  MARMOTA_CURRENCY = 5;
  MARMOTA_TEXT = 6;
  MARMOTA_BLOB = 7;
  MARMOTA_JSON = 8;
  MARMOTA_DATE = 9;
  MARMOTA_TIME = 10;
  MARMOTA_TIMESTAMP = 11;
  MARMOTA_UUID = 12;

  MARMOTA_UPDATE = 3;
  MARMOTA_ALL_OR_NOTHING = 0;
  MARMOTA_RECORD_CHANGES = 1;

type
  TMarmotaHandle = UInt64;
  TMarmotaTable = Cardinal;
  PMarmotaHandle = ^TMarmotaHandle;

  /// A value of a row: Kind states which of the others count.
  TMarmotaValue = record
    Kind: Cardinal;
    Int: Int64;
    Real: Double;
    Data: PAnsiChar;
    Length: NativeUInt;
  end;
  PMarmotaValue = ^TMarmotaValue;
  TMarmotaValues = array of TMarmotaValue;

  TMarmotaServiceHandler = function(call: TMarmotaHandle; method, arguments: PAnsiChar;
    context: Pointer): Integer; cdecl;
  TMarmotaRequestHandler = function(request: TMarmotaHandle; context: Pointer): Integer; cdecl;

function marmota_error_message: PAnsiChar; cdecl; external MARMOTA_LIB;
function marmota_error_kind: PAnsiChar; cdecl; external MARMOTA_LIB;
function marmota_error_count: NativeUInt; cdecl; external MARMOTA_LIB;
function marmota_error_field(index: NativeUInt): PAnsiChar; cdecl; external MARMOTA_LIB;
function marmota_version: PAnsiChar; cdecl; external MARMOTA_LIB;

function marmota_store_open(url, tables: PAnsiChar; options: Cardinal;
  out store: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;
function marmota_store_close(store: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;
function marmota_table_find(store: TMarmotaHandle; name: PAnsiChar;
  out table: TMarmotaTable): Integer; cdecl; external MARMOTA_LIB;
function marmota_rows_count(store: TMarmotaHandle; table: TMarmotaTable; filter: PAnsiChar;
  out count: UInt64): Integer; cdecl; external MARMOTA_LIB;
function marmota_rows_delete(store: TMarmotaHandle; table: TMarmotaTable; filter: PAnsiChar;
  out count: UInt64): Integer; cdecl; external MARMOTA_LIB;

function marmota_row_insert(store: TMarmotaHandle; table: TMarmotaTable; values: PMarmotaValue;
  count: NativeUInt; out key: TMarmotaValue): Integer; cdecl; external MARMOTA_LIB;
function marmota_row_upsert(store: TMarmotaHandle; table: TMarmotaTable; values: PMarmotaValue;
  count: NativeUInt; action: Cardinal; out key: TMarmotaValue; effect: PCardinal): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_row_get(store: TMarmotaHandle; table: TMarmotaTable; key: PMarmotaValue;
  out row: PMarmotaValue; out count: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_rows_get(store: TMarmotaHandle; table: TMarmotaTable; keys: PMarmotaValue;
  count: NativeUInt; out rows: PMarmotaValue; out width: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_row_update(store: TMarmotaHandle; table: TMarmotaTable; values: PMarmotaValue;
  count: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_row_delete(store: TMarmotaHandle; table: TMarmotaTable;
  key: PMarmotaValue): Integer; cdecl; external MARMOTA_LIB;
function marmota_row_from_json(store: TMarmotaHandle; table: TMarmotaTable; json: PAnsiChar;
  length: NativeUInt; out row: PMarmotaValue; out count: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_row_to_json(store: TMarmotaHandle; table: TMarmotaTable; values: PMarmotaValue;
  count: NativeUInt; out json: PAnsiChar; out length: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;

function marmota_cursor_open(store: TMarmotaHandle; table: TMarmotaTable; filter, order: PAnsiChar;
  limit: UInt64; out cursor: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;
function marmota_cursor_next(cursor: TMarmotaHandle; out row: PMarmotaValue;
  out count: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_cursor_columns(cursor: TMarmotaHandle; out count: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_cursor_column(cursor: TMarmotaHandle; column: NativeUInt;
  out name: PAnsiChar): Integer; cdecl; external MARMOTA_LIB;
function marmota_cursor_free(cursor: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;

function marmota_batch_new(store: TMarmotaHandle; out batch: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_batch_insert(batch: TMarmotaHandle; table: TMarmotaTable; values: PMarmotaValue;
  count: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_batch_update(batch: TMarmotaHandle; table: TMarmotaTable; values: PMarmotaValue;
  count: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_batch_delete(batch: TMarmotaHandle; table: TMarmotaTable;
  key: PMarmotaValue): Integer; cdecl; external MARMOTA_LIB;
function marmota_batch_send(batch: TMarmotaHandle; mode: Cardinal; out count: NativeUInt): Integer;
  cdecl; external MARMOTA_LIB;
function marmota_batch_result(batch: TMarmotaHandle; index: NativeUInt;
  out key: TMarmotaValue): Integer; cdecl; external MARMOTA_LIB;
function marmota_batch_free(batch: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;

function marmota_transaction_begin(store: TMarmotaHandle; out transaction: TMarmotaHandle): Integer;
  cdecl; external MARMOTA_LIB;
function marmota_transaction_commit(transaction: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_transaction_rollback(transaction: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;

function marmota_sql_query(store: TMarmotaHandle; sql: PAnsiChar; values: PMarmotaValue;
  count: NativeUInt; out cursor: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;
function marmota_sql_execute(store: TMarmotaHandle; sql: PAnsiChar; values: PMarmotaValue;
  count: NativeUInt; out rows: UInt64): Integer; cdecl; external MARMOTA_LIB;

function marmota_server_new(address: PAnsiChar; out server: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_server_threads(server: TMarmotaHandle; threads: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_server_rest(server, store: TMarmotaHandle; path: PAnsiChar): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_server_store(server, store: TMarmotaHandle; path: PAnsiChar): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_server_route(server: TMarmotaHandle; method, pattern: PAnsiChar;
  handler: TMarmotaRequestHandler; context: Pointer): Integer; cdecl; external MARMOTA_LIB;
function marmota_server_service(server: TMarmotaHandle; contract: PAnsiChar;
  handler: TMarmotaServiceHandler; context: Pointer): Integer; cdecl; external MARMOTA_LIB;
function marmota_server_start(server: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;
function marmota_server_port(server: TMarmotaHandle; out port: Word): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_server_free(server: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;

function marmota_request_method(request: TMarmotaHandle; out text: PAnsiChar;
  out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_request_path(request: TMarmotaHandle; out text: PAnsiChar;
  out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_request_param(request: TMarmotaHandle; name: PAnsiChar; out text: PAnsiChar;
  out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_request_header(request: TMarmotaHandle; name: PAnsiChar; out text: PAnsiChar;
  out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_request_body(request: TMarmotaHandle; out bytes: PAnsiChar;
  out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_response_status(request: TMarmotaHandle; status: Word): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_response_header(request: TMarmotaHandle; name, value: PAnsiChar): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_response_body(request: TMarmotaHandle; contentType, bytes: PAnsiChar;
  length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_response_problem(request: TMarmotaHandle; status: Word;
  detail: PAnsiChar): Integer; cdecl; external MARMOTA_LIB;
function marmota_response_after_batch(request, batch: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;

function marmota_call_answer(call: TMarmotaHandle; json: PAnsiChar): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_call_refuse(call: TMarmotaHandle; code: Integer; message: PAnsiChar): Integer;
  cdecl; external MARMOTA_LIB;
function marmota_client_connect(url, token: PAnsiChar; out client: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_client_call(client: TMarmotaHandle; method, arguments: PAnsiChar;
  out json: PAnsiChar; out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_client_free(client: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;

function marmota_columns_load(path, table: PAnsiChar; out columns: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_columns_count(columns: TMarmotaHandle; out count: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_columns_index(columns: TMarmotaHandle; field: PAnsiChar): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_columns_find(columns: TMarmotaHandle; field, text: PAnsiChar; out rows: PCardinal;
  out count: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_columns_value(columns: TMarmotaHandle; row: Cardinal; field: PAnsiChar;
  out value: PMarmotaValue): Integer; cdecl; external MARMOTA_LIB;
function marmota_columns_json(columns: TMarmotaHandle; fields: PAnsiChar; rows: PCardinal;
  count: NativeUInt; out json: PAnsiChar; out length: NativeUInt): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_columns_free(columns: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;

function marmota_template_new(source: PAnsiChar; out template: TMarmotaHandle): Integer; cdecl;
  external MARMOTA_LIB;
function marmota_template_render(template: TMarmotaHandle; json: PAnsiChar; out text: PAnsiChar;
  out length: NativeUInt): Integer; cdecl; external MARMOTA_LIB;
function marmota_template_free(template: TMarmotaHandle): Integer; cdecl; external MARMOTA_LIB;

implementation

end.
