#ifndef MEMBUDGET_STAND_IN_LAUNCHES_H
#define MEMBUDGET_STAND_IN_LAUNCHES_H
#include <stddef.h>

/* A kernel is launched in `stream`, and does nothing. */
int launch(void *stream);
/* Blocks of `threads` threads with `shared_bytes` each that fit one multiprocessor of the current card. */
int blocks_per_multiprocessor(int threads, size_t shared_bytes);
/* Registers of a thread, as every kernel is taken to use; shared with the driver. */
#define REGISTERS 32

#endif
