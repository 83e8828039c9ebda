/* What the host has waited for, by counting the work of each stream: an event's work is done for sure once
   somebody has waited for it, or for something that comes after it.

   Source: CUDA Runtime API 13.2, "Stream Management", "Event Management", "API synchronization behavior". */
#define _GNU_SOURCE
#include "waiting.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "stand_in.h"

/* A stream's queue has room for so many launches: whoever launches more waits for the first. The CUDA C++
   Programming Guide 13 names the queue (CUDA_SCALE_LAUNCH_QUEUES), its size is as it was seen. */
#define MOST_WAITING 1024
/* A loop that asks until work is done ends then. */
#define MOST_QUERIES 100

static uint32_t work[MOST_STREAMS]; /* by number: how much was put into it */
static int devices[MOST_STREAMS];
static struct moment after[MOST_STREAMS], known;
static int numbers = 1, default_numbers[MOST_CARDS];

/* Streams that wait for the legacy default one, and it for them, count as that one. */
static int number_of(struct stream *stream) {
    int device = stream ? stream->device : current_device();
    int *number = stream && stream->flags ? &stream->number : &default_numbers[device];
    int found = __atomic_load_n(number, __ATOMIC_RELAXED);
    if (found)
        return found;
    lock_state();
    if (!*number) {
        *number = numbers;
        devices[numbers] = device;
        numbers += numbers < MOST_STREAMS - 1; /* the last is that of all further ones */
    }
    unlock_state();
    return *number;
}

static void add(struct moment *to, const struct moment *from, int number, uint32_t count) {
    for (int index = 0; index < MOST_STREAMS; index++)
        if (to->of[index] < from->of[index])
            to->of[index] = from->of[index];
    if (to->of[number] < count)
        to->of[number] = count;
}

static int may_be_behind(int number, uint32_t count) {
    return known.of[number] < count && work[number] - count < MOST_WAITING;
}

void stream_has_work(struct stream *stream) {
    __atomic_add_fetch(&work[number_of(stream)], 1, __ATOMIC_RELAXED);
}

void mark_stream(struct stream *stream, struct mark *mark) {
    int number = number_of(stream);
    lock_state();
    *mark = (struct mark){.number = number, .count = work[number], .after = after[number]};
    unlock_state();
}

void stream_comes_after(struct stream *stream, const struct mark *mark) {
    int number = number_of(stream);
    lock_state();
    if (mark->number != number && may_be_behind(mark->number, mark->count)) {
        add(&after[number], &mark->after, mark->number, mark->count);
        work[number]++;
    }
    unlock_state();
}

static void host_waited(int number, uint32_t count, const struct moment *before) {
    lock_state();
    add(&known, before, number, count);
    unlock_state();
}

void host_waited_for_stream(struct stream *stream) {
    int number = number_of(stream);
    host_waited(number, work[number], &after[number]);
}

void host_waited_for_mark(const struct mark *mark) { host_waited(mark->number, mark->count, &mark->after); }

void host_waited_for_device(int device) {
    for (int number = 1; number <= numbers && number < MOST_STREAMS; number++)
        if (devices[number] == device)
            host_waited(number, work[number], &after[number]);
}

int mark_may_be_behind(struct mark *mark) {
    if (mark->queries++ == MOST_QUERIES)
        host_waited_for_mark(mark);
    return may_be_behind(mark->number, mark->count);
}

int stream_may_be_behind(struct stream *stream) {
    struct mark now;
    static unsigned queries;
    mark_stream(stream, &now);
    now.queries = __atomic_fetch_add(&queries, 1, __ATOMIC_RELAXED) % (MOST_QUERIES + 1);
    return mark_may_be_behind(&now);
}

static int is_late; /* whether the watchdog of process groups looks no more for a while */

EXPORTED void stand_in_delay_watchdog(int delay) { __atomic_store_n(&is_late, delay, __ATOMIC_RELAXED); }

int watchdog_is_late(struct mark *mark) {
    /* its thread's name: ProcessGroupNCCL.cpp, 2.11 to 2.14 */
    static __thread int is_watchdog = -1;
    char name[16] = "";
    if (!__atomic_load_n(&is_late, __ATOMIC_RELAXED))
        return 0;
    if (is_watchdog < 0)
        is_watchdog =
            !pthread_getname_np(pthread_self(), name, sizeof name) && !strcmp(name, "pt_nccl_watchdg");
    return is_watchdog && mark->queries++ < MOST_QUERIES;
}

int may_find_behind(void *address) {
    static __thread void *last;
    static __thread int may_find;
    Dl_info caller;
    if (address != last) {
        last = address;
        may_find = dladdr(address, &caller) && (strstr(caller.dli_fname, "libc10_cuda.so") ||
                                                strstr(caller.dli_fname, "libtorch_python.so"));
    }
    return may_find;
}
