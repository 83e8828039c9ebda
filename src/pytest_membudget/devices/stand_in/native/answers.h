/* Copies from a card to the host whose content was said beforehand. */
#ifndef MEMBUDGET_ANSWERS_H
#define MEMBUDGET_ANSWERS_H

#include <stddef.h>

#define MOST_ANSWER_BYTES 256

/* Whether the calling thread's copy of `size` bytes from a card to the host's `destination` was answered;
   if not, it is to be made as any other. */
int answer_copy(void *destination, size_t size);

#endif
