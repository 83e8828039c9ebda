/* What the libraries were asked for and do not know: names, each once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;
/* Names, each with a newline. */
static struct names {
    char *text;
    size_t bytes;
} unknown_memory, refusals;
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

static int is_in(const char *text, const char *name, size_t length) {
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1)
        if (!strncmp(line, name, length) && line[length] == '\n')
            return 1;
    return 0;
}

static void add(struct names *names, const char *name) {
    size_t length = strlen(name);
    lock_state();
    if (!is_in(names->text, name, length)) {
        char *longer = realloc(names->text, names->bytes + length + 2);
        if (!longer)
            abort(); /* a name that is lost would be a silent success */
        names->text = longer;
        memcpy(longer + names->bytes, name, length);
        names->bytes += length + 1;
        longer[names->bytes - 1] = '\n';
        longer[names->bytes] = 0;
    }
    unlock_state();
}

void not_modelled(const char *function) { add(&unknown_memory, function); }

void note_refused(const char *function) { add(&refusals, function); }

static char *copy_of(const struct names *names) {
    lock_state();
    char *copy = strdup(names->text ? names->text : "");
    unlock_state();
    return copy;
}

/* The names, one a line; the text is the caller's to free() by stand_in_free_text(). */
EXPORTED char *stand_in_not_modelled(void) { return copy_of(&unknown_memory); }

EXPORTED char *stand_in_refused(void) { return copy_of(&refusals); }

EXPORTED void stand_in_free_text(char *text) { free(text); }

void *new_handle(void) { return (void *)__atomic_add_fetch(&last_handle, 64, __ATOMIC_RELAXED); }
