/* cuSPARSE: products, sums, sorts and solves of sparse matrices. The numbers of elements of results and the
   sizes of buffers are in cusparse_sizes.c; here is what only computes. Prototypes: cusparse.h of CUDA 12.6
   to 13.2. */
#include "libraries.h"

/* The result goes into arrays that the caller allocated, in a buffer whose size was asked for before. */
EACH(SUCCEEDS, cusparseDestroy, cusparseSetStream, cusparseSetPointerMode, cusparseDestroyMatDescr,
     cusparseSetMatDiagType, cusparseSetMatFillMode, cusparseSetMatIndexBase, cusparseSetMatType,
     cusparseDestroyBsrsm2Info, cusparseDestroyBsrsv2Info, cusparseSpGEMM_destroyDescr,
     cusparseSpSM_destroyDescr, cusparseSpSV_destroyDescr, cusparseSpMatSetAttribute,
     cusparseDnMatSetStridedBatch, cusparseSpMM, cusparseSpMM_preprocess, cusparseSpMV,
     cusparseSpMV_preprocess, cusparseSDDMM, cusparseSDDMM_preprocess, cusparseSpGEMM_copy,
     cusparseSpSM_analysis, cusparseSpSM_solve, cusparseSpSV_analysis, cusparseSpSV_solve, cusparseXcoo2csr,
     cusparseXcsr2coo, cusparseXcoosortByRow, cusparseXcoosortByColumn, cusparseXcsrsort,
     cusparseCreateIdentityPermutation)
#define FOUR_SUCCEED(name) FOUR_TYPES(SUCCEEDS, cusparse, name)
EACH(FOUR_SUCCEED, bsrmm, bsrmv, csrgeam2, bsrsm2_analysis, bsrsm2_solve, bsrsv2_analysis, bsrsv2_solve)

CREATES(cusparseCreate, 1)
CREATES(cusparseCreateMatDescr, 1)
CREATES(cusparseCreateBsrsm2Info, 1)
CREATES(cusparseCreateBsrsv2Info, 1)
CREATES(cusparseSpGEMM_createDescr, 1)
CREATES(cusparseSpSM_createDescr, 1)
CREATES(cusparseSpSV_createDescr, 1)

/* -1: no pivot is zero (cuSPARSE documentation, bsrsv2_zeroPivot). */
#define ZERO_PIVOT(name) BY_WORDS(name, 3, (*(int *)AT(3) = -1, 0)) /* (handle, info, position) */
ZERO_PIVOT(cusparseXbsrsm2_zeroPivot)
ZERO_PIVOT(cusparseXbsrsv2_zeroPivot)

EXPORTED const char *cusparseGetErrorName(int status) {
    return status == 0 ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_NOT_SUPPORTED";
}

EXPORTED const char *cusparseGetErrorString(int status) {
    return status == 0 ? "success" : "not modelled by pytest-membudget's stand-in for cuSPARSE";
}
