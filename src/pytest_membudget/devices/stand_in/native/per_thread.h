/* The second name of functions that take a stream, for callers that are compiled with a default stream for
   each thread (nvcc --default-stream per-thread): one default stream is as done as the other. */
#ifndef MEMBUDGET_STAND_IN_PER_THREAD_H
#define MEMBUDGET_STAND_IN_PER_THREAD_H

#define SECOND_NAME(name, second) \
    extern __typeof__(name) second __attribute__((alias(#name), visibility("default")));
#define PER_THREAD_STREAM(name) SECOND_NAME(name, name##_ptsz)
#define PER_THREAD_DEFAULT(name) SECOND_NAME(name, name##_ptds)

#endif
