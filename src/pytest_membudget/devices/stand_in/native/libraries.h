/* What cublas.c, cusolver.c, cusparse.c and cufft.c share. */
#ifndef MEMBUDGET_LIBRARIES_H
#define MEMBUDGET_LIBRARIES_H

#include "memory.h"
#include "tables.h"

/* The four element types of BLAS and LAPACK names: float, double, float complex, double complex. What X takes
   besides a name comes last. */
#define REAL_TYPES(X, prefix, name, ...) X(prefix##S##name, ##__VA_ARGS__) X(prefix##D##name, ##__VA_ARGS__)
#define COMPLEX_TYPES(X, prefix, name, ...) \
    X(prefix##C##name, ##__VA_ARGS__) X(prefix##Z##name, ##__VA_ARGS__)
#define FOUR_TYPES(X, prefix, name, ...) REAL_AND_COMPLEX(X, prefix, name, name, ##__VA_ARGS__)
/* LAPACK routines that have one name for real numbers and another for complex ones. */
#define REAL_AND_COMPLEX(X, prefix, real, complex, ...) \
    REAL_TYPES(X, prefix, real, ##__VA_ARGS__)          \
    COMPLEX_TYPES(X, prefix, complex, ##__VA_ARGS__)

/* "no error" for each matrix: PyTorch reads these, sometimes on the host. Device memory is readable and
   writable from the host here, so one function does for both. */
static inline int write_no_errors(int *info, int64_t count) {
    for (int64_t index = 0; info && index < count; ++index)
        info[index] = 0;
    return 0;
}

/* Factorizations and solvers by the places of their arguments: `info`, one for each of `count` matrices, or
   one for all where there is no such argument (0). */
#define INFO(name, info, count) \
    BY_WORDS(name, (count) > (info) ? (count) : (info), write_no_errors(AT(info), (count) ? INT(count) : 1))

/* Row exchanges of an LU factorization that exchanged nothing: 1, 2, ..., n (LAPACK counts from 1). A zero
   would be an index before the first row to whatever is computed from the pivots on the host, where copies
   stop at MOST_COPIED_BYTES; more pivots are left alone, as each written page of the device takes host
   memory. */
static inline void write_no_exchanges(int *pivots, int64_t rows, int64_t matrices) {
    int64_t count = rows * matrices;
    if (!pivots || count > (int64_t)(MOST_COPIED_BYTES / sizeof *pivots))
        return;
    for (int64_t index = 0; index < count; ++index)
        pivots[index] = (int)(index % rows) + 1;
}

/* Bytes of one element of a cudaDataType (library_types.h, CUDA 12.6 and 13.2), 0 where it is another. */
static inline size_t data_type_bytes(int type) {
    switch (type) {
    case 0: return 4; /* CUDA_R_32F */
    case 1: return 8; /* CUDA_R_64F */
    case 2:
    case 14: return 2; /* CUDA_R_16F, CUDA_R_16BF */
    case 3:
    case 28: return 1; /* CUDA_R_8I, CUDA_R_8F_E4M3 */
    case 4: return 8;  /* CUDA_C_32F */
    case 5: return 16; /* CUDA_C_64F */
    case 6:
    case 15: return 4; /* CUDA_C_16F, CUDA_C_16BF */
    case 10: return 4; /* CUDA_R_32I */
    default: return 0;
    }
}

#endif
