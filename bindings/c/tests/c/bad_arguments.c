// Calls functions with random arguments: null, other kinds of handles, freed handles, numbers out of
// range, text that is not UTF-8, handles of other threads. Each call returns a code.
// Arguments of the program: a seed and a number of calls.
#include "check.h"

#include <pthread.h>

static uint64_t state;

static uint64_t next(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static marmota_handle handles[64];
static const char *texts[] = {NULL, "{}", "{\"name\":\"a\",\"methods\":[]}", "{{a}}", "a.b", "", "person", "id", "name", "GET", "/x/{a}", "/", "\xff\xfe",
                              "id>0", "-id", "memory:", "nothing:", "SELECT 1", "{", "127.0.0.1:0",
                              "DELETE FROM person", "a\r\nb", "id=1 and (", "name~'a'"};

static const char *any_text(void) {
    return texts[next(sizeof texts / sizeof *texts)];
}

static marmota_handle any_handle(void) {
    switch (next(8)) {
    case 0: return 0;
    case 1: return state;
    case 2: return handles[next(64)] ^ (1ull << next(64));
    default: return handles[next(64)];
    }
}

static void keep(marmota_handle handle) {
    handles[next(64)] = handle;
}

static marmota_value any_value(void) {
    marmota_value value = {.kind = (uint32_t)next(15), .integer = (int64_t)(state >> next(64))};
    const char *bytes = any_text();
    value.data = (const uint8_t *)bytes;
    value.length = bytes ? strlen(bytes) : next(2) * 16;
    return value;
}

static bool stop(const marmota_value *row, size_t count, void *context) {
    (void)row, (void)count, (void)context;
    return next(2);
}

static void on_event(const marmota_event *event, void *context) {
    (void)event, (void)context;
}

static int32_t handler(marmota_handle request, void *context) {
    (void)context;
    return marmota_response_body(request, "text/plain", NULL, 0);
}

static int32_t on_call(marmota_handle call, const char *method, const char *arguments, void *context) {
    (void)call, (void)method, (void)arguments, (void)context;
    return MARMOTA_OK;
}

static void on_socket(marmota_handle socket, uint32_t event, const uint8_t *bytes, size_t length, void *context) {
    (void)socket, (void)event, (void)bytes, (void)length, (void)context;
}

static int call(uint64_t function) {
    marmota_value row[4] = {any_value(), any_value(), any_value(), any_value()}, key;
    const marmota_value *values = next(8) ? row : NULL, *lent;
    size_t count = next(8) ? 4 : next(5), size;
    marmota_handle from = any_handle(), made = 0;
    marmota_handle *out = next(8) ? &made : NULL;
    marmota_table table = next(8) ? 0 : (uint32_t)state;
    const char *text;
    const uint8_t *bytes;
    uint64_t number;
    uint32_t kind;
    uint16_t port;
    int status;
    switch (function) {
    case 0: status = marmota_store_open("memory:", next(4) ? TABLES : any_text(), (uint32_t)next(3), out); break;
    case 1: return next(16) ? MARMOTA_OK : marmota_store_close(from);
    case 2: return marmota_table_find(from, any_text(), &table);
    case 3: return marmota_table_fields(from, table, &size);
    case 4: return marmota_field_find(from, table, any_text(), &size);
    case 5: return marmota_field_describe(from, table, next(6), &text, &kind);
    case 6: return marmota_row_insert(from, table, values, count, next(2) ? &key : NULL);
    case 7: return marmota_row_upsert(from, table, values, count, (uint32_t)next(5), &key, &kind);
    case 8: return marmota_row_get(from, table, values, next(8) ? &lent : NULL, &size);
    case 9: return marmota_row_update(from, table, values, count);
    case 10: return marmota_row_patch(from, table, values, count);
    case 11: return marmota_row_delete(from, table, values);
    case 12: return marmota_rows_count(from, table, any_text(), next(8) ? &number : NULL);
    case 13: return marmota_row_to_json(from, table, values, count, &text, NULL);
    case 14: return marmota_row_from_json(from, table, (const uint8_t *)"{\"id\":1}", next(9), &lent, &size);
    case 15: status = marmota_cursor_open(from, table, any_text(), any_text(), next(3), out); break;
    case 16: return marmota_cursor_next(from, next(8) ? &lent : NULL, &size);
    case 17: return marmota_cursor_column(from, next(6), &text);
    case 18: return marmota_cursor_free(from);
    case 19: return marmota_rows_each(from, table, any_text(), any_text(), 3, next(4) ? stop : NULL, NULL);
    case 20: status = marmota_transaction_begin(next(4) ? from : 0, out);
        if (status == MARMOTA_OK && next(2)) return marmota_transaction_rollback(made);
        if (status == MARMOTA_OK) return marmota_transaction_commit(made);
        return status;
    case 21: status = marmota_batch_new(from, out); break;
    case 22: return marmota_batch_insert(from, table, values, count);
    case 23: return marmota_batch_upsert(from, table, values, count, (uint32_t)next(5));
    case 24: return marmota_batch_patch(from, table, values, count);
    case 25: return marmota_batch_send(from, (uint32_t)next(3), &size);
    case 26: return marmota_batch_result(from, next(4), &key);
    case 27: return marmota_batch_free(from);
    case 28: status = marmota_sql_query(from, any_text(), values, next(2), out); break;
    case 29: status = marmota_live_open(from, table, any_text(), any_text(), 2, next(4) ? on_event : NULL, NULL, out); break;
    case 30: return marmota_subscription_free(from);
    case 31: status = marmota_server_new(any_text(), out); break;
    case 32: return marmota_server_route(from, any_text(), any_text(), next(4) ? handler : NULL, NULL);
    case 33: return marmota_server_rest(from, any_handle(), any_text());
    case 34: return marmota_server_port(from, &port);
    case 35: return marmota_server_free(from);
    case 36: return marmota_request_body(from, &bytes, &size);
    case 37: return marmota_request_param(from, any_text(), &text, NULL);
    case 38: return marmota_response_status(from, (uint16_t)state);
    case 39: return marmota_log_set(NULL, NULL, (uint32_t)next(7));
    case 40: return marmota_transaction_commit(from);
    case 41: return next(32) ? MARMOTA_OK : marmota_server_start(from);
    case 42: status = marmota_client_connect(any_text(), any_text(), out); break;
    case 43: return marmota_client_call(from, any_text(), any_text(), next(8) ? &text : NULL, &size);
    case 44: return marmota_client_free(from);
    case 45: status = marmota_template_new(any_text(), out); break;
    case 46: return marmota_template_render(from, any_text(), next(8) ? &text : NULL, &size);
    case 47: return marmota_template_free(from);
    case 48: return marmota_server_service(from, any_text(), next(4) ? on_call : NULL, NULL);
    case 49: return marmota_server_websocket(from, any_text(), next(4) ? on_socket : NULL, NULL);
    case 50: return marmota_socket_send(from, (uint32_t)next(5), next(2) ? (const uint8_t *)"\xff" : NULL, next(2));
    case 51: return marmota_socket_close(from, (uint16_t)state, any_text());
    case 52: return marmota_call_answer(from, any_text());
    case 53: return marmota_call_refuse(from, (int32_t)next(200), any_text());
    case 54: status = marmota_columns_load(any_text(), next(4) ? TABLES : any_text(), out); break;
    case 55: return marmota_columns_index(from, any_text());
    case 56: return marmota_columns_json(from, any_text(), next(2) ? (const uint32_t *)1 : NULL, next(3), &text, &size);
    case 57: return marmota_columns_free(from);
    case 58: return marmota_rows_get(from, table, values, next(8) ? count : 1u << 31, next(8) ? &lent : NULL, &size);
    case 59: return marmota_response_after_batch(from, any_handle());
    default: return marmota_server_threads(from, next(3));
    }
    if (status == MARMOTA_OK) {
        CHECK(out != NULL && made != 0);
        keep(made);
    }
    return status;
}

static void *wrong_thread(void *cursor) {
    const marmota_value *row;
    CHECK(marmota_cursor_next(*(marmota_handle *)cursor, &row, NULL) == MARMOTA_THREAD);
    CHECK(strcmp(marmota_error_kind(), "thread") == 0);
    return NULL;
}

static marmota_handle reentered;

static bool reenter(const marmota_value *row, size_t count, void *context) {
    (void)row, (void)count, (void)context;
    uint64_t number;
    CHECK(marmota_rows_count(reentered, 0, NULL, &number) == MARMOTA_BUSY);
    return true;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    state = strtoull(argv[1], NULL, 10) * 0x9E3779B97F4A7C15ull + 1;
    marmota_handle store, cursor;
    pthread_t thread;
    OK(marmota_store_open("memory:", TABLES, 0, &store));
    OK(marmota_cursor_open(store, 0, NULL, NULL, 0, &cursor));
    CHECK(pthread_create(&thread, NULL, wrong_thread, &cursor) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    marmota_value row[4] = {absent(), text("Ada"), absent(), absent()};
    OK(marmota_transaction_begin(store, &reentered));
    OK(marmota_row_insert(reentered, 0, row, 4, NULL));
    OK(marmota_rows_each(reentered, 0, NULL, NULL, 0, reenter, NULL));
    OK(marmota_transaction_rollback(reentered));
    for (int i = 0; i < 64; i++) {
        handles[i] = i < 8 ? store : cursor;
    }
    long calls = strtol(argv[2], NULL, 10);
    unsigned long long failed[256] = {0};
    for (long i = 0; i < calls; i++) {
        int status = call(next(61));
        CHECK(status >= 0 && status < 256 && status != MARMOTA_BUG);
        CHECK(status == MARMOTA_OK || status == MARMOTA_END || strlen(marmota_error_message()) > 0);
        failed[status]++;
    }
    printf("%llu succeeded, %llu bad handles, %llu bad arguments\n", failed[MARMOTA_OK],
           failed[MARMOTA_HANDLE], failed[MARMOTA_ARGUMENT]);
    CHECK(calls < 1000 || (failed[MARMOTA_OK] > 0 && failed[MARMOTA_HANDLE] > 0));
    puts("ok");
    return 0;
}
