/* What the calling thread's next copies from a card to the host give, in place of what lies there.

   No kernel runs, so that a count that ATen makes on the card and copies to the host, as nonzero and unique
   do, would always be zero. Who calls the operator says beforehand what such copies give. */
#include "answers.h"

#include <string.h>

#include "stand_in.h"

#define MOST_ANSWERS 8

struct answer {
    unsigned char bytes[MOST_ANSWER_BYTES];
    size_t size;
};

static __thread struct answer answers[MOST_ANSWERS];
static __thread int first, count;

/* A later copy of at most `size` bytes from a card to the host gives the first of `bytes`: one copy for each
   call, in their order. A whole number's are little-endian, so that it does for smaller types too. Returns 0,
   or 1 where there is no room. */
EXPORTED int stand_in_answer_copy(const void *bytes, size_t size) {
    if (first == count)
        first = count = 0;
    if (count == MOST_ANSWERS || size > MOST_ANSWER_BYTES)
        return 1;
    memcpy(answers[count].bytes, bytes, size);
    answers[count++].size = size;
    return 0;
}

/* How many answers later copies of this thread are given. */
EXPORTED int stand_in_answers_waiting(void) { return count - first; }

/* Answers that were not asked for are given no more; how many they were. */
EXPORTED int stand_in_drop_answers(void) {
    int left = count - first;
    first = count = 0;
    return left;
}

/* Read by Python, which compares: copies from a card to the host that nobody had said beforehand. */
EXPORTED unsigned long long stand_in_unanswered_copies;

static __thread int expected;

/* The calling thread's copies are of somebody who knows that nothing was computed, until as many calls with
   -1 as with 1. */
EXPORTED void stand_in_expect_copies(int change) { expected += change; }

int answer_copy(void *destination, size_t size) {
    if (first == count || size > answers[first].size) {
        if (!expected)
            __atomic_add_fetch(&stand_in_unanswered_copies, 1, __ATOMIC_RELAXED);
        return 0;
    }
    memcpy(destination, answers[first++].bytes, size);
    return 1;
}
