/* cuSOLVER: the sizes of workspaces, which PyTorch allocates with its caching allocator before each call
   (aten/src/ATen/native/cuda/linalg/BatchLinearAlgebraLib.cpp and CUDASolver.cpp, torch 2.11 to 2.15).

   The vendor publishes no rule for them: they belong to the version of the library and to the card. So each
   is recorded by name as not modelled, and replaced by the workspace of LAPACK's routine of the same
   name (netlib.org/lapack, LAPACK 3.12, "The dimension of the array WORK"), with LAPACK's block of 32
   columns where the routine works in blocks. cuSOLVER, which keeps a GPU busy, takes more than that, not
   less. */
#include "cusolver_names.h"
#include "libraries.h"

enum { BLOCK = 32 }; /* LAPACK's ILAENV for xGEQRF, xORGQR, xORMQR, xSYTRF */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A number of elements for the 32-bit interface. */
static int answer(const char *name, int *elements, int64_t size)
{
    not_modelled(name);
    *elements = (int)least(most(size, 1), INT32_MAX);
    return 0;
}

/* xSYEVD, xHEEVD: all eigenvectors (jobz 1, CUSOLVER_EIG_MODE_VECTOR) or none. */
static int64_t syevd_elements(int vectors, int64_t n)
{
    return vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1;
}
/* xGESVD. */
static int64_t gesvd_elements(int64_t m, int64_t n)
{
    return most(3 * least(m, n) + most(m, n), 5 * least(m, n));
}
/* xGESVJ, the Jacobi method. */
static int64_t gesvdj_elements(int64_t m, int64_t n)
{
    return most(6, m + n);
}

typedef void *P;
typedef void *H;

/* xGETRF and xPOTRF take no workspace in LAPACK: a block of columns. */
#define GETRF_SIZE(name)                                          \
    EXPORTED int name(H h, int m, int n, P a, int lda, int *size) \
    {                                                             \
        return answer(#name, size, (int64_t)m * least(n, BLOCK)); \
    }
FOUR_SOLVER(GETRF_SIZE, getrf_bufferSize)

#define POTRF_SIZE(name)                                             \
    EXPORTED int name(H h, int uplo, int n, P a, int lda, int *size) \
    {                                                                \
        return answer(#name, size, (int64_t)n * least(n, BLOCK));    \
    }
FOUR_SOLVER(POTRF_SIZE, potrf_bufferSize)

#define GEQRF_SIZE(name)                                          \
    EXPORTED int name(H h, int m, int n, P a, int lda, int *size) \
    {                                                             \
        return answer(#name, size, (int64_t)n * BLOCK);           \
    }
FOUR_SOLVER(GEQRF_SIZE, geqrf_bufferSize)

#define SYTRF_SIZE(name)                                   \
    EXPORTED int name(H h, int n, P a, int lda, int *size) \
    {                                                      \
        return answer(#name, size, (int64_t)n * BLOCK);    \
    }
FOUR_SOLVER(SYTRF_SIZE, sytrf_bufferSize)

#define ORGQR_SIZE(name)                                                        \
    EXPORTED int name(H h, int m, int n, int k, P a, int lda, P tau, int *size) \
    {                                                                           \
        return answer(#name, size, (int64_t)n * BLOCK);                         \
    }
REAL_AND_COMPLEX(ORGQR_SIZE, cusolverDn, orgqr_bufferSize, ungqr_bufferSize)

/* side 0 is CUBLAS_SIDE_LEFT. */
#define ORMQR_SIZE(name)                                                                                \
    EXPORTED int name(H h, int side, int trans, int m, int n, int k, P a, int lda, P tau, P c, int ldc, \
                      int *size)                                                                        \
    {                                                                                                   \
        return answer(#name, size, (int64_t)(side == 0 ? n : m) * BLOCK);                               \
    }
REAL_AND_COMPLEX(ORMQR_SIZE, cusolverDn, ormqr_bufferSize, unmqr_bufferSize)

#define SYEVD_SIZE(name)                                                            \
    EXPORTED int name(H h, int jobz, int uplo, int n, P a, int lda, P w, int *size) \
    {                                                                               \
        return answer(#name, size, syevd_elements(jobz, n));                        \
    }
REAL_AND_COMPLEX(SYEVD_SIZE, cusolverDn, syevd_bufferSize, heevd_bufferSize)

/* LAPACK has no Jacobi method for symmetric matrices; a second matrix and its eigenvalues. */
#define SYEVJ_SIZE(name)                                                                          \
    EXPORTED int name(H h, int jobz, int uplo, int n, P a, int lda, P w, int *size, P parameters) \
    {                                                                                             \
        return answer(#name, size, (int64_t)n * n + n);                                           \
    }
REAL_AND_COMPLEX(SYEVJ_SIZE, cusolverDn, syevj_bufferSize, heevj_bufferSize)

/* Recorded for cheevjBatched on CUDA 11 (cupy, issue 7261): 4 x 4 matrices take 1,028 + 1,049 * count
   elements, at counts from 1 to 2,047,171; of 2 x 2 matrices 2,078,879 are the most that stay under 2^31
   elements, so each takes 1,033. Both are the line below; whether it holds for other sizes and types is not
   known. */
static int64_t syevj_batched_elements(int64_t n, int64_t count)
{
    return 1024 + n + count * (1024 + (n + 1) * (n + 1));
}

#define SYEVJ_BATCHED_SIZE(name)                                                                  \
    EXPORTED int name(H h, int jobz, int uplo, int n, P a, int lda, P w, int *size, P parameters, \
                      int count)                                                                  \
    {                                                                                             \
        return answer(#name, size, syevj_batched_elements(n, count));                             \
    }
REAL_AND_COMPLEX(SYEVJ_BATCHED_SIZE, cusolverDn, syevjBatched_bufferSize, heevjBatched_bufferSize)

#define GESVD_SIZE(name)                                  \
    EXPORTED int name(H h, int m, int n, int *size)       \
    {                                                     \
        return answer(#name, size, gesvd_elements(m, n)); \
    }
FOUR_SOLVER(GESVD_SIZE, gesvd_bufferSize)

#define GESVDJ_SIZE(name)                                                                          \
    EXPORTED int name(H h, int jobz, int econ, int m, int n, P a, int lda, P s, P u, int ldu, P v, \
                      int ldv, int *size, P parameters)                                            \
    {                                                                                              \
        return answer(#name, size, gesvdj_elements(m, n));                                         \
    }
FOUR_SOLVER(GESVDJ_SIZE, gesvdj_bufferSize)

#define GESVDJ_BATCHED_SIZE(name)                                                                 \
    EXPORTED int name(H h, int jobz, int m, int n, P a, int lda, P s, P u, int ldu, P v, int ldv, \
                      int *size, P parameters, int count)                                         \
    {                                                                                             \
        return answer(#name, size, count * gesvdj_elements(m, n));                                \
    }
FOUR_SOLVER(GESVDJ_BATCHED_SIZE, gesvdjBatched_bufferSize)

/* The approximate method forms A'A (cuSOLVER documentation, gesvdaStridedBatched): n x n for each matrix.
 */
#define GESVDA_BATCHED_SIZE(name)                                                                       \
    EXPORTED int name(H h, int jobz, int rank, int m, int n, P a, int lda, long long step_a, P s,       \
                      long long step_s, P u, int ldu, long long step_u, P v, int ldv, long long step_v, \
                      int *size, int count)                                                             \
    {                                                                                                   \
        return answer(#name, size, (int64_t)count * n * n);                                             \
    }
FOUR_SOLVER(GESVDA_BATCHED_SIZE, gesvdaStridedBatched_bufferSize)

/* The 64-bit interface: bytes on the device and on the host. */
static int answer_bytes(const char *name, int type, int64_t elements, size_t *device_bytes,
                        size_t *host_bytes)
{
    not_modelled(name);
    *device_bytes = (size_t)most(elements, 1) * data_type_bytes(type);
    *host_bytes = 0;
    return 0;
}

EXPORTED int cusolverDnXgeqrf_bufferSize(H h, P parameters, int64_t m, int64_t n, int type, P a,
                                         int64_t lda, int tau_type, P tau, int compute, size_t *device,
                                         size_t *host)
{
    return answer_bytes("cusolverDnXgeqrf_bufferSize", compute, n * BLOCK, device, host);
}

EXPORTED int cusolverDnXpotrf_bufferSize(H h, P parameters, int uplo, int64_t n, int type, P a, int64_t lda,
                                         int compute, size_t *device, size_t *host)
{
    return answer_bytes("cusolverDnXpotrf_bufferSize", compute, n * least(n, BLOCK), device, host);
}

EXPORTED int cusolverDnXsyevd_bufferSize(H h, P parameters, int jobz, int uplo, int64_t n, int type, P a,
                                         int64_t lda, int w_type, P w, int compute, size_t *device,
                                         size_t *host)
{
    return answer_bytes("cusolverDnXsyevd_bufferSize", compute, syevd_elements(jobz, n), device, host);
}

EXPORTED int cusolverDnXsyevBatched_bufferSize(H h, P parameters, int jobz, int uplo, int64_t n, int type,
                                               P a, int64_t lda, int w_type, P w, int compute,
                                               size_t *device, size_t *host, int64_t count)
{
    return answer_bytes("cusolverDnXsyevBatched_bufferSize", compute, count * syevd_elements(jobz, n),
                        device, host);
}

/* xGEEV: with eigenvectors. */
EXPORTED int cusolverDnXgeev_bufferSize(H h, P parameters, int jobvl, int jobvr, int64_t n, int type, P a,
                                        int64_t lda, int w_type, P w, int vl_type, P vl, int64_t ldvl,
                                        int vr_type, P vr, int64_t ldvr, int compute, size_t *device,
                                        size_t *host)
{
    return answer_bytes("cusolverDnXgeev_bufferSize", compute, 4 * n, device, host);
}

/* xSYTRS2. */
EXPORTED int cusolverDnXsytrs_bufferSize(H h, int uplo, int64_t n, int64_t columns, int type, P a,
                                         int64_t lda, const int64_t *pivots, int right_type, P b,
                                         int64_t ldb, size_t *device, size_t *host)
{
    return answer_bytes("cusolverDnXsytrs_bufferSize", type, n, device, host);
}
