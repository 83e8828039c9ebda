/* cuSPARSE: products, sums, sorts and solves of sparse matrices. The numbers of elements of results and the
   sizes of buffers are in cusparse_sizes.c; here is what only computes. Prototypes: cusparse.h of CUDA 12.6
   to 13.2. */
#include "cusparse_descriptors.h"
#include "libraries.h"

enum { NOT_SUPPORTED = 10 }; /* cusparseStatus_t */

#define FOUR_SPARSE(X, name) FOUR_TYPES(X, cusparse, name)

/* The result goes into arrays that the caller allocated, in a buffer whose size was asked for before. */
#define SPARSE_COMPUTES_ONLY(X)                                                                            \
    X(cusparseDestroy) X(cusparseSetStream) X(cusparseSetPointerMode) X(cusparseDestroyMatDescr)           \
    X(cusparseSetMatDiagType) X(cusparseSetMatFillMode) X(cusparseSetMatIndexBase) X(cusparseSetMatType)   \
    X(cusparseDestroyBsrsm2Info) X(cusparseDestroyBsrsv2Info) X(cusparseSpGEMM_destroyDescr)               \
    X(cusparseSpSM_destroyDescr) X(cusparseSpSV_destroyDescr) X(cusparseSpMatSetAttribute)                 \
    X(cusparseDnMatSetStridedBatch) X(cusparseSpMM) X(cusparseSpMM_preprocess) X(cusparseSpMV)             \
    X(cusparseSpMV_preprocess) X(cusparseSDDMM) X(cusparseSDDMM_preprocess) X(cusparseSpGEMM_copy)         \
    X(cusparseSpSM_analysis) X(cusparseSpSM_solve) X(cusparseSpSV_analysis) X(cusparseSpSV_solve)          \
    X(cusparseXcoo2csr) X(cusparseXcsr2coo) X(cusparseXcoosortByRow) X(cusparseXcoosortByColumn)           \
    X(cusparseXcsrsort) X(cusparseCreateIdentityPermutation) FOUR_SPARSE(X, bsrmm) FOUR_SPARSE(X, bsrmv)   \
    FOUR_SPARSE(X, csrgeam2) FOUR_SPARSE(X, bsrsm2_analysis) FOUR_SPARSE(X, bsrsm2_solve)                  \
    FOUR_SPARSE(X, bsrsv2_analysis) FOUR_SPARSE(X, bsrsv2_solve)
SPARSE_COMPUTES_ONLY(COMPUTES_ONLY)

#define SPARSE_REFUSED(name) REFUSED(name, NOT_SUPPORTED)
SPARSE_NOT_MODELLED(SPARSE_REFUSED)

#define CREATES(name)                 \
    EXPORTED int name(void **created) \
    {                                 \
        *created = new_handle();      \
        return 0;                     \
    }
CREATES(cusparseCreate)
CREATES(cusparseCreateMatDescr)
CREATES(cusparseCreateBsrsm2Info)
CREATES(cusparseCreateBsrsv2Info)
CREATES(cusparseSpGEMM_createDescr)
CREATES(cusparseSpSM_createDescr)
CREATES(cusparseSpSV_createDescr)

/* -1: no pivot is zero (cuSPARSE documentation, bsrsv2_zeroPivot). */
#define ZERO_PIVOT(name)                                       \
    EXPORTED int name(void *handle, void *info, int *position) \
    {                                                          \
        *position = -1;                                        \
        return 0;                                              \
    }
ZERO_PIVOT(cusparseXbsrsm2_zeroPivot)
ZERO_PIVOT(cusparseXbsrsv2_zeroPivot)

EXPORTED const char *cusparseGetErrorName(int status)
{
    return status == 0 ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_NOT_SUPPORTED";
}

EXPORTED const char *cusparseGetErrorString(int status)
{
    return status == 0 ? "success" : "not modelled by pytest-membudget's stand-in for cuSPARSE";
}
