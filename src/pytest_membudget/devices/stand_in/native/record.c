/* What the libraries were asked for: functions that nobody has thought about, and the number of launches. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;
static char *names; /* each with a newline */
static size_t names_bytes;
static uintptr_t last_handle = 0x10000;

void lock_state(void) { pthread_mutex_lock(&state); }

void unlock_state(void) { pthread_mutex_unlock(&state); }

static void renew_lock(void) {
    /* The child's only thread is not the one that POSIX lets unlock it. */
    pthread_mutex_init(&state, NULL);
}

__attribute__((constructor)) static void keep_lock_over_forks(void) {
    pthread_atfork(lock_state, unlock_state, renew_lock);
}

static int is_recorded(const char *name, size_t length) {
    for (const char *line = names; line && *line; line = strchr(line, '\n') + 1)
        if (!strncmp(line, name, length) && line[length] == '\n')
            return 1;
    return 0;
}

void not_modelled(const char *function) {
    size_t length = strlen(function);
    lock_state();
    if (!is_recorded(function, length)) {
        char *longer = realloc(names, names_bytes + length + 2);
        if (!longer)
            abort(); /* a name that is lost would be a silent success */
        names = longer;
        memcpy(names + names_bytes, function, length);
        names_bytes += length + 1;
        names[names_bytes - 1] = '\n';
        names[names_bytes] = 0;
    }
    unlock_state();
}

/* The names, one a line; the text is the caller's to free() by stand_in_free_text(). */
EXPORTED char *stand_in_not_modelled(void) {
    lock_state();
    char *copy = strdup(names ? names : "");
    unlock_state();
    return copy;
}

EXPORTED void stand_in_free_text(char *text) { free(text); }

EXPORTED void stand_in_forget_not_modelled(void) {
    lock_state();
    if (names)
        *names = 0;
    names_bytes = 0;
    unlock_state();
}

void *new_handle(void) { return (void *)__atomic_add_fetch(&last_handle, 64, __ATOMIC_RELAXED); }
