/* cuBLAS's functions that are refused. Names: cublas_api.h, cublas.h and cublasXt.h of CUDA 12.6
   to 13.2; each name includes its 64-bit form (the suffix _64), which has the same arguments in the
   same places. */
#ifndef MEMBUDGET_CUBLAS_NAMES_H
#define MEMBUDGET_CUBLAS_NAMES_H

#include "libraries.h"

#define FOUR_BLAS(X, name) FOUR_TYPES(X, cublas, name)
#define REAL_BLAS(X, name) X(cublasS##name) X(cublasD##name)
#define COMPLEX_BLAS(X, name) X(cublasC##name) X(cublasZ##name)

/* Known to the vendor's library, called by no PyTorch: refused by name. The old interface without a handle,
   multi-GPU cublasXt (which allocates and copies on its own), packed and banded matrices. */
#define BLAS_NOT_MODELLED(X)                                                                               \
    X(cublasInit) X(cublasShutdown) X(cublasAlloc) X(cublasFree) X(cublasGetError)                         \
    X(cublasSetKernelStream) FOUR_BLAS(X, gemm) FOUR_BLAS(X, gemv) FOUR_BLAS(X, axpy) FOUR_BLAS(X, copy)  \
    FOUR_BLAS(X, scal) FOUR_BLAS(X, swap) FOUR_BLAS(X, symm) FOUR_BLAS(X, syrk) FOUR_BLAS(X, syr2k)        \
    FOUR_BLAS(X, trmm) FOUR_BLAS(X, trsm) FOUR_BLAS(X, trmv) FOUR_BLAS(X, trsv) REAL_BLAS(X, dot)         \
    REAL_BLAS(X, nrm2) FOUR_BLAS(X, gbmv_v2) FOUR_BLAS(X, tbmv_v2) FOUR_BLAS(X, tbsv_v2)                  \
    FOUR_BLAS(X, tpmv_v2) FOUR_BLAS(X, tpsv_v2) FOUR_BLAS(X, tpttr) FOUR_BLAS(X, trttp)                    \
    REAL_BLAS(X, sbmv_v2) REAL_BLAS(X, spmv_v2) REAL_BLAS(X, spr_v2) REAL_BLAS(X, spr2_v2)                \
    COMPLEX_BLAS(X, hbmv_v2) COMPLEX_BLAS(X, hpmv_v2) COMPLEX_BLAS(X, hpr_v2) COMPLEX_BLAS(X, hpr2_v2)     \
    X( cublasCgemm3mEx) X(cublasCgemm3mBatched) X(cublasCgemm3mStridedBatched) X(cublasCherkEx)            \
    X(cublasCherk3mEx) X(cublasCsyrkEx) X( cublasCsyrk3mEx) X(cublasNrm2Ex) X(cublasAsumEx)                \
    X(cublasIamaxEx) X(cublasIaminEx) X(cublasDotcEx) X(cublasRotEx) X(cublasRotgEx) X(cublasRotmEx)       \
    X(cublasRotmgEx) X( cublasUint8gemmBias) X(cublasHSHgemvBatched) X(cublasHSHgemvStridedBatched)        \
    X(cublasHSSgemvBatched) X(cublasHSSgemvStridedBatched) X(cublasTSSgemvBatched)                         \
    X( cublasTSSgemvStridedBatched) X(cublasTSTgemvBatched) X(cublasTSTgemvStridedBatched)                 \
    X(cublasXtCreate) X(cublasXtDestroy) X(cublasXtDeviceSelect) X( cublasXtGetNumBoards)                  \
    X(cublasXtMaxBoards) X(cublasXtSetBlockDim) X(cublasXtGetBlockDim) X(cublasXtSetCpuRatio)              \
    X( cublasXtSetCpuRoutine) X(cublasXtSetPinningMemMode) X(cublasXtGetPinningMemMode)                    \
    FOUR_TYPES(X, cublasXt, gemm) FOUR_TYPES(X, cublasXt, symm) FOUR_TYPES(X, cublasXt, syrk)             \
    FOUR_TYPES(X, cublasXt, syr2k) FOUR_TYPES(X, cublasXt, syrkx) FOUR_TYPES(X, cublasXt, trmm)           \
    FOUR_TYPES(X, cublasXt, trsm) FOUR_TYPES(X, cublasXt, spmm) X( cublasXtChemm) X(cublasXtZhemm)         \
    X(cublasXtCherk) X(cublasXtZherk) X(cublasXtCher2k) X(cublasXtZher2k) X( cublasXtCherkx)               \
    X(cublasXtZherkx) X(cublasLoggerConfigure) X(cublasSetLoggerCallback) X(cublasGetLoggerCallback)       \
    X( cublasSetEnvironmentMode) X(cublasGetEnvironmentMode) X(cublasSetEmulationStrategy)                 \
    X( cublasGetEmulationStrategy) X(cublasSetEmulationSpecialValuesSupport)                               \
    X(cublasGetEmulationSpecialValuesSupport) X( cublasSetFixedPointEmulationMantissaControl)              \
    X(cublasGetFixedPointEmulationMantissaControl) X( cublasSetFixedPointEmulationMaxMantissaBitCount)     \
    X(cublasGetFixedPointEmulationMaxMantissaBitCount) X(cublasSetFixedPointEmulationMantissaBitOffset)    \
    X(cublasGetFixedPointEmulationMantissaBitOffset)                                                       \
    X(cublasSetFixedPointEmulationMantissaBitCountPointer)                                                 \
    X(cublasGetFixedPointEmulationMantissaBitCountPointer)

#endif
