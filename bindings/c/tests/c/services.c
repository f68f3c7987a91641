// Services, clients, WebSockets, templates and columns.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *CONTRACT =
    "{\"name\":\"calculator\",\"methods\":["
    "{\"name\":\"add\",\"parameters\":[{\"name\":\"a\",\"type\":\"i64\"},{\"name\":\"b\",\"type\":\"i64\"}],"
    "\"result\":\"i64\"},{\"name\":\"reset\"}]}";

static atomic_int calls;
static marmota_handle a_call;

static int32_t calculate(marmota_handle call, const char *method, const char *arguments, void *context) {
    long long a, b;
    char result[32];
    CHECK(context == &calls);
    calls++;
    a_call = call;
    if (strcmp(method, "reset") == 0)
        return MARMOTA_OK;
    CHECK(strcmp(method, "add") == 0);
    if (sscanf(arguments, "{\"a\":%lld,\"b\":%lld}", &a, &b) != 2)
        return marmota_call_refuse(call, MARMOTA_INVALID, "`a` and `b` are integers");
    if (a == 13)
        return MARMOTA_NOT_FOUND; // without an error
    if (a == 14)
        return marmota_call_answer(call, "{");
    snprintf(result, sizeof result, "%lld", a + b);
    return marmota_call_answer(call, result);
}

static void *many_calls(void *client) {
    const char *json;
    for (int i = 0; i < 200; i++) {
        OK(marmota_client_call(*(marmota_handle *)client, "calculator.add", "[20,22]", &json, NULL));
        CHECK(strcmp(json, "42") == 0);
    }
    return NULL;
}

static void services(uint16_t port) {
    const char *paths[] = {"http://127.0.0.1:%u/services", "ws://127.0.0.1:%u/services"};
    for (int i = 0; i < 2; i++) {
        marmota_handle client;
        const char *json;
        size_t length;
        char url[64];
        snprintf(url, sizeof url, paths[i], port);
        OK(marmota_client_connect(url, NULL, &client));
        OK(marmota_client_call(client, "calculator.add", "{\"a\":1,\"b\":2}", &json, &length));
        CHECK(length == 1 && strcmp(json, "3") == 0);
        OK(marmota_client_call(client, "calculator.reset", "{}", &json, NULL));
        CHECK(strcmp(json, "null") == 0);
        CHECK(marmota_client_call(client, "calculator.add", "{\"a\":1}", &json, NULL) == MARMOTA_INVALID);
        CHECK(strcmp(marmota_error_message(), "`a` and `b` are integers") == 0);
        CHECK(marmota_client_call(client, "calculator.add", "{\"c\":1}", &json, NULL) == MARMOTA_INVALID);
        CHECK(marmota_client_call(client, "calculator.add", "{", &json, NULL) == MARMOTA_INVALID);
        CHECK(marmota_client_call(client, "calculator.div", "{}", &json, NULL) == MARMOTA_NOT_FOUND);
        CHECK(marmota_client_call(client, "calculator.add", "[13,1]", &json, NULL) == MARMOTA_BUG);
        CHECK(marmota_client_call(client, "calculator.add", "[14,1]", &json, NULL) != MARMOTA_OK);
        CHECK(marmota_call_answer(a_call, "1") == MARMOTA_THREAD);
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            CHECK(pthread_create(&threads[t], NULL, many_calls, &client) == 0);
        for (int t = 0; t < 4; t++)
            CHECK(pthread_join(threads[t], NULL) == 0);
        OK(marmota_client_free(client));
        CHECK(marmota_client_call(client, "calculator.reset", "{}", &json, NULL) == MARMOTA_HANDLE);
    }
    marmota_handle client;
    CHECK(marmota_client_connect("http://127.0.0.1:1/services", NULL, &client) == MARMOTA_REFUSED);
    CHECK(marmota_client_connect("ftp:", NULL, &client) == MARMOTA_INVALID);
    CHECK(calls > 1600);
}

static atomic_int opened, closed;
static marmota_handle kept;

// Sends each message back, and ends after "bye".
static void chat(marmota_handle socket, uint32_t event, const uint8_t *bytes, size_t length, void *context) {
    CHECK(context == NULL);
    if (event == MARMOTA_SOCKET_OPENED) {
        kept = socket;
        opened++;
    } else if (event == MARMOTA_SOCKET_CLOSED) {
        closed++;
    } else {
        CHECK(event == MARMOTA_SOCKET_TEXT);
        OK(marmota_socket_send(socket, event, bytes, length));
        if (length == 3 && memcmp(bytes, "bye", 3) == 0)
            OK(marmota_socket_close(socket, 1000, "bye"));
    }
}

static void expect(int from, const char *wanted, size_t length) {
    char read[256];
    CHECK(length <= sizeof read);
    CHECK(recv(from, read, length, MSG_WAITALL) == (ssize_t)length);
    CHECK(memcmp(read, wanted, length) == 0);
}

static void sockets(uint16_t port) {
    const char *head = "GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int to = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(to, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(send(to, head, strlen(head), 0) == (ssize_t)strlen(head));
    char byte, end[5] = "";
    while (strcmp(end, "\r\n\r\n") != 0) {
        CHECK(recv(to, &byte, 1, 0) == 1);
        memmove(end, end + 1, 3);
        end[3] = byte;
    }
    // Frames of RFC 6455; the mask is zero.
    CHECK(send(to, "\x81\x82\0\0\0\0hi", 8, 0) == 8);
    expect(to, "\x81\x02hi", 4);
    CHECK(opened == 1 && kept != 0);
    // From another thread than the connection's.
    OK(marmota_socket_send(kept, MARMOTA_SOCKET_BINARY, (const uint8_t *)"\0\1", 2));
    expect(to, "\x82\x02\0\1", 4);
    CHECK(marmota_socket_send(kept, MARMOTA_SOCKET_TEXT, (const uint8_t *)"\xff", 1) == MARMOTA_ARGUMENT);
    CHECK(marmota_socket_send(kept, 9, NULL, 0) == MARMOTA_ARGUMENT);
    CHECK(marmota_socket_close(kept, 1006, NULL) == MARMOTA_ARGUMENT);
    CHECK(send(to, "\x81\x83\0\0\0\0bye", 9, 0) == 9);
    expect(to, "\x81\x03" "bye" "\x88\x05\x03\xe8" "bye", 12);
    close(to);
    for (int i = 0; closed == 0; i++) {
        CHECK(i < 20000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int i = 0; marmota_socket_send(kept, MARMOTA_SOCKET_TEXT, NULL, 0) != MARMOTA_HANDLE; i++) {
        CHECK(i < 20000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void templates(void) {
    marmota_handle template;
    const char *text;
    size_t length;
    OK(marmota_template_new("{{#rows}}<b>{{id}} {{name}}</b>{{/rows}}{{^rows}}none{{/rows}}{{{raw}}}", &template));
    OK(marmota_template_render(template, "{\"rows\":[{\"id\":1,\"name\":\"<A>\"},{\"id\":2.5,\"name\":null}],"
                                         "\"raw\":\"<hr>\"}", &text, &length));
    CHECK(strcmp(text, "<b>1 &lt;A&gt;</b><b>2.5 </b><hr>") == 0 && length == strlen(text));
    OK(marmota_template_render(template, "{\"rows\":[]}", &text, NULL));
    CHECK(strcmp(text, "none") == 0);
    CHECK(marmota_template_render(template, "{", &text, NULL) == MARMOTA_INVALID);
    OK(marmota_template_free(template));
    CHECK(marmota_template_new("{{/rows}}", &template) == MARMOTA_INVALID);
    CHECK(marmota_template_new("{{rows", &template) == MARMOTA_INVALID);
}

static void columns(void) {
    const char *table = "{\"tables\":{\"stop\":{\"fields\":{\"id\":{\"kind\":\"integer\",\"role\":\"key\"},"
                        "\"trip\":{\"kind\":\"text\"},\"name\":{\"kind\":\"text\"}}}}}";
    FILE *file = fopen("stops.csv", "w");
    CHECK(file != NULL && fputs("name,trip,other\na,T1,1\n\"b, \"\"c\"\"\",T2,2\nd,T1,3\n", file) > 0);
    CHECK(fclose(file) == 0);
    marmota_handle stops;
    const marmota_value *value;
    const uint32_t *rows;
    const char *json;
    size_t count, length;
    OK(marmota_columns_load("stops.csv", table, &stops));
    OK(marmota_columns_count(stops, &count));
    CHECK(count == 3);
    CHECK(marmota_columns_find(stops, "trip", "T1", &rows, &count) == MARMOTA_INVALID);
    OK(marmota_columns_index(stops, "trip"));
    OK(marmota_columns_index(stops, "trip"));
    OK(marmota_columns_find(stops, "trip", "T1", &rows, &count));
    CHECK(count == 2 && rows[0] == 0 && rows[1] == 2);
    OK(marmota_columns_json(stops, "name, trip", rows, count, &json, &length));
    CHECK(strcmp(json, "[{\"name\":\"a\",\"trip\":\"T1\"},{\"name\":\"d\",\"trip\":\"T1\"}]") == 0);
    OK(marmota_columns_find(stops, "trip", "T9", &rows, &count));
    CHECK(count == 0);
    OK(marmota_columns_json(stops, "name", NULL, 0, &json, NULL));
    CHECK(strcmp(json, "[]") == 0);
    OK(marmota_columns_value(stops, 1, "name", &value));
    CHECK(value->length == 6 && memcmp(value->data, "b, \"c\"", 6) == 0);
    CHECK(marmota_columns_value(stops, 3, "name", &value) == MARMOTA_ARGUMENT);
    CHECK(marmota_columns_json(stops, "name", &(uint32_t){3}, 1, &json, NULL) == MARMOTA_ARGUMENT);
    CHECK(marmota_columns_json(stops, "other", NULL, 0, &json, NULL) == MARMOTA_INVALID);
    CHECK(marmota_columns_index(stops, "other") == MARMOTA_INVALID);
    OK(marmota_columns_free(stops));
    CHECK(marmota_columns_count(stops, &count) == MARMOTA_HANDLE);
    CHECK(marmota_columns_load("missing.csv", table, &stops) == MARMOTA_NOT_FOUND);
    CHECK(marmota_columns_load("stops.csv", "{\"tables\":{}}", &stops) == MARMOTA_ARGUMENT);
}

int main(void) {
    marmota_handle server;
    uint16_t port;
    OK(marmota_server_new("127.0.0.1:0", &server));
    CHECK(marmota_server_service(server, "{}", calculate, &calls) == MARMOTA_INVALID);
    CHECK(marmota_server_service(server, CONTRACT, NULL, &calls) == MARMOTA_ARGUMENT);
    OK(marmota_server_service(server, CONTRACT, calculate, &calls));
    CHECK(marmota_server_service(server, CONTRACT, calculate, &calls) == MARMOTA_CONFLICT);
    OK(marmota_server_websocket(server, "/chat", chat, NULL));
    OK(marmota_server_start(server));
    OK(marmota_server_port(server, &port));
    services(port);
    sockets(port);
    templates();
    columns();
    OK(marmota_server_free(server));
    puts("ok");
    return 0;
}
