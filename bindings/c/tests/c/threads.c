// Threads share a store, and free handles of each other, while handlers run on a server's threads.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROWS = 200 };

static marmota_handle store;
static marmota_table person;
static atomic_uint_fast64_t shared;
static atomic_int events;

static void on_change(const marmota_event *event, void *context) {
    (void)context;
    events += event->kind == MARMOTA_INSERTED;
}

static void *work(void *argument) {
    int thread = *(int *)argument;
    for (int i = 0; i < ROWS; i++) {
        char name[20];
        snprintf(name, sizeof name, "%d-%d", thread, i);
        marmota_value row[4] = {absent(), text(name), real(i), absent()}, key;
        const marmota_value *read;
        OK(marmota_row_insert(store, person, row, 4, &key));
        OK(marmota_row_get(store, person, &key, &read, NULL));
        CHECK(strcmp((const char *)read[1].data, name) == 0);
        // Another thread may free this cursor at any moment.
        marmota_handle cursor;
        OK(marmota_cursor_open(store, person, NULL, NULL, 1, &cursor));
        marmota_handle other = atomic_exchange(&shared, cursor);
        if (other != 0)
            OK(marmota_cursor_free(other));
        int status = marmota_cursor_next(cursor, &read, NULL);
        CHECK(status == MARMOTA_OK || status == MARMOTA_HANDLE);
    }
    return NULL;
}

int main(void) {
    marmota_handle changes;
    pthread_t threads[THREADS];
    int numbers[THREADS];
    uint64_t count;
    OK(marmota_store_open("memory:", TABLES, MARMOTA_RECORD_CHANGES, &store));
    OK(marmota_table_find(store, "person", &person));
    OK(marmota_changes_subscribe(store, on_change, NULL, &changes));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(marmota_rows_count(store, person, NULL, &count));
    CHECK(count == THREADS * ROWS);
    OK(marmota_subscription_free(changes));
    CHECK(events <= THREADS * ROWS);
    OK(marmota_store_close(store));
    puts("ok");
    return 0;
}
