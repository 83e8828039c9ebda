/* A handle of cuBLAS. */
#ifndef MEMBUDGET_CUBLAS_HANDLE_H
#define MEMBUDGET_CUBLAS_HANDLE_H

/* What the getters of a handle give back. As with the real one, a handle belongs to one thread at a time.
 */
struct blas_handle {
    int pointer_mode, math_mode, atomics_mode, multiprocessor_target;
    void *stream;
};

#endif
