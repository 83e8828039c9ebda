/* What the stand-in's libraries share: the cards, device memory, and the record of what is not modelled.

   Everything here is hidden from other libraries (-fvisibility=hidden); what PyTorch and others call is
   declared EXPORTED. Integers replace the enumerations of the vendor's headers, and pointers where they
   have handles: calling conventions do not distinguish them (System V x86-64 psABI, AAPCS64). */
#ifndef MEMBUDGET_STAND_IN_H
#define MEMBUDGET_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

struct card {
    char name[128];
    size_t total_bytes;
    int major, minor; /* compute capability */
    int multiprocessors;
    size_t shared_bytes_per_block_optin;
    size_t shared_bytes_per_multiprocessor;
    size_t l2_bytes;
    int threads_per_multiprocessor;
    int blocks_per_multiprocessor;
    int clock_khz, memory_clock_khz;
    int memory_bus_bits;
    int peers;             /* whether it reaches the memory of others of its kind: no, yes, by machine */
    size_t context_bytes;  /* what the process takes in addition to its allocations */
    size_t capacity_bytes; /* allocations together may not take more */
};

/* As many as PyTorch's allocator has room for (c10/cuda/CUDAMacros.h, C10_COMPILE_TIME_MAX_GPUS). */
#define MOST_CARDS 120

int card_count(void);
/* NULL where there is no such card. */
const struct card *card_at(int device);
/* The calling thread's, as cudaSetDevice left it. */
int current_device(void);

/* A function was called whose memory is not known: each name once. Python reads the names with
   stand_in_not_modelled() and lists them in the report. */
void not_modelled(const char *function);
/* A function was called that refuses what a card would do: stand_in_refuse() notes it. Python reads the names
   with stand_in_refused(), and the test has no figure. */
void note_refused(const char *function);

/* What this process's PyTorch was built for, as CUDART_VERSION writes it: 12060, 13020. */
int cuda_version(void);

/* One lock for all state of these libraries. It is held for a few instructions, never across a call of
   another library's function, and is not recursive; a child of fork() finds it free. */
void lock_state(void);
void unlock_state(void);

/* Whether `address` lies in the memory of a card. */
int is_on_card(const void *address);

/* A value that is no other handle's. */
void *new_handle(void);

#endif
