// What the test programs share: a check that ends the program, and values.
#ifndef CHECK_H
#define CHECK_H

#include <marmota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: last error: %s\n", __FILE__, __LINE__, #condition,         \
                    marmota_error_message());                                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK((call) == MARMOTA_OK)

static const char TABLES[] =
    "{\"tables\":{\"person\":{\"fields\":{"
    "\"id\":{\"kind\":\"integer\",\"role\":\"key\"},"
    "\"name\":{\"kind\":\"text\",\"max\":20,\"unique\":true},"
    "\"height\":{\"kind\":\"float\",\"nullable\":true},"
    "\"photo\":{\"kind\":\"blob\",\"nullable\":true}}}}}";

static inline marmota_value integer(int64_t value) {
    return (marmota_value){.kind = MARMOTA_INT, .integer = value};
}

static inline marmota_value real(double value) {
    return (marmota_value){.kind = MARMOTA_FLOAT, .real = value};
}

static inline marmota_value text(const char *value) {
    return (marmota_value){
        .kind = MARMOTA_TEXT, .data = (const uint8_t *)value, .length = strlen(value)};
}

static inline marmota_value absent(void) {
    return (marmota_value){.kind = MARMOTA_ABSENT};
}

#endif
