// Marmota's C interface. Generated from the sources; do not edit.
//
// Every function returns MARMOTA_OK or a code; then marmota_error_message() and the functions next to
// it describe the error of this thread's last failed call. No function unwinds into C.
//
// Handles are numbers. A handle that is 0, of another kind or freed is MARMOTA_HANDLE, one of another
// thread MARMOTA_THREAD, one that a running call uses MARMOTA_BUSY.
//
// Pointers are null, or aligned and valid until the call returns; results are written to them when the
// call succeeds. What is *lent* must not be changed or freed. "Until the thread's next call but one that
// lends" means: two calls of a thread that lend may be used together, the third replaces the first.
//
// A row is an array with a value for each field of the table, in the order of the table's definition.

#ifndef MARMOTA_H
#define MARMOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Success.
#define MARMOTA_OK 0

// The row, table or file does not exist.
#define MARMOTA_NOT_FOUND 1

// A unique value exists, or other rows refer to the row.
#define MARMOTA_CONFLICT 2

// The row has another version than the expected one.
#define MARMOTA_STALE 3

// Values, filters or settings are not valid; `marmota_error_field` names the fields.
#define MARMOTA_INVALID 4

// The caller may not do this.
#define MARMOTA_DENIED 5

// The caller is not authenticated.
#define MARMOTA_UNAUTHENTICATED 6

// Too many operations wait, or the handle is used by a call that has not returned.
#define MARMOTA_BUSY 7

// It took longer than allowed.
#define MARMOTA_TIMEOUT 8

// The address refused the connection; nothing was done.
#define MARMOTA_REFUSED 9

// The connection was lost: it is unknown whether the operation was executed.
#define MARMOTA_LOST 10

// The engine or this build does not support the operation.
#define MARMOTA_UNSUPPORTED 11

// The disk is full, read-only or failing.
#define MARMOTA_IO 12

// The peer violated the protocol.
#define MARMOTA_PROTOCOL 13

// The engine reported an error of another kind.
#define MARMOTA_ENGINE 14

// The store or server is closed.
#define MARMOTA_CLOSED 15

// A defect of Marmota; please report it.
#define MARMOTA_BUG 16

// The handle is zero, was freed, or is of another kind than the function needs.
#define MARMOTA_HANDLE 17

// The handle belongs to another thread.
#define MARMOTA_THREAD 18

// An argument is null, out of range or not UTF-8.
#define MARMOTA_ARGUMENT 19

// The cursor has no more rows. This is not an error.
#define MARMOTA_END 100

// A value that is not given: a write leaves its field unchanged, or gives it its default.
#define MARMOTA_ABSENT 0

// Null.
#define MARMOTA_NULL 1

// A boolean: `integer` is 0 or 1.
#define MARMOTA_BOOL 2

// An integer: `integer`.
#define MARMOTA_INT 3

// A floating-point number: `real`.
#define MARMOTA_FLOAT 4

// An amount: `integer` in ten-thousandths.
#define MARMOTA_CURRENCY 5

// UTF-8 text: `data` and `length`.
#define MARMOTA_TEXT 6

// Bytes: `data` and `length`.
#define MARMOTA_BLOB 7

// JSON as UTF-8 text: `data` and `length`.
#define MARMOTA_JSON 8

// A day: `integer` is the number of days since 1970-01-01.
#define MARMOTA_DATE 9

// A time of day: `integer` in microseconds since midnight.
#define MARMOTA_TIME 10

// A point in time: `integer` in microseconds since 1970-01-01 UTC.
#define MARMOTA_TIMESTAMP 11

// A UUID: 16 bytes at `data`; `length` is 16.
#define MARMOTA_UUID 12

// `marmota_store_open`: record changes, for `marmota_changes_subscribe`, `marmota_live_open` and the
// live queries of REST.
#define MARMOTA_RECORD_CHANGES 1

// `marmota_row_upsert`: leave a row that exists unchanged.
#define MARMOTA_IGNORE 1

// `marmota_row_upsert`: replace a row that exists.
#define MARMOTA_REPLACE 2

// `marmota_row_upsert`: update the given fields of a row that exists.
#define MARMOTA_UPDATE 3

// `marmota_batch_send`: write all or nothing.
#define MARMOTA_ALL_OR_NOTHING 0

// `marmota_batch_send`: keep the writes that succeed.
#define MARMOTA_EACH 1

// An event of the change feed: a row was inserted.
#define MARMOTA_INSERTED 1

// An event of the change feed: a row was updated.
#define MARMOTA_UPDATED 2

// An event of the change feed: a row was deleted. The row is as it was before.
#define MARMOTA_DELETED 3

// An event of the change feed: commits were removed before they were read. Read the tables again.
#define MARMOTA_GAP 4

// An event of a live query: the page is empty now; its rows follow.
#define MARMOTA_CLEAR 5

// An event of a live query: a row is added at the index.
#define MARMOTA_ADD 6

// An event of a live query: the row at the index has new values.
#define MARMOTA_CHANGE 7

// An event of a live query: the row at the index is removed.
#define MARMOTA_REMOVE 8

// An event of a live query: all changes of a commit were reported.
#define MARMOTA_READY 9

// The subscription ended: the store was closed, or reading failed. No event follows.
#define MARMOTA_ENDED 10

// A client has opened the WebSocket.
#define MARMOTA_SOCKET_OPENED 1

// A message of text was received, or is to be sent.
#define MARMOTA_SOCKET_TEXT 2

// A message of bytes was received, or is to be sent.
#define MARMOTA_SOCKET_BINARY 3

// The WebSocket has ended. Its handle is freed when the callback returns.
#define MARMOTA_SOCKET_CLOSED 4

// UTF-8 text that ends with a NUL. Null is an error where a function does not state otherwise.
typedef const char *marmota_text;

// A store, transaction, cursor, batch, subscription, server, request, call of a service, client,
// template, WebSocket or columns. Zero is no handle.
typedef uint64_t marmota_handle;

// The number of a table in its store.
typedef uint32_t marmota_table;

// A value of a row. `kind` states which of the other members count. Text that Marmota lends has a NUL
// after its last byte, which `length` does not count; text in a row of `marmota_rows_each` has none.
typedef struct marmota_value {
  // One of the `MARMOTA_` constants of kinds.
  uint32_t kind;
  // An integer, a boolean, an amount or a time.
  int64_t integer;
  // A floating-point number.
  double real;
  // Text or bytes.
  const uint8_t *data;
  // The number of bytes of `data`.
  size_t length;
} marmota_value;

// Values, one for each field of a table in its order; their number is the next argument.
typedef const struct marmota_value *marmota_row;

// Bytes; their number is the next argument. Null is permitted for no bytes.
typedef const uint8_t *marmota_bytes;

// Numbers of rows; their number is the next argument. Null is permitted for none.
typedef const uint32_t *marmota_numbers;

// A pointer that callbacks get back. Marmota never reads its target. Callbacks of servers,
// subscriptions and logs run on other threads: the target must permit that.
typedef void *marmota_context;

// Receives a row. Returns true for the next one, false to stop. The row is lent until it returns. Calls
// that use the store that is lending fail with MARMOTA_UNSUPPORTED or MARMOTA_BUSY.
typedef bool (*marmota_row_callback)(const struct marmota_value *row,
                                     size_t count,
                                     marmota_context context);

// An event. It is lent until the callback returns.
typedef struct marmota_event {
  // One of the constants above.
  uint32_t kind;
  // The name of the table; "" if the event has no row.
  const char *table;
  // The row; null if the event has none.
  const struct marmota_value *row;
  // The number of values of the row.
  size_t count;
  // The place of the row in the page of a live query.
  size_t index;
  // The number of the commit.
  uint64_t commit;
} marmota_event;

// Receives events on the subscription's thread, one after the other.
typedef void (*marmota_event_callback)(const struct marmota_event *event, marmota_context context);

// Answers a request. `request` is valid until it returns, on its thread. It returns MARMOTA_OK for the
// answer that it made, or the code of a call that failed: the client gets that error as a problem
// document.
typedef int32_t (*marmota_handler)(marmota_handle request, marmota_context context);

// Receives what happens on a WebSocket: `event` is one of the constants above, `bytes` is the message.
// It runs on the thread of the connection, one call after the other for each socket, and must not wait.
// The message is lent until it returns. `socket` may be kept and used on all threads.
typedef void (*marmota_socket_callback)(marmota_handle socket,
                                        uint32_t event,
                                        const uint8_t *bytes,
                                        size_t length,
                                        marmota_context context);

// Executes a call of a service: `method` is the name of the method, `arguments` a JSON object with the
// arguments by name. Both, and `call`, are valid until it returns, on its thread. It returns MARMOTA_OK
// after `marmota_call_answer`, or the code of a call that failed, such as `marmota_call_refuse`: the
// caller gets that error.
typedef int32_t (*marmota_service_handler)(marmota_handle call,
                                           const char *method,
                                           const char *arguments,
                                           marmota_context context);

// Receives a message of the log: its level (1 error, 2 warning, 3 information, 4 details), the part of
// the program, the text. It runs on any thread, also on several at once.
typedef void (*marmota_log_callback)(uint32_t level,
                                     const char *target,
                                     const char *message,
                                     marmota_context context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the message of the last call that failed on this thread; "" if no call has failed. The
// text is valid until the next failing call of this thread. A call that succeeds does not change it.
const char *marmota_error_message(void);

// Returns the kind of the thread's last error as a word, such as "not-found" or "invalid". The text
// is valid until the next failing call of this thread.
const char *marmota_error_kind(void);

// Returns the thread's last error as a problem document (RFC 9457), in JSON. The text is valid until
// the next failing call of this thread.
const char *marmota_error_problem(void);

// Returns the number of fields that the thread's last error names.
size_t marmota_error_count(void);

// Returns the name of a field at fault; "" if `index` is not below `marmota_error_count`. The text
// is valid until the next failing call of this thread.
const char *marmota_error_field(size_t index);

// Returns the rule that a field violates, such as "max"; "" if `index` is out of range. The text is
// valid until the next failing call of this thread.
const char *marmota_error_rule(size_t index);

// Returns what is wrong with a field; "" if `index` is out of range. The text is valid until the
// next failing call of this thread.
const char *marmota_error_detail(size_t index);

// Returns true if the call that failed on this thread may succeed when it is repeated.
bool marmota_error_retryable(void);

// Opens the store of a URL, such as "sqlite:people.db", "memory:", "postgres://user@host/app" or
// "http://host:8080/api". `tables` is an application file in JSON, {"tables": {…}}; missing tables
// and fields are created. `options` is 0 or MARMOTA_RECORD_CHANGES.
//
// Ownership: close the store with `marmota_store_close`.
// Threads: the store may be used on all threads at once.
int32_t marmota_store_open(marmota_text url,
                           marmota_text tables,
                           uint32_t options,
                           marmota_handle *store);

// Closes a store and frees its handle. Later calls with its transactions, cursors and batches fail
// with MARMOTA_CLOSED; free these handles as well. Stop servers of the store first.
//
// Threads: any thread.
int32_t marmota_store_close(marmota_handle store);

// Finds the number of a table by its name. It is valid until the store is closed.
//
// Threads: any thread.
int32_t marmota_table_find(marmota_handle store, marmota_text name, marmota_table *table);

// Returns the number of fields of a table, which is the number of values in its rows.
//
// Threads: any thread.
int32_t marmota_table_fields(marmota_handle store, marmota_table table, size_t *count);

// Finds the place of a field in rows by its name.
//
// Threads: any thread.
int32_t marmota_field_find(marmota_handle store,
                           marmota_table table,
                           marmota_text name,
                           size_t *field);

// Describes a field: its name, and the kind of its values. Either place may be null.
//
// Ownership: the name is lent until the thread's next call but one that lends.
// Threads: any thread.
int32_t marmota_field_describe(marmota_handle store,
                               marmota_table table,
                               size_t field,
                               const char **name,
                               uint32_t *kind);

// Counts the rows of a table that a filter selects; null or "" for all rows.
//
// Threads: any thread; for a transaction its thread.
int32_t marmota_rows_count(marmota_handle store,
                           marmota_table table,
                           marmota_text filter,
                           uint64_t *count);

// Inserts a row. `values` has `count` values, one for each field; an automatic key may be absent.
// `key` receives the row's key; it may be null.
//
// Ownership: a text or UUID of `key` is lent until the thread's next call but one that lends.
// Threads: any thread; for a transaction its thread.
int32_t marmota_row_insert(marmota_handle store,
                           marmota_table table,
                           marmota_row values,
                           size_t count,
                           struct marmota_value *key);

// Inserts a row, or does what `action` states if one with the same key or unique value exists:
// MARMOTA_IGNORE, MARMOTA_REPLACE or MARMOTA_UPDATE. `key` receives the key of the row. `effect`
// receives 0 for an inserted row, otherwise the action. Both may be null.
//
// Ownership: a text or UUID of `key` is lent until the thread's next call but one that lends.
// Threads: any thread; for a transaction its thread.
int32_t marmota_row_upsert(marmota_handle store,
                           marmota_table table,
                           marmota_row values,
                           size_t count,
                           uint32_t action,
                           struct marmota_value *key,
                           uint32_t *effect);

// Reads the row with a key. Fields with blobs are read too.
//
// Ownership: `*row` has `*count` values. It is lent until the thread's next call but one that lends.
// Threads: any thread; for a transaction its thread.
int32_t marmota_row_get(marmota_handle store,
                        marmota_table table,
                        marmota_row key,
                        const struct marmota_value **row,
                        size_t *count);

// Writes all fields of the row whose key is among `values`; absent fields get their default, or
// null; absent blobs are kept. If the table has a version and `values` has it, the row must have that version.
//
// Threads: any thread; for a transaction its thread.
int32_t marmota_row_update(marmota_handle store,
                           marmota_table table,
                           marmota_row values,
                           size_t count);

// Writes those fields that are not absent to the row whose key is among `values`. If the table has a
// version and `values` has it, the row must have that version.
//
// Threads: any thread; for a transaction its thread.
int32_t marmota_row_patch(marmota_handle store,
                          marmota_table table,
                          marmota_row values,
                          size_t count);

// Deletes the row with a key.
//
// Threads: any thread; for a transaction its thread.
int32_t marmota_row_delete(marmota_handle store, marmota_table table, marmota_row key);

// Deletes the rows that a filter selects; null or "" for all rows. `count` receives their number and
// may be null.
//
// Threads: any thread; for a transaction its thread.
int32_t marmota_rows_delete(marmota_handle store,
                            marmota_table table,
                            marmota_text filter,
                            uint64_t *count);

// Parses a JSON object as a row of a table. Members that are missing are absent.
//
// Ownership: `*row` has `*count` values. It is lent until the thread's next call but one that lends.
// Threads: any thread.
int32_t marmota_row_from_json(marmota_handle store,
                              marmota_table table,
                              marmota_bytes json,
                              size_t length,
                              const struct marmota_value **row,
                              size_t *count);

// Writes a row as a JSON object with the names of the fields; absent fields are left out.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: any thread.
int32_t marmota_row_to_json(marmota_handle store,
                            marmota_table table,
                            marmota_row values,
                            size_t count,
                            const char **json,
                            size_t *length);

// Connects to the services of a server, by a URL such as "http://host:8080/services", "ws:", "https:",
// "wss:" or "unix:/run/app.sock". `token` is the token of a login or a key, or null. A connection that
// breaks is made again.
//
// Ownership: end it with `marmota_client_free`.
// Threads: the client may be used on all threads at once.
int32_t marmota_client_connect(marmota_text url,
                               marmota_text token,
                               marmota_handle *client);

// Calls a method, such as "calculator.add", with a JSON object of its arguments by name, or an array.
// Returns the result as JSON. `length` may be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: any thread. It waits for the result, 30 seconds at most.
int32_t marmota_client_call(marmota_handle client,
                            marmota_text method,
                            marmota_text arguments,
                            const char **json,
                            size_t *length);

// Ends a client's connection, and frees its handle. Calls that run on other threads end first.
//
// Threads: any thread.
int32_t marmota_client_free(marmota_handle client);

// Creates an empty batch for a store or a transaction.
//
// Ownership: free it with `marmota_batch_free`.
// Threads: the batch belongs to the calling thread.
int32_t marmota_batch_new(marmota_handle store, marmota_handle *batch);

// Adds an insert to a batch; see `marmota_row_insert`. The values are copied.
//
// Threads: the batch's thread.
int32_t marmota_batch_insert(marmota_handle batch,
                             marmota_table table,
                             marmota_row values,
                             size_t count);

// Adds an upsert to a batch; see `marmota_row_upsert`. The values are copied.
//
// Threads: the batch's thread.
int32_t marmota_batch_upsert(marmota_handle batch,
                             marmota_table table,
                             marmota_row values,
                             size_t count,
                             uint32_t action);

// Adds a write of all fields of a row to a batch; see `marmota_row_update`. The values are copied.
//
// Threads: the batch's thread.
int32_t marmota_batch_update(marmota_handle batch,
                             marmota_table table,
                             marmota_row values,
                             size_t count);

// Adds a write of the fields that are not absent to a batch; see `marmota_row_patch`. The values are
// copied.
//
// Threads: the batch's thread.
int32_t marmota_batch_patch(marmota_handle batch,
                            marmota_table table,
                            marmota_row values,
                            size_t count);

// Adds a delete to a batch; see `marmota_row_delete`. The key is copied.
//
// Threads: the batch's thread.
int32_t marmota_batch_delete(marmota_handle batch, marmota_table table, marmota_row key);

// Sends the writes of a batch as one operation, in one transaction; the batch is empty afterwards.
// `mode` is MARMOTA_ALL_OR_NOTHING or MARMOTA_EACH. `count` receives the number of writes that
// succeeded, and may be null. `marmota_batch_result` has the result of each write.
//
// Threads: the batch's thread.
int32_t marmota_batch_send(marmota_handle batch, uint32_t mode, size_t *count);

// Returns the result of a write of the batch that was sent: MARMOTA_OK, or the code of its error.
// `key` receives the key of an inserted row, otherwise MARMOTA_ABSENT; it may be null.
//
// Ownership: a text or UUID of `key` is lent until the thread's next call but one that lends.
// Threads: the batch's thread.
int32_t marmota_batch_result(marmota_handle batch, size_t index, struct marmota_value *key);

// Frees a batch. Writes that were not sent are dropped.
//
// Threads: any thread, when no call uses the batch.
int32_t marmota_batch_free(marmota_handle batch);

// Loads a CSV file (RFC 4180) whose first line has names. `table` is an application file in JSON with one
// table: columns of the file with the names of its fields are kept, others are skipped. An integer key
// that the file does not have is the number of the row.
//
// Ownership: free the columns with `marmota_columns_free`.
// Threads: the columns may be used on all threads at once. Loading uses all processors.
int32_t marmota_columns_load(marmota_text path,
                             marmota_text table,
                             marmota_handle *columns);

// Returns the number of rows. Rows have the numbers from 0 on, in the order of the file.
//
// Threads: any thread.
int32_t marmota_columns_count(marmota_handle columns, size_t *count);

// Makes an index of a field, for `marmota_columns_find`. A second one has no effect.
//
// Threads: any thread.
int32_t marmota_columns_index(marmota_handle columns, marmota_text field);

// Finds the rows whose field has a text, by an index; returns their numbers in order.
//
// Ownership: the numbers are lent until the thread's next call of `marmota_columns_find`.
// Threads: any thread.
int32_t marmota_columns_find(marmota_handle columns,
                             marmota_text field,
                             marmota_text text,
                             const uint32_t **rows,
                             size_t *count);

// Returns a value of a row.
//
// Ownership: the value is lent until the thread's next call but one that lends.
// Threads: any thread.
int32_t marmota_columns_value(marmota_handle columns,
                              uint32_t row,
                              marmota_text field,
                              const struct marmota_value **value);

// Writes rows as a JSON array of objects with some fields: their names, separated by commas. `length` may
// be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: any thread.
int32_t marmota_columns_json(marmota_handle columns,
                             marmota_text fields,
                             marmota_numbers rows,
                             size_t count,
                             const char **json,
                             size_t *length);

// Frees columns.
//
// Threads: any thread.
int32_t marmota_columns_free(marmota_handle columns);

// Opens a cursor over the rows that `filter` selects (null or "" for all), in `order` ("name,-born";
// null or "" for the order of keys), at most `limit` rows (0 for all). It reads pages: each continues
// after the last row of the page before it.
//
// Ownership: free it with `marmota_cursor_free`.
// Threads: the cursor belongs to the calling thread.
int32_t marmota_cursor_open(marmota_handle store,
                            marmota_table table,
                            marmota_text filter,
                            marmota_text order,
                            uint64_t limit,
                            marmota_handle *cursor);

// Lends the next row: `*row` has `*count` values. Returns MARMOTA_END after the last row.
//
// Ownership: the row is lent until the next call with this cursor.
// Threads: the cursor's thread.
int32_t marmota_cursor_next(marmota_handle cursor, const struct marmota_value **row, size_t *count);

// Returns the number of columns of a cursor.
//
// Threads: the cursor's thread.
int32_t marmota_cursor_columns(marmota_handle cursor, size_t *count);

// Returns the name of a column of a cursor.
//
// Ownership: the name is lent until the cursor is freed.
// Threads: the cursor's thread.
int32_t marmota_cursor_column(marmota_handle cursor, size_t column, const char **name);

// Frees a cursor.
//
// Threads: any thread, when no call uses the cursor and its rows.
int32_t marmota_cursor_free(marmota_handle cursor);

// Calls `callback` with each row of a list, which the engine lends without a copy. The arguments are
// those of `marmota_cursor_open`.
//
// Threads: any thread; for a transaction its thread. The callback runs on the calling thread.
int32_t marmota_rows_each(marmota_handle store,
                          marmota_table table,
                          marmota_text filter,
                          marmota_text order,
                          uint64_t limit,
                          marmota_row_callback callback,
                          marmota_context context);

// Reads the rows with these keys, with their blobs. Each is a read of its own, but a database server
// gets all of them before the first is awaited. A row that does not exist has only absent values.
//
// Ownership: `*rows` has `count` rows with `*width` values each, in the order of the keys. They are
// lent until the thread's next call but one that lends.
// Threads: any thread; for a transaction its thread.
int32_t marmota_rows_get(marmota_handle store,
                         marmota_table table,
                         marmota_row keys,
                         size_t count,
                         const struct marmota_value **rows,
                         size_t *width);

// Opens a cursor over the rows of a SQL statement that only reads. `values` has the `count` values of
// its parameters, in order. All rows are read at once, 256 MB at most. A result without rows has no
// columns.
//
// Ownership: free the cursor with `marmota_cursor_free`.
// Threads: any thread; for a transaction its thread. The cursor belongs to the calling thread.
int32_t marmota_sql_query(marmota_handle store,
                          marmota_text sql,
                          marmota_row values,
                          size_t count,
                          marmota_handle *cursor);

// Executes a SQL statement that changes rows. `rows` receives their number, and may be null.
//
// Threads: any thread; for a transaction its thread.
int32_t marmota_sql_execute(marmota_handle store,
                            marmota_text sql,
                            marmota_row values,
                            size_t count,
                            uint64_t *rows);

// Subscribes to the changes of a store's tables that are committed from now on. The store must have
// been opened with MARMOTA_RECORD_CHANGES.
//
// Ownership: end it with `marmota_subscription_free`.
// Threads: any thread. The callback runs on a thread of the subscription.
int32_t marmota_changes_subscribe(marmota_handle store,
                                  marmota_event_callback callback,
                                  marmota_context context,
                                  marmota_handle *subscription);

// Opens a live query: the callback receives the rows of a list, then each change of that page. The
// arguments are those of `marmota_cursor_open`; a `limit` of 0 is the largest page. Blobs are absent.
// The store must have been opened with MARMOTA_RECORD_CHANGES.
//
// Ownership: end it with `marmota_subscription_free`.
// Threads: any thread. The callback runs on a thread of the subscription.
int32_t marmota_live_open(marmota_handle store,
                          marmota_table table,
                          marmota_text filter,
                          marmota_text order,
                          uint64_t limit,
                          marmota_event_callback callback,
                          marmota_context context,
                          marmota_handle *subscription);

// Ends a subscription. When it returns, the callback is not running and is not called again, except
// if the callback itself makes this call.
//
// Threads: any thread.
int32_t marmota_subscription_free(marmota_handle subscription);

// Begins a transaction. Its handle takes the place of the store's in functions on rows, batches and
// SQL.
//
// Ownership: end it with `marmota_transaction_commit`, `_rollback` or `_free`.
// Threads: the transaction belongs to the calling thread.
int32_t marmota_transaction_begin(marmota_handle store, marmota_handle *transaction);

// Commits a transaction and frees its handle, also if the commit fails: then nothing was written.
//
// Threads: the transaction's thread.
int32_t marmota_transaction_commit(marmota_handle transaction);

// Rolls back a transaction and frees its handle.
//
// Threads: the transaction's thread.
int32_t marmota_transaction_rollback(marmota_handle transaction);

// Frees a transaction, which is rolled back.
//
// Threads: any thread, when no call uses the transaction.
int32_t marmota_transaction_free(marmota_handle transaction);

// Returns the method of a request, such as "GET". `length` may be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: the handler's thread.
int32_t marmota_request_method(marmota_handle request, const char **text, size_t *length);

// Returns the path of a request, as it was sent. `length` may be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: the handler's thread.
int32_t marmota_request_path(marmota_handle request, const char **text, size_t *length);

// Returns a part of the path by its name in the pattern, or a parameter of the query; decoded.
// Returns MARMOTA_NOT_FOUND if the request has neither. `length` may be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: the handler's thread.
int32_t marmota_request_param(marmota_handle request,
                              marmota_text name,
                              const char **text,
                              size_t *length);

// Returns a header of a request. Returns MARMOTA_NOT_FOUND if it is missing or not UTF-8. `length` may
// be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: the handler's thread.
int32_t marmota_request_header(marmota_handle request,
                               marmota_text name,
                               const char **text,
                               size_t *length);

// Returns the body of a request, without a copy.
//
// Ownership: the bytes are lent until the handler returns.
// Threads: the handler's thread.
int32_t marmota_request_body(marmota_handle request, const uint8_t **bytes, size_t *length);

// Sets the status of the answer. Default: 200.
//
// Threads: the handler's thread.
int32_t marmota_response_status(marmota_handle request, uint16_t status);

// Adds a header to the answer. The content type is an argument of `marmota_response_body`.
//
// Threads: the handler's thread.
int32_t marmota_response_header(marmota_handle request, marmota_text name, marmota_text value);

// Sets the body of the answer, and its type, such as "application/json". The bytes are copied.
//
// Threads: the handler's thread.
int32_t marmota_response_body(marmota_handle request,
                              marmota_text content_type,
                              marmota_bytes bytes,
                              size_t length);

// Makes the answer a problem document (RFC 9457) with a status of 400 to 599 and a text.
//
// Threads: the handler's thread.
int32_t marmota_response_problem(marmota_handle request, uint16_t status, marmota_text detail);

// Sends the writes of a batch as `marmota_batch_send` does with MARMOTA_ALL_OR_NOTHING, but after the
// handler has returned MARMOTA_OK. The client gets the handler's answer once they are committed, and
// the error if they are not. The thread answers other requests meanwhile, whose batches share the
// commit. The batch is empty afterwards; free it. Its target is a store.
//
// Threads: the handler's thread, which is that of the batch.
int32_t marmota_response_after_batch(marmota_handle request,
                                     marmota_handle batch);

// Creates a server for an address, such as "127.0.0.1:8080", "[::]:80" or "unix:/run/app.sock". Port
// 0 is any free port.
//
// Ownership: free it with `marmota_server_free`.
// Threads: the server may be used on all threads.
int32_t marmota_server_new(marmota_text address,
                           marmota_handle *server);

// Sets the number of threads. Default: one for each processor. A callback that waits, for another
// server for example, occupies its thread: set more threads then.
//
// Threads: any thread, before the start.
int32_t marmota_server_threads(marmota_handle server, size_t threads);

// Adds the REST API of a store below a path, such as "/api". All callers may use all tables: protect
// the address.
//
// Threads: any thread, before the start.
int32_t marmota_server_rest(marmota_handle server,
                            marmota_handle store,
                            marmota_text path);

// Serves a store to other processes below a path, such as "/store": they open it by the URL
// "http://HOST:PORT/store" (or "ws:"). All callers may use all tables: protect the address.
//
// Threads: any thread, before the start.
int32_t marmota_server_store(marmota_handle server, marmota_handle store, marmota_text path);

// Adds a route: requests with the method ("GET", "POST", …) and a path that matches the pattern
// ("/people/{id}") are answered by `handler`.
//
// Threads: any thread, before the start. The handler runs on all threads of the server at once.
int32_t marmota_server_route(marmota_handle server,
                             marmota_text method,
                             marmota_text pattern,
                             marmota_handler handler,
                             marmota_context context);

// Adds a route that opens WebSockets: GET requests with a path that matches the pattern. Pages of other
// origins are refused.
//
// Threads: any thread, before the start. The callback runs on all threads of the server at once.
int32_t marmota_server_websocket(marmota_handle server,
                                 marmota_text pattern,
                                 marmota_socket_callback callback,
                                 marmota_context context);

// Adds a service. `contract` has its methods as JSON: {"name": "calculator", "methods": [{"name": "add",
// "parameters": [{"name": "a", "type": "i64"}, {"name": "b", "type": "i64"}], "result": "i64"}]}, with
// types as in Rust. Callers use it by `marmota_client_call`, stubs in Rust, `POST
// /services/calculator/add`, JSON-RPC at /services/-/rpc and WebSockets. All callers may call it:
// protect the address.
//
// Threads: any thread, before the start. The handler runs on 8 threads of the service at once.
int32_t marmota_server_service(marmota_handle server,
                               marmota_text contract,
                               marmota_service_handler handler,
                               marmota_context context);

// Binds the address and starts the server's threads. Two routes with the same pattern are an error.
//
// Threads: any thread.
int32_t marmota_server_start(marmota_handle server);

// Returns the port of a server that was started.
//
// Threads: any thread.
int32_t marmota_server_port(marmota_handle server, uint16_t *port);

// Stops a server: requests that are executing are answered. It returns when the threads have ended;
// no handler is called afterwards. The server cannot be started again.
//
// Threads: any thread but the server's own.
int32_t marmota_server_stop(marmota_handle server);

// Stops a server, if it runs, and frees its handle.
//
// Threads: any thread but the server's own.
int32_t marmota_server_free(marmota_handle server);

// Sets the result of a call, as JSON. Default: null.
//
// Threads: the handler's thread.
int32_t marmota_call_answer(marmota_handle call, marmota_text json);

// Makes an error for the caller of a call, and returns its code, for the handler to return. `code` is
// one of MARMOTA_NOT_FOUND to MARMOTA_BUG.
//
// Threads: the handler's thread.
int32_t marmota_call_refuse(marmota_handle call,
                            int32_t code,
                            marmota_text message);

// Sends a message: `kind` is MARMOTA_SOCKET_TEXT or MARMOTA_SOCKET_BINARY. It does not wait: MARMOTA_BUSY
// if 256 messages wait for a client that does not read. MARMOTA_OK does not mean that the client has it.
//
// Threads: any thread.
int32_t marmota_socket_send(marmota_handle socket,
                            uint32_t kind,
                            marmota_bytes bytes,
                            size_t length);

// Ends a WebSocket with a code that an endpoint may send, such as 1000 or 3000 to 4999, and a reason of up to 123 bytes (null for
// none). Messages that were sent before are delivered first.
//
// Threads: any thread.
int32_t marmota_socket_close(marmota_handle socket,
                             uint16_t code,
                             marmota_text reason);

// Sets the function that receives the messages of the log, up to `level` (0 none, 1 errors, 2
// warnings, 3 information, 4 details); null for none. Default: none. A call that is running when the
// function is replaced may still use the earlier one.
//
// Threads: any thread. The callback runs on all threads and must not call `marmota_log_set`.
int32_t marmota_log_set(marmota_log_callback callback,
                        marmota_context context,
                        uint32_t level);

// Reads a Mustache template: variables `{{name}}` (escaped for HTML) and `{{{name}}}`, sections
// `{{#list}}…{{/list}}` and `{{^list}}…{{/list}}`, comments. It has no partials.
//
// Ownership: free it with `marmota_template_free`.
// Threads: the template may be used on all threads at once.
int32_t marmota_template_new(marmota_text source, marmota_handle *template_);

// Renders a template with the members of a JSON object. `length` may be null.
//
// Ownership: the text is lent until the thread's next call but one that lends.
// Threads: any thread.
int32_t marmota_template_render(marmota_handle template_,
                                marmota_text json,
                                const char **text,
                                size_t *length);

// Frees a template.
//
// Threads: any thread.
int32_t marmota_template_free(marmota_handle template_);

// Returns the version of the library, such as "0.1.0". The text is valid for the whole program.
const char *marmota_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MARMOTA_H */
