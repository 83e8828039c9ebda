/* Births and deaths of tensors' host memory, in order, while somebody records them. */
#define _GNU_SOURCE
#include "host_events.h"
#include "stand_in.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

typedef void (*birth_function)(const void *address);
typedef void *(*thread_state_function)(void);

#define FIRST_ROOM ((size_t)4096)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int is_recording;
static struct host_event *events;
/* Of the events in their room: the first that was not taken, and the end. */
static size_t first, end, room;
static size_t noted_bytes;
static birth_function on_birth;
static thread_state_function python_thread;
static __thread int is_noting __attribute__((tls_model("initial-exec")));
static __thread int is_own __attribute__((tls_model("initial-exec")));

static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&lock); }
static void follow_forks(void) { pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork); }

/* Without malloc, which may be at work in the calling thread. */
static int make_room(void) {
    if (end < room)
        return 1;
    size_t more = room ? room * 2 : FIRST_ROOM;
    size_t bytes = more * sizeof *events;
    void *start = events ? mremap(events, room * sizeof *events, bytes, MREMAP_MAYMOVE)
                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return 0;
    events = start;
    room = more;
    return 1;
}

/* Python's function is called in threads alone that Python knows: others have no line of the user's. */
static void note_birth(const void *address, size_t bytes) {
    if (!on_birth || bytes < noted_bytes || is_noting || !python_thread || !python_thread())
        return;
    is_noting = 1;
    on_birth(address);
    is_noting = 0;
}

void events_add(int what, const void *address, size_t bytes) {
    int is_kept = 0;
    if (!atomic_load_explicit(&is_recording, memory_order_relaxed) || (is_own && what != EVENT_FREED))
        return;
    pthread_mutex_lock(&lock);
    if (is_recording && make_room()) {
        events[end++] = (struct host_event){(uint64_t)(uintptr_t)address, bytes, what};
        is_kept = 1;
    }
    pthread_mutex_unlock(&lock);
    if (!is_kept)
        not_modelled("host memory: a tensor that was not recorded");
    else if (what != EVENT_FREED)
        note_birth(address, bytes);
}

/* From here on events are kept; `function` is called with each birth of `from_bytes` or more. */
EXPORTED void stand_in_host_record(birth_function function, size_t from_bytes) {
    pthread_once(&once, follow_forks);
    pthread_mutex_lock(&lock);
    python_thread = (thread_state_function)dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    on_birth = function;
    noted_bytes = from_bytes;
    first = end = 0;
    is_recording = 1;
    pthread_mutex_unlock(&lock);
}

/* Whether what this thread allocates from here on is the stand-in's own, no test's; what it was before. */
EXPORTED int stand_in_host_set_own(int own) {
    int before = is_own;
    is_own = own;
    return before;
}

EXPORTED void stand_in_host_stop(void) {
    pthread_mutex_lock(&lock);
    is_recording = 0;
    on_birth = NULL;
    pthread_mutex_unlock(&lock);
}

/* Takes the oldest events out, as many as `most`; how many there were. */
EXPORTED size_t stand_in_host_take_events(struct host_event *taken, size_t most) {
    pthread_mutex_lock(&lock);
    size_t count = end - first < most ? end - first : most;
    memcpy(taken, events + first, count * sizeof *events);
    first += count;
    if (first == end)
        first = end = 0;
    pthread_mutex_unlock(&lock);
    return count;
}
