// Uses every part of the interface once, and compares what comes back.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static marmota_handle store;
static marmota_table person;

static int64_t insert(const char *name, double height) {
    marmota_value row[4] = {absent(), text(name), real(height), {.kind = MARMOTA_NULL}}, key;
    OK(marmota_row_insert(store, person, row, 4, &key));
    CHECK(key.kind == MARMOTA_INT);
    return key.integer;
}

static void verbs(void) {
    const marmota_value *row;
    size_t count;
    int64_t id = insert("Ada", 1.65);
    marmota_value key = integer(id);
    OK(marmota_row_get(store, person, &key, &row, &count));
    CHECK(count == 4 && row[0].integer == id && row[2].real == 1.65 && row[3].kind == MARMOTA_NULL);
    CHECK(row[1].length == 3 && strcmp((const char *)row[1].data, "Ada") == 0);

    marmota_value bytes = {.kind = MARMOTA_BLOB, .data = (const uint8_t *)"\0\1\2", .length = 3};
    marmota_value patch[4] = {key, absent(), absent(), bytes};
    OK(marmota_row_patch(store, person, patch, 4));
    OK(marmota_row_get(store, person, &key, &row, NULL));
    CHECK(row[3].kind == MARMOTA_BLOB && row[3].length == 3 && row[3].data[2] == 2);
    marmota_value whole[4] = {key, text("Ada Lovelace"), absent(), absent()};
    OK(marmota_row_update(store, person, whole, 4));
    OK(marmota_row_get(store, person, &key, &row, NULL));
    CHECK(row[2].kind == MARMOTA_NULL && row[3].kind == MARMOTA_BLOB);

    marmota_value again[4] = {key, text("Ada"), real(1.7), {.kind = MARMOTA_NULL}}, made;
    uint32_t effect;
    OK(marmota_row_upsert(store, person, again, 4, MARMOTA_UPDATE, &made, &effect));
    CHECK(effect == MARMOTA_UPDATE && made.integer == id);

    marmota_value twin[4] = {absent(), text("Ada"), absent(), absent()};
    CHECK(marmota_row_insert(store, person, twin, 4, NULL) == MARMOTA_CONFLICT);
    CHECK(marmota_error_count() == 1 && strcmp(marmota_error_field(0), "name") == 0);
    twin[1] = text("a name that has more than twenty letters");
    CHECK(marmota_row_insert(store, person, twin, 4, NULL) == MARMOTA_INVALID);
    CHECK(strcmp(marmota_error_rule(0), "max") == 0 && strcmp(marmota_error_kind(), "invalid") == 0);
    CHECK(strstr(marmota_error_problem(), "\"status\":422") != NULL);

    OK(marmota_row_delete(store, person, &key));
    CHECK(marmota_row_get(store, person, &key, &row, NULL) == MARMOTA_NOT_FOUND);
    CHECK(strstr(marmota_error_message(), "person") != NULL && !marmota_error_retryable());
}

static void json(void) {
    const char *object = "{\"name\":\"Grace\",\"height\":1.6}", *text;
    const marmota_value *row;
    size_t count, length;
    marmota_value key;
    OK(marmota_row_from_json(store, person, (const uint8_t *)object, strlen(object), &row, &count));
    OK(marmota_row_insert(store, person, row, count, &key));
    OK(marmota_row_get(store, person, &key, &row, &count));
    OK(marmota_row_to_json(store, person, row, count, &text, &length));
    CHECK(length == strlen(text) && strstr(text, "\"name\":\"Grace\",\"height\":1.6") != NULL);
    OK(marmota_row_delete(store, person, &key));
}

static bool sum(const marmota_value *row, size_t count, void *context) {
    CHECK(count == 4);
    *(int64_t *)context += row[0].integer;
    return true;
}

static void lists(void) {
    marmota_handle batch, cursor, transaction;
    const marmota_value *row;
    const char *name;
    size_t count, sent;
    char names[3][16];
    OK(marmota_batch_new(store, &batch));
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i % 3], sizeof names[0], "p%03d", i);
        marmota_value one[4] = {integer(i + 1), text(names[i % 3]), real(i), absent()};
        OK(marmota_batch_insert(batch, person, one, 4));
    }
    OK(marmota_batch_send(batch, MARMOTA_ALL_OR_NOTHING, &sent));
    CHECK(sent == 1000);
    marmota_value gone = integer(5000);
    OK(marmota_batch_delete(batch, person, &gone));
    OK(marmota_batch_send(batch, MARMOTA_EACH, &sent));
    CHECK(sent == 0 && marmota_batch_result(batch, 0, NULL) == MARMOTA_NOT_FOUND);
    OK(marmota_batch_free(batch));

    const marmota_value keys[4] = {integer(7), integer(5000), integer(3), integer(7)};
    OK(marmota_rows_get(store, person, keys, 4, &row, &count));
    CHECK(count == 4 && row[0].integer == 7 && strcmp((const char *)row[1].data, "p006") == 0);
    CHECK(row[4].kind == MARMOTA_ABSENT && row[7].kind == MARMOTA_ABSENT);
    CHECK(row[8].integer == 3 && row[12].integer == 7 && row[14].real == 6);
    OK(marmota_rows_get(store, person, NULL, 0, &row, NULL));
    CHECK(marmota_rows_get(store, person, keys, 1 << 17, &row, NULL) == MARMOTA_ARGUMENT);

    OK(marmota_cursor_open(store, person, "height>=100", "-height", 0, &cursor));
    OK(marmota_cursor_columns(cursor, &count));
    OK(marmota_cursor_column(cursor, 1, &name));
    CHECK(count == 4 && strcmp(name, "name") == 0);
    int64_t rows = 0;
    int status;
    while ((status = marmota_cursor_next(cursor, &row, &count)) == MARMOTA_OK) {
        CHECK(row[2].real == 999 - rows);
        rows++;
    }
    CHECK(status == MARMOTA_END && rows == 900);
    CHECK(marmota_cursor_next(cursor, &row, &count) == MARMOTA_END);
    OK(marmota_cursor_free(cursor));
    OK(marmota_cursor_open(store, person, NULL, NULL, 70, &cursor));
    for (rows = 0; marmota_cursor_next(cursor, &row, NULL) == MARMOTA_OK; rows++) {
    }
    CHECK(rows == 70);
    OK(marmota_cursor_free(cursor));

    int64_t total = 0;
    OK(marmota_rows_each(store, person, NULL, NULL, 0, sum, &total));
    CHECK(total == 500500);

    uint64_t number;
    OK(marmota_transaction_begin(store, &transaction));
    OK(marmota_rows_delete(transaction, person, "id>10", &number));
    CHECK(number == 990);
    OK(marmota_rows_count(transaction, person, "", &number));
    CHECK(number == 10);
    OK(marmota_transaction_rollback(transaction));
    CHECK(marmota_transaction_free(transaction) == MARMOTA_HANDLE);
    OK(marmota_transaction_begin(store, &transaction));
    OK(marmota_rows_delete(transaction, person, "id>500", NULL));
    OK(marmota_transaction_commit(transaction));
    OK(marmota_rows_count(store, person, NULL, &number));
    CHECK(number == 500);

    marmota_value limit = integer(3);
    OK(marmota_sql_query(store, "SELECT id AS n FROM person WHERE id <= ? ORDER BY id", &limit, 1, &cursor));
    OK(marmota_cursor_next(cursor, &row, &count));
    OK(marmota_cursor_column(cursor, 0, &name));
    CHECK(count == 1 && row[0].integer == 1 && strcmp(name, "n") == 0);
    OK(marmota_cursor_free(cursor));
    OK(marmota_sql_execute(store, "UPDATE person SET height = 2 WHERE id <= ?", &limit, 1, &number));
    CHECK(number == 3);
}

static atomic_int inserted, added, ready, logged;

static void on_change(const marmota_event *event, void *context) {
    (void)context;
    if (event->kind == MARMOTA_INSERTED && strcmp(event->table, "person") == 0) {
        CHECK(event->count == 4);
        inserted++;
    }
}

static void on_page(const marmota_event *event, void *context) {
    (void)context;
    added += event->kind == MARMOTA_ADD;
    ready += event->kind == MARMOTA_READY;
}

static void on_log(uint32_t level, const char *target, const char *message, void *context) {
    (void)level, (void)target, (void)message, (void)context;
    logged++;
}

static void wait_for(atomic_int *number, int at_least) {
    for (int i = 0; *number < at_least; i++) {
        CHECK(i < 10000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void events(void) {
    marmota_handle changes, live;
    OK(marmota_changes_subscribe(store, on_change, NULL, &changes));
    OK(marmota_live_open(store, person, "name~'live'", "id", 10, on_page, NULL, &live));
    wait_for(&ready, 1);
    insert("live 1", 1);
    insert("other", 1);
    wait_for(&added, 1);
    wait_for(&inserted, 2);
    OK(marmota_subscription_free(changes));
    OK(marmota_subscription_free(live));
    CHECK(marmota_subscription_free(live) == MARMOTA_HANDLE);
}

static int32_t hello(marmota_handle request, void *context) {
    const char *name, *method, *path;
    const uint8_t *body;
    size_t length;
    OK(marmota_request_method(request, &method, NULL));
    CHECK(strcmp(method, "POST") == 0);
    OK(marmota_request_path(request, &path, NULL));
    CHECK(strncmp(path, "/hello/", 7) == 0);
    CHECK(marmota_request_header(request, "x-missing", &name, NULL) == MARMOTA_NOT_FOUND);
    OK(marmota_request_body(request, &body, &length));
    int status = marmota_request_param(request, "name", &name, &length);
    if (status != MARMOTA_OK || length > 10)
        return marmota_response_problem(request, 400, "the name is too long");
    *(marmota_handle *)context = request;
    CHECK(marmota_response_header(request, "a b", "c") == MARMOTA_ARGUMENT);
    OK(marmota_response_header(request, "X-Name", name));
    OK(marmota_response_status(request, 201));
    return marmota_response_body(request, "text/plain", (const uint8_t *)name, length);
}

static int32_t fails(marmota_handle request, void *context) {
    (void)request, (void)context;
    const marmota_value *row;
    marmota_value key = integer(-1);
    return marmota_row_get(store, person, &key, &row, NULL);
}

// A code without a call that failed: the error of an earlier request is not sent.
static int32_t no_error(marmota_handle request, void *context) {
    (void)request, (void)context;
    return MARMOTA_NOT_FOUND;
}

// Answers after the batch that it makes is committed; its row has the key 6000.
static int32_t later(marmota_handle request, void *context) {
    (void)context;
    marmota_handle batch, transaction;
    marmota_value row[4] = {integer(6000), text("later"), absent(), absent()};
    OK(marmota_transaction_begin(store, &transaction));
    OK(marmota_batch_new(transaction, &batch));
    CHECK(marmota_response_after_batch(request, batch) == MARMOTA_ARGUMENT);
    OK(marmota_batch_free(batch));
    OK(marmota_transaction_rollback(transaction));
    OK(marmota_batch_new(store, &batch));
    OK(marmota_batch_insert(batch, person, row, 4));
    OK(marmota_response_status(request, 201));
    OK(marmota_response_header(request, "X-Key", "6000"));
    OK(marmota_response_body(request, "text/plain", (const uint8_t *)"later", 5));
    OK(marmota_response_after_batch(request, batch));
    CHECK(marmota_response_after_batch(request, batch) == MARMOTA_ARGUMENT);
    return marmota_batch_free(batch);
}

// Sends a request, and returns the answer.
static void fetch(uint16_t port, const char *head, char *answer, size_t size) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int to = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(to, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(send(to, head, strlen(head), 0) == (ssize_t)strlen(head));
    size_t filled = 0;
    ssize_t bytes;
    while (filled + 1 < size && (bytes = recv(to, answer + filled, size - 1 - filled, 0)) > 0)
        filled += bytes;
    answer[filled] = 0;
    close(to);
}

#define REST "\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

static void server(void) {
    marmota_handle served, request = 0;
    uint16_t port;
    char answer[4096];
    const char *path;
    OK(marmota_server_new("127.0.0.1:0", &served));
    OK(marmota_server_threads(served, 2));
    OK(marmota_server_rest(served, store, "/api"));
    OK(marmota_server_route(served, "POST", "/hello/{name}", hello, &request));
    OK(marmota_server_route(served, "POST", "/later", later, NULL));
    OK(marmota_server_route(served, "GET", "/fails", fails, NULL));
    OK(marmota_server_route(served, "GET", "/no-error", no_error, NULL));
    CHECK(marmota_server_port(served, &port) == MARMOTA_CLOSED);
    OK(marmota_server_start(served));
    CHECK(marmota_server_start(served) == MARMOTA_CONFLICT);
    OK(marmota_server_port(served, &port));
    fetch(port, "POST /hello/Ada HTTP/1.1" REST, answer, sizeof answer);
    CHECK(strncmp(answer, "HTTP/1.1 201", 12) == 0 && strstr(answer, "X-Name: Ada") != NULL);
    CHECK(strcmp(answer + strlen(answer) - 7, "\r\n\r\nAda") == 0);
    CHECK(request != 0 && marmota_request_path(request, &path, NULL) == MARMOTA_THREAD);
    fetch(port, "POST /hello/a-name-that-is-long HTTP/1.1" REST, answer, sizeof answer);
    CHECK(strncmp(answer, "HTTP/1.1 400", 12) == 0 && strstr(answer, "problem+json") != NULL);
    fetch(port, "POST /later HTTP/1.1" REST, answer, sizeof answer);
    CHECK(strncmp(answer, "HTTP/1.1 201", 12) == 0 && strstr(answer, "X-Key: 6000") != NULL);
    CHECK(strcmp(answer + strlen(answer) - 9, "\r\n\r\nlater") == 0);
    fetch(port, "POST /later HTTP/1.1" REST, answer, sizeof answer);
    CHECK(strncmp(answer, "HTTP/1.1 409", 12) == 0 && strstr(answer, "X-Key") == NULL);
    // On each thread of the server.
    for (int round = 0; round < 8; round++) {
        fetch(port, "GET /fails HTTP/1.1" REST, answer, sizeof answer);
        CHECK(strncmp(answer, "HTTP/1.1 404", 12) == 0 && strstr(answer, "not-found") != NULL);
        fetch(port, "GET /no-error HTTP/1.1" REST, answer, sizeof answer);
        CHECK(strncmp(answer, "HTTP/1.1 500", 12) == 0 && strstr(answer, "not-found") == NULL);
    }
    fetch(port, "GET /api/person/3 HTTP/1.1" REST, answer, sizeof answer);
    CHECK(strncmp(answer, "HTTP/1.1 200", 12) == 0 && strstr(answer, "\"height\":2") != NULL);
    OK(marmota_server_stop(served));
    OK(marmota_server_free(served));
}

int main(void) {
    OK(marmota_log_set(on_log, NULL, 4));
    OK(marmota_store_open("sqlite:people.db", TABLES, MARMOTA_RECORD_CHANGES, &store));
    OK(marmota_table_find(store, "person", &person));
    size_t count, field;
    const char *name;
    uint32_t kind;
    OK(marmota_table_fields(store, person, &count));
    OK(marmota_field_find(store, person, "height", &field));
    OK(marmota_field_describe(store, person, 1, &name, &kind));
    CHECK(count == 4 && field == 2 && kind == MARMOTA_TEXT && strcmp(name, "name") == 0);
    CHECK(strlen(marmota_version()) >= 5);
    verbs();
    json();
    lists();
    events();
    server();
    OK(marmota_store_close(store));
    CHECK(marmota_store_close(store) == MARMOTA_HANDLE);
    OK(marmota_log_set(NULL, NULL, 0));
    puts("ok");
    return 0;
}
