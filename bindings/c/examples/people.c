// A server of people: REST under /api, and a route of its own. See bindings/c/README.md.
#include <marmota.h>
#include <stdio.h>
#include <string.h>

static const char TABLES[] =
    "{\"tables\":{\"people\":{\"fields\":{"
    "\"id\":{\"kind\":\"integer\",\"role\":\"key\"},"
    "\"name\":{\"kind\":\"text\",\"max\":40,\"not_empty\":true},"
    "\"born\":{\"kind\":\"integer\",\"nullable\":true}}}}}";

static marmota_handle store;
static marmota_table people;

// Answers the number of people who were born after a year.
static int32_t count(marmota_handle request, void *context) {
    (void)context;
    const char *year;
    char filter[64], answer[64];
    uint64_t rows;
    int status = marmota_request_param(request, "year", &year, NULL);
    if (status != MARMOTA_OK)
        return status;
    snprintf(filter, sizeof filter, "born>%s", year);
    // A year that is not a number is an error of the filter: the client gets it as a problem document.
    if ((status = marmota_rows_count(store, people, filter, &rows)) != MARMOTA_OK)
        return status;
    int length = snprintf(answer, sizeof answer, "{\"people\":%llu}", (unsigned long long)rows);
    return marmota_response_body(request, "application/json", (const uint8_t *)answer, length);
}

#define TRY(call)                                                                                  \
    if ((call) != MARMOTA_OK) {                                                                    \
        fprintf(stderr, "%s: %s\n", #call, marmota_error_message());                               \
        return 1;                                                                                  \
    }

int main(int argc, char **argv) {
    int is_check = argc > 1 && strcmp(argv[1], "--check") == 0;
    marmota_handle server;
    uint16_t port;
    TRY(marmota_store_open("sqlite:people_c.db", TABLES, 0, &store));
    TRY(marmota_table_find(store, "people", &people));
    marmota_value row[3] = {
        {.kind = MARMOTA_ABSENT},
        {.kind = MARMOTA_TEXT, .data = (const uint8_t *)"Ada", .length = 3},
        {.kind = MARMOTA_INT, .integer = 1815},
    };
    TRY(marmota_row_insert(store, people, row, 3, NULL));
    TRY(marmota_server_new(is_check ? "127.0.0.1:0" : "127.0.0.1:8080", &server));
    TRY(marmota_server_rest(server, store, "/api"));
    TRY(marmota_server_route(server, "GET", "/born-after/{year}", count, NULL));
    TRY(marmota_server_start(server));
    TRY(marmota_server_port(server, &port));
    if (!is_check) {
        printf("http://127.0.0.1:%d/api/people and /born-after/1800; Enter stops\n", port);
        getchar();
    }
    TRY(marmota_server_free(server));
    TRY(marmota_store_close(store));
    puts("ok");
    return 0;
}
