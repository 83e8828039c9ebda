/* Functions of one form, a row each. */
#ifndef MEMBUDGET_STAND_IN_TABLES_H
#define MEMBUDGET_STAND_IN_TABLES_H

#include <stdarg.h>

#include "stand_in.h"

/* A second name of a function of the same file. */
#define ALIAS(second, name) \
    extern __typeof__(name) second __attribute__((alias(#name), visibility("default")));

/* For callers that are compiled with a default stream for each thread (nvcc --default-stream per-thread): one
   default stream is as done as the other. */
#define PER_THREAD(name) ALIAS(name##_ptsz, name)

/* The same, of a function that does not fail and that the driver has too. */
#define STREAM_NAMES(name, driver) PER_THREAD(name) ALIAS(driver, name)

/* A row for each name, of which there may be 64: EACH(SUCCEEDS, one, other) */
#define EACH(row, ...) EXPAND(FIRST_OF(row, __VA_ARGS__))
#define FIRST_OF(row, name, ...) row(name) __VA_OPT__(OTHERS_OF NO_ARGUMENTS(row, __VA_ARGS__))
#define OTHERS_OF() FIRST_OF
#define NO_ARGUMENTS ()
#define EXPAND(...) EXPAND_16(EXPAND_16(EXPAND_16(EXPAND_16(__VA_ARGS__))))
#define EXPAND_16(...) EXPAND_4(EXPAND_4(EXPAND_4(EXPAND_4(__VA_ARGS__))))
#define EXPAND_4(...) EXPAND_1(EXPAND_1(EXPAND_1(EXPAND_1(__VA_ARGS__))))
#define EXPAND_1(...) __VA_ARGS__

/* A function that succeeds and changes no memory: what it writes its results to, if it has any, the caller
   allocated. Its arguments are not declared: both calling conventions let a function ignore what it is
   passed. 0 is the success of all libraries. */
#define SUCCEEDS(name) \
    EXPORTED int name(void) { return 0; }

/* A function by the places of its arguments, counted from 1, of which it looks at the first `count`: INT(2)
   is the second, an int. Integers and pointers of all widths take a register or eight bytes of the stack
   each, whether they are declared or not (System V x86-64 psABI 1.0, 3.2.3 and 3.5.7; AAPCS64 2024Q3, 6.8.2
   and appendix B). */
#define BY_WORDS(name, count, answer)            \
    EXPORTED int name(uintptr_t first, ...) {    \
        uintptr_t words[(count) + 1];            \
        va_list others;                          \
        va_start(others, first);                 \
        read_words(words, first, count, others); \
        va_end(others);                          \
        return answer;                           \
    }
#define INT(place) ((int)words[place])
#define LONG(place) ((int64_t)words[place])
#define AT(place) ((void *)words[place])

static inline void read_words(uintptr_t *words, uintptr_t first, int count, va_list others) {
    words[0] = 0;
    words[1] = first;
    for (int place = 2; place <= count; place++)
        words[place] = va_arg(others, uintptr_t);
}

/* A function that makes something of which nothing is kept; its address goes to the pointer at `place`. */
#define CREATES(name, place) BY_WORDS(name, place, make_handle(AT(place)))

static inline int make_handle(void **handle) {
    *handle = new_handle();
    return 0;
}

#endif
