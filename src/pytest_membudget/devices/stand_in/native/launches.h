#ifndef MEMBUDGET_STAND_IN_LAUNCHES_H
#define MEMBUDGET_STAND_IN_LAUNCHES_H
#include <stddef.h>

/* A kernel is launched in `stream`, and does nothing; what it may have written to is not known. */
int launch(void *stream);
/* The same of a kernel of a loaded module, whose parameters may be known. */
int launch_of_module(void *kernel, void *const *arguments, void *stream);
/* Blocks of `threads` threads with `shared_bytes` each that fit one multiprocessor of the current card. */
int blocks_per_multiprocessor(int threads, size_t shared_bytes);
/* Registers of a thread, as every kernel is taken to use; shared with the driver. */
#define REGISTERS 32

#endif
