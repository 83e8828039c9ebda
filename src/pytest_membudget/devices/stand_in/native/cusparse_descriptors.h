/* A sparse matrix as cuSPARSE's generic functions are given it, and the names that PyTorch does not call.
 */
#ifndef MEMBUDGET_CUSPARSE_DESCRIPTORS_H
#define MEMBUDGET_CUSPARSE_DESCRIPTORS_H

#include "libraries.h"

struct sparse_matrix {
    int64_t rows, columns, specified; /* elements, of each matrix of a batch */
    size_t index_bytes, value_bytes;
};

#define SPARSE_NOT_MODELLED(X)                                                                             \
    X(cusparseCreateBsr) X(cusparseCreateCsc) X(cusparseCreateSpVec) X(cusparseCreateBlockedEll)           \
    X(cusparseCreateSlicedEll) X( cusparseCreateConstBsr) X(cusparseCreateConstCoo)                        \
    X(cusparseCreateConstCsc) X(cusparseCreateConstCsr) X(cusparseCreateConstDnMat)                        \
    X(cusparseCreateConstDnVec) X( cusparseCreateConstSpVec) X(cusparseCreateConstBlockedEll)              \
    X(cusparseCreateConstSlicedEll) X(cusparseDestroySpVec) X(cusparseSpVV) X(cusparseSpVV_bufferSize)     \
    X(cusparseAxpby) X( cusparseGather) X(cusparseScatter) X(cusparseRot) X(cusparseCooGet)                \
    X(cusparseCsrGet) X(cusparseCscGet) X(cusparseCooSetPointers) X(cusparseCscSetPointers)                \
    X( cusparseCooSetStridedBatch) X(cusparseBsrSetStridedBatch) X(cusparseSpMatGetAttribute)              \
    X(cusparseSpMatGetFormat) X(cusparseSpMatGetIndexBase) X( cusparseSpMatGetStridedBatch)                \
    X(cusparseSpMatGetValues) X(cusparseSpMatSetValues) X(cusparseDnMatGet)                                \
    X(cusparseDnMatGetStridedBatch) X(cusparseDnMatGetValues) X( cusparseDnMatSetValues)                   \
    X(cusparseDnVecGet) X(cusparseDnVecGetValues) X(cusparseDnVecSetValues) X(cusparseSparseToDense)       \
    X( cusparseSparseToDense_bufferSize) X(cusparseDenseToSparse_analysis)                                 \
    X(cusparseDenseToSparse_bufferSize) X(cusparseDenseToSparse_convert) X( cusparseCsr2cscEx2)            \
    X(cusparseCsr2cscEx2_bufferSize) X(cusparseSpGEMM_estimateMemory) X(cusparseSpGEMM_getNumProducts)     \
    X( cusparseSpGEMMreuse_workEstimation) X(cusparseSpGEMMreuse_nnz) X(cusparseSpGEMMreuse_compute)       \
    X(cusparseSpGEMMreuse_copy) X( cusparseSpMMOp) X(cusparseSpMMOp_createPlan)                            \
    X(cusparseSpMMOp_destroyPlan) X(cusparseSpSM_updateMatrix) X( cusparseSpSV_updateMatrix)               \
    X(cusparseGetStream) X(cusparseGetPointerMode) X(cusparseGetVersion) X( cusparseGetMatDiagType)        \
    X(cusparseGetMatFillMode) X(cusparseGetMatIndexBase) X(cusparseGetMatType) X( cusparseXcscsort)        \
    X(cusparseXcscsort_bufferSizeExt) X(cusparseXcsr2bsrNnz) FOUR_TYPES(X, cusparse, csr2bsr)             \
    FOUR_TYPES(X, cusparse, bsr2csr) FOUR_TYPES(X, cusparse, nnz) FOUR_TYPES(X, cusparse, gtsv2)          \
    FOUR_TYPES(X, cusparse, gtsv2_bufferSizeExt) FOUR_TYPES(X, cusparse, gtsv2_nopivot)                    \
    FOUR_TYPES(X, cusparse, gtsv2_nopivot_bufferSizeExt) FOUR_TYPES(X, cusparse, gtsv2StridedBatch)       \
    FOUR_TYPES(X, cusparse, gtsv2StridedBatch_bufferSizeExt)                                              \
    FOUR_TYPES(X, cusparse, gpsvInterleavedBatch) FOUR_TYPES(X, cusparse, csric02)                        \
    FOUR_TYPES(X, cusparse, csrilu02) FOUR_TYPES(X, cusparse, gemvi)

#endif
