/* cuSOLVER: dense factorizations and solvers. What a call leaves behind: "no error", and pivots. The sizes
   of its workspaces are in cusolver_sizes.c. Prototypes: cusolverDn.h of CUDA 12.6 to 13.2. */
#include "libraries.h"

#define FOUR_SOLVER(X, name, ...) FOUR_TYPES(X, cusolverDn, name, ##__VA_ARGS__)

/* Settings of handles and of the Jacobi methods: accuracy and speed, no memory. */
EACH(SUCCEEDS, cusolverDnDestroy, cusolverDnDestroyParams, cusolverDnDestroyGesvdjInfo,
     cusolverDnDestroySyevjInfo, cusolverDnSetStream, cusolverDnSetAdvOptions, cusolverDnSetDeterministicMode,
     cusolverDnSetMathMode, cusolverDnXgesvdjSetMaxSweeps, cusolverDnXgesvdjSetSortEig,
     cusolverDnXgesvdjSetTolerance, cusolverDnXsyevjSetMaxSweeps, cusolverDnXsyevjSetSortEig,
     cusolverDnXsyevjSetTolerance)

CREATES(cusolverDnCreate, 1)
CREATES(cusolverDnCreateParams, 1)
CREATES(cusolverDnCreateGesvdjInfo, 1)
CREATES(cusolverDnCreateSyevjInfo, 1)

/* (handle, m, n, a, lda, work, pivots, info) */
#define GETRF(name)   \
    BY_WORDS(name, 8, \
             (write_no_exchanges(AT(7), INT(2) < INT(3) ? INT(2) : INT(3), 1), write_no_errors(AT(8), 1)))
FOUR_SOLVER(GETRF, getrf)

/* (handle, uplo, n, a, lda, pivots, work, lwork, info) */
#define SYTRF(name) BY_WORDS(name, 9, (write_no_exchanges(AT(6), INT(3), 1), write_no_errors(AT(9), 1)))
FOUR_SOLVER(SYTRF, sytrf)

FOUR_SOLVER(INFO, getrs, 10, 0)
FOUR_SOLVER(INFO, potrf, 8, 0)
FOUR_SOLVER(INFO, potrfBatched, 6, 7)
FOUR_SOLVER(INFO, potrs, 9, 0)
FOUR_SOLVER(INFO, potrsBatched, 9, 0) /* one for all matrices (cuSOLVER documentation) */
FOUR_SOLVER(INFO, geqrf, 9, 0)
REAL_AND_COMPLEX(INFO, cusolverDn, orgqr, ungqr, 10, 0)
REAL_AND_COMPLEX(INFO, cusolverDn, ormqr, unmqr, 14, 0)
REAL_AND_COMPLEX(INFO, cusolverDn, syevd, heevd, 10, 0)
REAL_AND_COMPLEX(INFO, cusolverDn, syevj, heevj, 10, 0) /* torch 2.11 to 2.12 */
REAL_AND_COMPLEX(INFO, cusolverDn, syevjBatched, heevjBatched, 10, 12)
FOUR_SOLVER(INFO, gesvd, 16, 0)
FOUR_SOLVER(INFO, gesvdj, 15, 0)
FOUR_SOLVER(INFO, gesvdjBatched, 14, 16)

/* The 64-bit interface (CUDA 11.1 on). */
INFO(cusolverDnXgeqrf, 15, 0)
INFO(cusolverDnXpotrf, 13, 0)
INFO(cusolverDnXpotrs, 12, 0)
INFO(cusolverDnXsyevd, 16, 0)
INFO(cusolverDnXsyevBatched, 16, 17)
INFO(cusolverDnXgeev, 22, 0)
INFO(cusolverDnXsytrs, 16, 0)

/* The infos, the residuals' norms, which are on the host (PyTorch passes its buffer or none), and the
   count. */
static int write_no_residuals(int *infos, double *norms, int count) {
    for (int index = 0; norms && index < count; ++index)
        norms[index] = 0;
    return write_no_errors(infos, count);
}
#define GESVDA_BATCHED(name) BY_WORDS(name, 21, write_no_residuals(AT(19), AT(20), INT(21)))
FOUR_SOLVER(GESVDA_BATCHED, gesvdaStridedBatched)
