/* Host memory of tensors, as the other sources use it. */
#ifndef MEMBUDGET_STAND_IN_HOST_H
#define MEMBUDGET_STAND_IN_HOST_H

#include <stddef.h>

/* Pinned memory for cudaHostAlloc and cudaMallocHost; NULL where there is none. */
void *host_pinned(size_t bytes);

/* For cudaFreeHost: 0 where `address` is not what host_pinned gave. */
int host_unpinned(void *address);

/* cudaHostRegister pinned memory, or cudaHostUnregister (`is_pinned` 0) undid it: PyTorch's caching host
   allocator makes pinned memory of malloc's with it (pinned_use_cuda_host_register). */
void host_registered(const void *address, size_t bytes, int is_pinned);

/* A copy into the memory at `address` was skipped: what is there is not what a real run would have. */
void host_made_hollow(const void *address);

#endif
