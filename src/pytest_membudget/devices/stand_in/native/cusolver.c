/* cuSOLVER: dense factorizations and solvers. What a call leaves behind: "no error", and pivots. The sizes
   of its workspaces are in cusolver_sizes.c. Prototypes: cusolverDn.h of CUDA 12.6 to 13.2. */
#include "cusolver_names.h"
#include "libraries.h"

enum { NOT_SUPPORTED = 9 }; /* cusolverStatus_t */

SOLVER_COMPUTES_ONLY(COMPUTES_ONLY)

#define SOLVER_REFUSED(name) REFUSED(name, NOT_SUPPORTED)
SOLVER_NOT_MODELLED(SOLVER_REFUSED)

#define CREATES(name)                 \
    EXPORTED int name(void **created) \
    {                                 \
        *created = new_handle();      \
        return 0;                     \
    }
CREATES(cusolverDnCreate)
CREATES(cusolverDnCreateParams)
CREATES(cusolverDnCreateGesvdjInfo)
CREATES(cusolverDnCreateSyevjInfo)

typedef void *P; /* an array that is not looked at */
typedef void *H; /* a handle */

#define GETRF(name)                                                                    \
    EXPORTED int name(H h, int m, int n, P a, int lda, P work, int *pivots, int *info) \
    {                                                                                  \
        write_no_exchanges(pivots, m < n ? m : n, 1);                                  \
        write_no_errors(info, 1);                                                      \
        return 0;                                                                      \
    }
FOUR_SOLVER(GETRF, getrf)

#define SYTRF(name)                                                                                  \
    EXPORTED int name(H h, int uplo, int n, P a, int lda, int *pivots, P work, int lwork, int *info) \
    {                                                                                                \
        write_no_exchanges(pivots, n, 1);                                                            \
        write_no_errors(info, 1);                                                                    \
        return 0;                                                                                    \
    }
FOUR_SOLVER(SYTRF, sytrf)

/* The position of `info` among the arguments is all that differs between the others. */
#define GETRS(name)                                                                                        \
    EXPORTED int name(H h, int trans, int n, int columns, P a, int lda, P pivots, P b, int ldb, int *info) \
    {                                                                                                      \
        write_no_errors(info, 1);                                                                          \
        return 0;                                                                                          \
    }
FOUR_SOLVER(GETRS, getrs)

#define POTRF(name)                                                                     \
    EXPORTED int name(H h, int uplo, int n, P a, int lda, P work, int lwork, int *info) \
    {                                                                                   \
        write_no_errors(info, 1);                                                       \
        return 0;                                                                       \
    }
FOUR_SOLVER(POTRF, potrf)

#define POTRF_BATCHED(name)                                                      \
    EXPORTED int name(H h, int uplo, int n, P a, int lda, int *infos, int count) \
    {                                                                            \
        write_no_errors(infos, count);                                           \
        return 0;                                                                \
    }
FOUR_SOLVER(POTRF_BATCHED, potrfBatched)

#define POTRS(name)                                                                             \
    EXPORTED int name(H h, int uplo, int n, int columns, P a, int lda, P b, int ldb, int *info) \
    {                                                                                           \
        write_no_errors(info, 1);                                                               \
        return 0;                                                                               \
    }
FOUR_SOLVER(POTRS, potrs)

/* One info for all matrices (cuSOLVER documentation, potrsBatched). */
#define POTRS_BATCHED(name)                                                                                \
    EXPORTED int name(H h, int uplo, int n, int columns, P a, int lda, P b, int ldb, int *info, int count) \
    {                                                                                                      \
        write_no_errors(info, 1);                                                                          \
        return 0;                                                                                          \
    }
FOUR_SOLVER(POTRS_BATCHED, potrsBatched)

#define GEQRF(name)                                                                         \
    EXPORTED int name(H h, int m, int n, P a, int lda, P tau, P work, int lwork, int *info) \
    {                                                                                       \
        write_no_errors(info, 1);                                                           \
        return 0;                                                                           \
    }
FOUR_SOLVER(GEQRF, geqrf)

#define ORGQR(name)                                                                                \
    EXPORTED int name(H h, int m, int n, int k, P a, int lda, P tau, P work, int lwork, int *info) \
    {                                                                                              \
        write_no_errors(info, 1);                                                                  \
        return 0;                                                                                  \
    }
REAL_AND_COMPLEX(ORGQR, cusolverDn, orgqr, ungqr)

#define ORMQR(name)                                                                                     \
    EXPORTED int name(H h, int side, int trans, int m, int n, int k, P a, int lda, P tau, P c, int ldc, \
                      P work, int lwork, int *info)                                                     \
    {                                                                                                   \
        write_no_errors(info, 1);                                                                       \
        return 0;                                                                                       \
    }
REAL_AND_COMPLEX(ORMQR, cusolverDn, ormqr, unmqr)

#define SYEVD(name)                                                                                    \
    EXPORTED int name(H h, int jobz, int uplo, int n, P a, int lda, P w, P work, int lwork, int *info) \
    {                                                                                                  \
        write_no_errors(info, 1);                                                                      \
        return 0;                                                                                      \
    }
REAL_AND_COMPLEX(SYEVD, cusolverDn, syevd, heevd)

/* torch 2.11 to 2.12. */
#define SYEVJ(name)                                                                                    \
    EXPORTED int name(H h, int jobz, int uplo, int n, P a, int lda, P w, P work, int lwork, int *info, \
                      P parameters)                                                                    \
    {                                                                                                  \
        write_no_errors(info, 1);                                                                      \
        return 0;                                                                                      \
    }
REAL_AND_COMPLEX(SYEVJ, cusolverDn, syevj, heevj)

#define SYEVJ_BATCHED(name)                                                                             \
    EXPORTED int name(H h, int jobz, int uplo, int n, P a, int lda, P w, P work, int lwork, int *infos, \
                      P parameters, int count)                                                          \
    {                                                                                                   \
        write_no_errors(infos, count);                                                                  \
        return 0;                                                                                       \
    }
REAL_AND_COMPLEX(SYEVJ_BATCHED, cusolverDn, syevjBatched, heevjBatched)

#define GESVD(name)                                                                                   \
    EXPORTED int name(H h, signed char jobu, signed char jobvt, int m, int n, P a, int lda, P s, P u, \
                      int ldu, P vt, int ldvt, P work, int lwork, P rwork, int *info)                 \
    {                                                                                                 \
        write_no_errors(info, 1);                                                                     \
        return 0;                                                                                     \
    }
FOUR_SOLVER(GESVD, gesvd)

#define GESVDJ(name)                                                                               \
    EXPORTED int name(H h, int jobz, int econ, int m, int n, P a, int lda, P s, P u, int ldu, P v, \
                      int ldv, P work, int lwork, int *info, P parameters)                         \
    {                                                                                              \
        write_no_errors(info, 1);                                                                  \
        return 0;                                                                                  \
    }
FOUR_SOLVER(GESVDJ, gesvdj)

#define GESVDJ_BATCHED(name)                                                                              \
    EXPORTED int name(H h, int jobz, int m, int n, P a, int lda, P s, P u, int ldu, P v, int ldv, P work, \
                      int lwork, int *infos, P parameters, int count)                                     \
    {                                                                                                     \
        write_no_errors(infos, count);                                                                    \
        return 0;                                                                                         \
    }
FOUR_SOLVER(GESVDJ_BATCHED, gesvdjBatched)

/* The residuals' norms are on the host; PyTorch passes its buffer or none. */
#define GESVDA_BATCHED(name)                                                                            \
    EXPORTED int name(H h, int jobz, int rank, int m, int n, P a, int lda, long long step_a, P s,       \
                      long long step_s, P u, int ldu, long long step_u, P v, int ldv, long long step_v, \
                      P work, int lwork, int *infos, double *norms, int count)                          \
    {                                                                                                   \
        for (int index = 0; norms && index < count; ++index) norms[index] = 0;                          \
        write_no_errors(infos, count);                                                                  \
        return 0;                                                                                       \
    }
FOUR_SOLVER(GESVDA_BATCHED, gesvdaStridedBatched)

/* The 64-bit interface (CUDA 11.1 on): types are cudaDataType, sizes are bytes. */
EXPORTED int cusolverDnXgeqrf(H h, P parameters, int64_t m, int64_t n, int type, P a, int64_t lda,
                              int tau_type, P tau, int compute, P work, size_t work_bytes, P host,
                              size_t host_bytes, int *info)
{
    write_no_errors(info, 1);
    return 0;
}

EXPORTED int cusolverDnXpotrf(H h, P parameters, int uplo, int64_t n, int type, P a, int64_t lda,
                              int compute, P work, size_t work_bytes, P host, size_t host_bytes, int *info)
{
    write_no_errors(info, 1);
    return 0;
}

EXPORTED int cusolverDnXpotrs(H h, P parameters, int uplo, int64_t n, int64_t columns, int type, P a,
                              int64_t lda, int right_type, P b, int64_t ldb, int *info)
{
    write_no_errors(info, 1);
    return 0;
}

EXPORTED int cusolverDnXsyevd(H h, P parameters, int jobz, int uplo, int64_t n, int type, P a, int64_t lda,
                              int w_type, P w, int compute, P work, size_t work_bytes, P host,
                              size_t host_bytes, int *info)
{
    write_no_errors(info, 1);
    return 0;
}

EXPORTED int cusolverDnXsyevBatched(H h, P parameters, int jobz, int uplo, int64_t n, int type, P a,
                                    int64_t lda, int w_type, P w, int compute, P work, size_t work_bytes,
                                    P host, size_t host_bytes, int *infos, int64_t count)
{
    write_no_errors(infos, count);
    return 0;
}

EXPORTED int cusolverDnXgeev(H h, P parameters, int jobvl, int jobvr, int64_t n, int type, P a, int64_t lda,
                             int w_type, P w, int vl_type, P vl, int64_t ldvl, int vr_type, P vr,
                             int64_t ldvr, int compute, P work, size_t work_bytes, P host,
                             size_t host_bytes, int *info)
{
    write_no_errors(info, 1);
    return 0;
}

EXPORTED int cusolverDnXsytrs(H h, int uplo, int64_t n, int64_t columns, int type, P a, int64_t lda,
                              const int64_t *pivots, int right_type, P b, int64_t ldb, P work,
                              size_t work_bytes, P host, size_t host_bytes, int *info)
{
    write_no_errors(info, 1);
    return 0;
}
