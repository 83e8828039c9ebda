/* What the vendor's headers declare beyond the functions that PyTorch calls, of CUDA 13.2: refused by name.

   An extension that calls one gets "not supported" and a line in the report. Were it not exported here, the
   real function would run, with handles that it did not make. */
#include "libraries.h"

#define REAL_TYPES(X, prefix, name) X(prefix##S##name) X(prefix##D##name)
#define COMPLEX_TYPES(X, prefix, name) X(prefix##C##name) X(prefix##Z##name)

/* The old interface without a handle, and packed matrices. */
#define CUBLAS_OTHERS(X)                                                                                   \
    COMPLEX_TYPES(X, cublas, dotc) COMPLEX_TYPES(X, cublas, dotu) FOUR_TYPES(X, cublas, gbmv)              \
    COMPLEX_TYPES(X, cublas, gerc) COMPLEX_TYPES(X, cublas, geru) COMPLEX_TYPES(X, cublas, hbmv)           \
    COMPLEX_TYPES(X, cublas, hemm) COMPLEX_TYPES(X, cublas, hemv) COMPLEX_TYPES(X, cublas, her)            \
    COMPLEX_TYPES(X, cublas, her2) COMPLEX_TYPES(X, cublas, her2k) COMPLEX_TYPES(X, cublas, herk)          \
    COMPLEX_TYPES(X, cublas, hpmv) COMPLEX_TYPES(X, cublas, hpr) COMPLEX_TYPES(X, cublas, hpr2)            \
    FOUR_TYPES(X, cublas, rot) FOUR_TYPES(X, cublas, rotg) X(cublasCsrot) X(cublasCsscal)                  \
    FOUR_TYPES(X, cublas, tbmv) FOUR_TYPES(X, cublas, tbsv) FOUR_TYPES(X, cublas, tpmv)                    \
    FOUR_TYPES(X, cublas, tpsv) REAL_TYPES(X, cublas, asum) REAL_TYPES(X, cublas, ger)                     \
    REAL_TYPES(X, cublas, rotm) REAL_TYPES(X, cublas, rotmg) REAL_TYPES(X, cublas, sbmv)                   \
    REAL_TYPES(X, cublas, spmv) REAL_TYPES(X, cublas, spr) REAL_TYPES(X, cublas, spr2)                     \
    REAL_TYPES(X, cublas, symv) REAL_TYPES(X, cublas, syr) REAL_TYPES(X, cublas, syr2) X(cublasDzasum)     \
    X(cublasDznrm2) X(cublasGetVersion) X(cublasIcamax) X(cublasIcamin) X(cublasIdamax) X(cublasIdamin)    \
    X(cublasIsamax) X(cublasIsamin) X(cublasIzamax) X(cublasIzamin) X(cublasScasum) X(cublasScnrm2)        \
    X(cublasXerbla) X(cublasZdrot) X(cublasZdscal)
#define CUBLAS_REFUSED(name) REFUSED(name, 15) /* CUBLAS_STATUS_NOT_SUPPORTED */
CUBLAS_OTHERS(CUBLAS_REFUSED)

/* Mixed precision with refinement (IRS), sparse (Sp) and repeated (Rf) factorizations. */
#define CUSOLVER_OTHERS(X)                                                                                 \
    X(cusolverDnCCgels) X(cusolverDnCCgels_bufferSize) X(cusolverDnCCgesv) X(cusolverDnCCgesv_bufferSize)  \
    X(cusolverDnCEgels) X(cusolverDnCEgels_bufferSize) X(cusolverDnCEgesv) X(cusolverDnCEgesv_bufferSize)  \
    X(cusolverDnCKgels) X(cusolverDnCKgels_bufferSize) X(cusolverDnCKgesv) X(cusolverDnCKgesv_bufferSize)  \
    X(cusolverDnCYgels) X(cusolverDnCYgels_bufferSize) X(cusolverDnCYgesv) X(cusolverDnCYgesv_bufferSize)  \
    X(cusolverDnDBgels) X(cusolverDnDBgels_bufferSize) X(cusolverDnDBgesv) X(cusolverDnDBgesv_bufferSize)  \
    X(cusolverDnDDgels) X(cusolverDnDDgels_bufferSize) X(cusolverDnDDgesv) X(cusolverDnDDgesv_bufferSize)  \
    X(cusolverDnDHgels) X(cusolverDnDHgels_bufferSize) X(cusolverDnDHgesv) X(cusolverDnDHgesv_bufferSize)  \
    X(cusolverDnDSgels) X(cusolverDnDSgels_bufferSize) X(cusolverDnDSgesv) X(cusolverDnDSgesv_bufferSize)  \
    X(cusolverDnDXgels) X(cusolverDnDXgels_bufferSize) X(cusolverDnDXgesv) X(cusolverDnDXgesv_bufferSize)  \
    X(cusolverDnGetEmulationSpecialValuesSupport) X(cusolverDnGetEmulationStrategy)                        \
    X(cusolverDnGetFixedPointEmulationMantissaBitOffset)                                                   \
    X(cusolverDnGetFixedPointEmulationMantissaControl)                                                     \
    X(cusolverDnGetFixedPointEmulationMaxMantissaBitCount) X(cusolverDnIRSInfosCreate)                     \
    X(cusolverDnIRSInfosDestroy) X(cusolverDnIRSInfosGetMaxIters) X(cusolverDnIRSInfosGetNiters)           \
    X(cusolverDnIRSInfosGetOuterNiters) X(cusolverDnIRSInfosGetResidualHistory)                            \
    X(cusolverDnIRSInfosRequestResidual) X(cusolverDnIRSParamsCreate) X(cusolverDnIRSParamsDestroy)        \
    X(cusolverDnIRSParamsDisableFallback) X(cusolverDnIRSParamsEnableFallback)                             \
    X(cusolverDnIRSParamsGetMaxIters) X(cusolverDnIRSParamsSetMaxIters)                                    \
    X(cusolverDnIRSParamsSetMaxItersInner) X(cusolverDnIRSParamsSetRefinementSolver)                       \
    X(cusolverDnIRSParamsSetSolverLowestPrecision) X(cusolverDnIRSParamsSetSolverMainPrecision)            \
    X(cusolverDnIRSParamsSetSolverPrecisions) X(cusolverDnIRSParamsSetTol)                                 \
    X(cusolverDnIRSParamsSetTolInner) X(cusolverDnIRSXgels) X(cusolverDnIRSXgels_bufferSize)               \
    X(cusolverDnIRSXgesv) X(cusolverDnIRSXgesv_bufferSize) X(cusolverDnSBgels)                             \
    X(cusolverDnSBgels_bufferSize) X(cusolverDnSBgesv) X(cusolverDnSBgesv_bufferSize) X(cusolverDnSHgels)  \
    X(cusolverDnSHgels_bufferSize) X(cusolverDnSHgesv) X(cusolverDnSHgesv_bufferSize) X(cusolverDnSSgels)  \
    X(cusolverDnSSgels_bufferSize) X(cusolverDnSSgesv) X(cusolverDnSSgesv_bufferSize) X(cusolverDnSXgels)  \
    X(cusolverDnSXgels_bufferSize) X(cusolverDnSXgesv) X(cusolverDnSXgesv_bufferSize)                      \
    X(cusolverDnSetEmulationSpecialValuesSupport) X(cusolverDnSetEmulationStrategy)                        \
    X(cusolverDnSetFixedPointEmulationMantissaBitOffset)                                                   \
    X(cusolverDnSetFixedPointEmulationMantissaControl)                                                     \
    X(cusolverDnSetFixedPointEmulationMaxMantissaBitCount) X(cusolverDnZCgels)                             \
    X(cusolverDnZCgels_bufferSize) X(cusolverDnZCgesv) X(cusolverDnZCgesv_bufferSize) X(cusolverDnZEgels)  \
    X(cusolverDnZEgels_bufferSize) X(cusolverDnZEgesv) X(cusolverDnZEgesv_bufferSize) X(cusolverDnZKgels)  \
    X(cusolverDnZKgels_bufferSize) X(cusolverDnZKgesv) X(cusolverDnZKgesv_bufferSize) X(cusolverDnZYgels)  \
    X(cusolverDnZYgels_bufferSize) X(cusolverDnZYgesv) X(cusolverDnZYgesv_bufferSize) X(cusolverDnZZgels)  \
    X(cusolverDnZZgels_bufferSize) X(cusolverDnZZgesv) X(cusolverDnZZgesv_bufferSize)                      \
    X(cusolverRfAccessBundledFactorsDevice) X(cusolverRfAnalyze) X(cusolverRfBatchAnalyze)                 \
    X(cusolverRfBatchRefactor) X(cusolverRfBatchResetValues) X(cusolverRfBatchSetupHost)                   \
    X(cusolverRfBatchSolve) X(cusolverRfBatchZeroPivot) X(cusolverRfExtractBundledFactorsHost)             \
    X(cusolverRfExtractSplitFactorsHost) X(cusolverRfGetAlgs) X(cusolverRfGetMatrixFormat)                 \
    X(cusolverRfGetNumericBoostReport) X(cusolverRfGetNumericProperties)                                   \
    X(cusolverRfGetResetValuesFastMode) X(cusolverRfRefactor) X(cusolverRfResetValues)                     \
    X(cusolverRfSetAlgs) X(cusolverRfSetMatrixFormat) X(cusolverRfSetNumericProperties)                    \
    X(cusolverRfSetResetValuesFastMode) X(cusolverRfSetupDevice) X(cusolverRfSetupHost) X(cusolverRfSolve) \
    FOUR_TYPES(X, cusolverSp, csrcholBufferInfo) FOUR_TYPES(X, cusolverSp, csrcholBufferInfoHost)          \
    FOUR_TYPES(X, cusolverSp, csrcholDiag) FOUR_TYPES(X, cusolverSp, csrcholFactor)                        \
    FOUR_TYPES(X, cusolverSp, csrcholFactorHost) FOUR_TYPES(X, cusolverSp, csrcholSolve)                   \
    FOUR_TYPES(X, cusolverSp, csrcholSolveHost) FOUR_TYPES(X, cusolverSp, csrcholZeroPivot)                \
    FOUR_TYPES(X, cusolverSp, csrcholZeroPivotHost) FOUR_TYPES(X, cusolverSp, csreigsHost)                 \
    FOUR_TYPES(X, cusolverSp, csreigvsi) FOUR_TYPES(X, cusolverSp, csreigvsiHost)                          \
    FOUR_TYPES(X, cusolverSp, csrlsqvqrHost) FOUR_TYPES(X, cusolverSp, csrlsvcholHost)                     \
    FOUR_TYPES(X, cusolverSp, csrlsvluHost) FOUR_TYPES(X, cusolverSp, csrlsvqrHost)                        \
    FOUR_TYPES(X, cusolverSp, csrluBufferInfoHost) FOUR_TYPES(X, cusolverSp, csrluExtractHost)             \
    FOUR_TYPES(X, cusolverSp, csrluFactorHost) FOUR_TYPES(X, cusolverSp, csrluSolveHost)                   \
    FOUR_TYPES(X, cusolverSp, csrluZeroPivotHost) FOUR_TYPES(X, cusolverSp, csrqrBufferInfo)               \
    FOUR_TYPES(X, cusolverSp, csrqrBufferInfoBatched) FOUR_TYPES(X, cusolverSp, csrqrBufferInfoHost)       \
    FOUR_TYPES(X, cusolverSp, csrqrFactor) FOUR_TYPES(X, cusolverSp, csrqrFactorHost)                      \
    FOUR_TYPES(X, cusolverSp, csrqrSetup) FOUR_TYPES(X, cusolverSp, csrqrSetupHost)                        \
    FOUR_TYPES(X, cusolverSp, csrqrSolve) FOUR_TYPES(X, cusolverSp, csrqrSolveHost)                        \
    FOUR_TYPES(X, cusolverSp, csrqrZeroPivot) FOUR_TYPES(X, cusolverSp, csrqrZeroPivotHost)                \
    FOUR_TYPES(X, cusolverSp, csrqrsvBatched) FOUR_TYPES(X, cusolverSp, csrzfdHost)                        \
    X(cusolverSpCreateCsrcholInfo) X(cusolverSpCreateCsrcholInfoHost) X(cusolverSpCreateCsrluInfoHost)     \
    X(cusolverSpCreateCsrqrInfo) X(cusolverSpCreateCsrqrInfoHost) X(cusolverSpDestroyCsrcholInfo)          \
    X(cusolverSpDestroyCsrcholInfoHost) X(cusolverSpDestroyCsrluInfoHost) X(cusolverSpDestroyCsrqrInfo)    \
    X(cusolverSpDestroyCsrqrInfoHost) X(cusolverSpGetStream) X(cusolverSpXcsrcholAnalysis)                 \
    X(cusolverSpXcsrcholAnalysisHost) X(cusolverSpXcsrissymHost) X(cusolverSpXcsrluAnalysisHost)           \
    X(cusolverSpXcsrluNnzHost) X(cusolverSpXcsrmetisndHost) X(cusolverSpXcsrpermHost)                      \
    X(cusolverSpXcsrperm_bufferSizeHost) X(cusolverSpXcsrqrAnalysis) X(cusolverSpXcsrqrAnalysisBatched)    \
    X(cusolverSpXcsrqrAnalysisHost) X(cusolverSpXcsrsymamdHost) X(cusolverSpXcsrsymmdqHost)                \
    X(cusolverSpXcsrsymrcmHost)
#define CUSOLVER_REFUSED(name) REFUSED(name, 9) /* CUSOLVER_STATUS_NOT_SUPPORTED */
CUSOLVER_OTHERS(CUSOLVER_REFUSED)

/* Incomplete factorizations, pruning, tridiagonal systems, general blocks. */
#define CUSPARSE_OTHERS(X)                                                                                 \
    X(cusparseBlockedEllGet) FOUR_TYPES(X, cusparse, bsric02) FOUR_TYPES(X, cusparse, bsric02_analysis)    \
    FOUR_TYPES(X, cusparse, bsric02_bufferSize) FOUR_TYPES(X, cusparse, bsrilu02)                          \
    FOUR_TYPES(X, cusparse, bsrilu02_analysis) FOUR_TYPES(X, cusparse, bsrilu02_bufferSize)                \
    FOUR_TYPES(X, cusparse, bsrilu02_numericBoost) FOUR_TYPES(X, cusparse, bsrxmv)                         \
    FOUR_TYPES(X, cusparse, csr2csr_compress) FOUR_TYPES(X, cusparse, csr2csru)                            \
    FOUR_TYPES(X, cusparse, csr2gebsr) FOUR_TYPES(X, cusparse, csr2gebsr_bufferSize)                       \
    FOUR_TYPES(X, cusparse, csrcolor) FOUR_TYPES(X, cusparse, csric02_analysis)                            \
    FOUR_TYPES(X, cusparse, csric02_bufferSize) FOUR_TYPES(X, cusparse, csrilu02_analysis)                 \
    FOUR_TYPES(X, cusparse, csrilu02_bufferSize) FOUR_TYPES(X, cusparse, csrilu02_numericBoost)            \
    FOUR_TYPES(X, cusparse, csru2csr) FOUR_TYPES(X, cusparse, csru2csr_bufferSizeExt)                      \
    FOUR_TYPES(X, cusparse, gebsr2csr) FOUR_TYPES(X, cusparse, gebsr2gebsc)                                \
    FOUR_TYPES(X, cusparse, gebsr2gebsc_bufferSize) FOUR_TYPES(X, cusparse, gebsr2gebsr)                   \
    FOUR_TYPES(X, cusparse, gebsr2gebsr_bufferSize) FOUR_TYPES(X, cusparse, gemvi_bufferSize)              \
    FOUR_TYPES(X, cusparse, gpsvInterleavedBatch_bufferSizeExt)                                            \
    FOUR_TYPES(X, cusparse, gtsvInterleavedBatch)                                                          \
    FOUR_TYPES(X, cusparse, gtsvInterleavedBatch_bufferSizeExt) FOUR_TYPES(X, cusparse, nnz_compress)      \
    X(cusparseConstBlockedEllGet) X(cusparseConstCooGet) X(cusparseConstCscGet) X(cusparseConstCsrGet)     \
    X(cusparseConstDnMatGet) X(cusparseConstDnMatGetValues) X(cusparseConstDnVecGet)                       \
    X(cusparseConstDnVecGetValues) X(cusparseConstSpMatGetValues) X(cusparseConstSpVecGet)                 \
    X(cusparseConstSpVecGetValues) X(cusparseCreateBsric02Info) X(cusparseCreateBsrilu02Info)              \
    X(cusparseCreateColorInfo) X(cusparseCreateCsric02Info) X(cusparseCreateCsrilu02Info)                  \
    X(cusparseCreateCsru2csrInfo) X(cusparseCreatePruneInfo) X(cusparseDestroyBsric02Info)                 \
    X(cusparseDestroyBsrilu02Info) X(cusparseDestroyColorInfo) X(cusparseDestroyCsric02Info)               \
    X(cusparseDestroyCsrilu02Info) X(cusparseDestroyCsru2csrInfo) X(cusparseDestroyPruneInfo)              \
    REAL_TYPES(X, cusparse, pruneCsr2csr) REAL_TYPES(X, cusparse, pruneCsr2csrByPercentage)                \
    REAL_TYPES(X, cusparse, pruneCsr2csrByPercentage_bufferSizeExt)                                        \
    REAL_TYPES(X, cusparse, pruneCsr2csrNnz) REAL_TYPES(X, cusparse, pruneCsr2csrNnzByPercentage)          \
    REAL_TYPES(X, cusparse, pruneCsr2csr_bufferSizeExt) REAL_TYPES(X, cusparse, pruneDense2csr)            \
    REAL_TYPES(X, cusparse, pruneDense2csrByPercentage)                                                    \
    REAL_TYPES(X, cusparse, pruneDense2csrByPercentage_bufferSizeExt)                                      \
    REAL_TYPES(X, cusparse, pruneDense2csrNnz) REAL_TYPES(X, cusparse, pruneDense2csrNnzByPercentage)      \
    REAL_TYPES(X, cusparse, pruneDense2csr_bufferSizeExt) X(cusparseHpruneCsr2csr)                         \
    X(cusparseHpruneCsr2csrByPercentage) X(cusparseHpruneCsr2csrByPercentage_bufferSizeExt)                \
    X(cusparseHpruneCsr2csrNnz) X(cusparseHpruneCsr2csrNnzByPercentage)                                    \
    X(cusparseHpruneCsr2csr_bufferSizeExt) X(cusparseHpruneDense2csr)                                      \
    X(cusparseHpruneDense2csrByPercentage) X(cusparseHpruneDense2csrByPercentage_bufferSizeExt)            \
    X(cusparseHpruneDense2csrNnz) X(cusparseHpruneDense2csrNnzByPercentage)                                \
    X(cusparseHpruneDense2csr_bufferSizeExt) X(cusparseSpMVOp) X(cusparseSpMVOp_bufferSize)                \
    X(cusparseSpMVOp_createDescr) X(cusparseSpMVOp_createPlan) X(cusparseSpMVOp_destroyDescr)              \
    X(cusparseSpMVOp_destroyPlan) X(cusparseSpMVOp_setGlobalUserData) X(cusparseSpVecGet)                  \
    X(cusparseSpVecGetIndexBase) X(cusparseSpVecGetValues) X(cusparseSpVecSetValues)                       \
    X(cusparseXbsric02_zeroPivot) X(cusparseXbsrilu02_zeroPivot) X(cusparseXcsr2gebsrNnz)                  \
    X(cusparseXcsric02_zeroPivot) X(cusparseXcsrilu02_zeroPivot) X(cusparseXgebsr2gebsrNnz)
#define CUSPARSE_REFUSED(name) REFUSED(name, 10) /* CUSPARSE_STATUS_NOT_SUPPORTED */
CUSPARSE_OTHERS(CUSPARSE_REFUSED)
