#ifndef MEMBUDGET_STAND_IN_FOLLOWED_H
#define MEMBUDGET_STAND_IN_FOLLOWED_H
#include <stdint.h>

/* Memory that begins at `address` is given to somebody; the caller holds the lock. */
void memory_given(uintptr_t address);
/* A kernel may have written to a tensor in which `address` lies; the caller holds the lock. */
void memory_written(uintptr_t address);

#endif
