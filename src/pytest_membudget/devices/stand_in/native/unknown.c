/* Which answers this process gives to what nobody knows, and what it was asked. */
#include "unknown.h"

#include "stand_in.h"

static int is_other;
static unsigned asked;

/* A test begins; `other`: it gets the other answers. */
EXPORTED void stand_in_vary(int other) {
    is_other = other;
    __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
}

/* What was asked: the values of `enum unknown`, added. */
EXPORTED unsigned stand_in_asked(void) { return __atomic_load_n(&asked, __ATOMIC_RELAXED); }

int other_answer(enum unknown what) {
    __atomic_or_fetch(&asked, (unsigned)what, __ATOMIC_RELAXED);
    return is_other;
}
