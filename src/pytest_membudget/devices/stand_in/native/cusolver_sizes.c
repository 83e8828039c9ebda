/* cuSOLVER: the sizes of workspaces, which PyTorch allocates with its caching allocator before each call
   (aten/src/ATen/native/cuda/linalg/BatchLinearAlgebraLib.cpp and CUDASolver.cpp, torch 2.11 to 2.15).

   The vendor publishes no rule for them: they belong to the version of the library and to the card. So each
   is recorded by name as not modelled, and replaced by the workspace of LAPACK's routine of the same
   name (netlib.org/lapack, LAPACK 3.12, "The dimension of the array WORK"), with LAPACK's block of 32
   columns where the routine works in blocks. cuSOLVER, which keeps a GPU busy, takes more than that, not
   less. */
#include "libraries.h"

#define FOUR_SOLVER(X, name, ...) FOUR_TYPES(X, cusolverDn, name, ##__VA_ARGS__)

#define BLOCK ((int64_t)32) /* LAPACK's ILAENV for xGEQRF, xORGQR, xORMQR, xSYTRF */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* A number of elements for the 32-bit interface. */
static int answer(const char *name, int *elements, int64_t size) {
    not_modelled(name);
    *elements = (int)least(most(size, 1), INT32_MAX);
    return 0;
}

/* xSYEVD, xHEEVD: all eigenvectors (jobz 1, CUSOLVER_EIG_MODE_VECTOR) or none. */
static int64_t syevd_elements(int vectors, int64_t n) { return vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1; }
/* xGESVD. */
static int64_t gesvd_elements(int64_t m, int64_t n) {
    return most(3 * least(m, n) + most(m, n), 5 * least(m, n));
}
/* xGESVJ, the Jacobi method. */
static int64_t gesvdj_elements(int64_t m, int64_t n) { return most(6, m + n); }

/* LAPACK has no Jacobi method for symmetric matrices; a second matrix and its eigenvalues. */
static int64_t syevj_elements(int64_t n) { return n * n + n; }
/* Recorded for cheevjBatched on CUDA 11 (cupy, issue 7261): 4 x 4 matrices take 1,028 + 1,049 * count
   elements, at counts from 1 to 2,047,171; of 2 x 2 matrices 2,078,879 are the most that stay under 2^31
   elements, so each takes 1,033. Both are the line below; whether it holds for other sizes and types is not
   known. */
static int64_t syevj_batched_elements(int64_t n, int64_t count) {
    return 1024 + n + count * (1024 + (n + 1) * (n + 1));
}
/* The approximate method forms A'A (cuSOLVER documentation, gesvdaStridedBatched): n x n for each matrix. */
static int64_t gesvda_elements(int64_t n, int64_t count) { return count * n * n; }

/* Rows: the routine, the place of its result among the arguments, the elements that it takes; of batches
   also the place of their count. */
#define BATCH_SIZE(name, size, count, elements) BY_WORDS(name, count, answer(#name, AT(size), elements))
#define SIZE(name, size, elements) BATCH_SIZE(name, size, size, elements)

/* xGETRF and xPOTRF take no workspace in LAPACK: a block of columns. */
FOUR_SOLVER(SIZE, getrf_bufferSize, 6, INT(2) * least(INT(3), BLOCK))
FOUR_SOLVER(SIZE, potrf_bufferSize, 6, INT(3) * least(INT(3), BLOCK))
FOUR_SOLVER(SIZE, geqrf_bufferSize, 6, INT(3) * BLOCK)
FOUR_SOLVER(SIZE, sytrf_bufferSize, 5, INT(2) * BLOCK)
REAL_AND_COMPLEX(SIZE, cusolverDn, orgqr_bufferSize, ungqr_bufferSize, 8, INT(3) * BLOCK)
/* (handle, side, trans, m, n, ...): side 0 is CUBLAS_SIDE_LEFT */
REAL_AND_COMPLEX(SIZE, cusolverDn, ormqr_bufferSize, unmqr_bufferSize, 12, INT(INT(2) == 0 ? 5 : 4) * BLOCK)
REAL_AND_COMPLEX(SIZE, cusolverDn, syevd_bufferSize, heevd_bufferSize, 8, syevd_elements(INT(2), INT(4)))
REAL_AND_COMPLEX(SIZE, cusolverDn, syevj_bufferSize, heevj_bufferSize, 8, syevj_elements(INT(4)))
REAL_AND_COMPLEX(BATCH_SIZE, cusolverDn, syevjBatched_bufferSize, heevjBatched_bufferSize, 8, 10,
                 syevj_batched_elements(INT(4), INT(10)))
FOUR_SOLVER(SIZE, gesvd_bufferSize, 4, gesvd_elements(INT(2), INT(3)))
FOUR_SOLVER(SIZE, gesvdj_bufferSize, 13, gesvdj_elements(INT(4), INT(5)))
FOUR_SOLVER(BATCH_SIZE, gesvdjBatched_bufferSize, 12, 14, INT(14) * gesvdj_elements(INT(3), INT(4)))
FOUR_SOLVER(BATCH_SIZE, gesvdaStridedBatched_bufferSize, 17, 18, gesvda_elements(INT(5), INT(18)))

/* The 64-bit interface: bytes on the device and, behind it, on the host. */
static int answer_bytes(const char *name, int type, int64_t elements, size_t *device_bytes,
                        size_t *host_bytes) {
    not_modelled(name);
    *device_bytes = (size_t)most(elements, 1) * data_type_bytes(type);
    *host_bytes = 0;
    return 0;
}
#define BATCH_BYTES(name, type, device, count, elements) \
    BY_WORDS(name, count, answer_bytes(#name, INT(type), elements, AT(device), AT((device) + 1)))
#define BYTES(name, type, device, elements) BATCH_BYTES(name, type, device, (device) + 1, elements)

BYTES(cusolverDnXgeqrf_bufferSize, 10, 11, LONG(4) * BLOCK)
BYTES(cusolverDnXpotrf_bufferSize, 8, 9, LONG(4) * least(LONG(4), BLOCK))
BYTES(cusolverDnXsyevd_bufferSize, 11, 12, syevd_elements(INT(3), LONG(5)))
BATCH_BYTES(cusolverDnXsyevBatched_bufferSize, 11, 12, 14, LONG(14) * syevd_elements(INT(3), LONG(5)))
BYTES(cusolverDnXgeev_bufferSize, 17, 18, 4 * LONG(5)) /* xGEEV with eigenvectors */
BYTES(cusolverDnXsytrs_bufferSize, 5, 12, LONG(3))     /* xSYTRS2 */
