/* cuBLAS: matrix products and the like, which take no memory from PyTorch's allocator.

   PyTorch allocates cuBLAS's workspace with its own caching allocator and passes it with cublasSetWorkspace
   (aten/src/ATen/cuda/CublasHandlePool.cpp, torch 2.11 to 2.15). cuBLAS then uses it instead of the
   workspace that cublasCreate took (cuBLAS documentation, "cublasSetWorkspace"). What cublasCreate takes
   comes from the driver, as a kernel's code does: it is in no figure of PyTorch's allocator.

   Prototypes: cublas_api.h and cublas_v2.h of CUDA 12.6 to 13.2, and the cuBLAS documentation. */
#include <stdlib.h>

#include "cublas_handle.h"
#include "errors.h"
#include "libraries.h"
#include "versions.h"

/* Each in both widths of integers, whose arguments are in the same places. */
#define SUCCEED(name) SUCCEEDS(cublas##name) SUCCEEDS(cublas##name##_64)
#define REAL_SUCCEED(name) SUCCEED(S##name) SUCCEED(D##name)
#define COMPLEX_SUCCEED(name) SUCCEED(C##name) SUCCEED(Z##name)
#define FOUR_SUCCEED(name) REAL_SUCCEED(name) COMPLEX_SUCCEED(name)

/* The result goes into a vector or matrix that the caller allocated; there is no other output. Temporary
   memory comes from the workspace set with cublasSetWorkspace. Matrix by matrix: */
EACH(FOUR_SUCCEED, gemm_v2, gemmBatched, gemmStridedBatched, symm_v2, syrk_v2, syr2k_v2, syrkx, trmm_v2,
     trsm_v2, trsmBatched, geam, dgmm)
EACH(REAL_SUCCEED, gemmGroupedBatched)
EACH(COMPLEX_SUCCEED, hemm_v2, herk_v2, her2k_v2, herkx, gemm3m)
EACH(SUCCEED, Hgemm, HgemmBatched, HgemmStridedBatched, SgemmEx, CgemmEx, GemmEx, GemmBatchedEx,
     GemmStridedBatchedEx, GemmGroupedBatchedEx)
/* matrix by vector: */
EACH(FOUR_SUCCEED, gemv_v2, gemvBatched, gemvStridedBatched, symv_v2, trmv_v2, trsv_v2, syr_v2, syr2_v2)
EACH(REAL_SUCCEED, ger_v2)
EACH(COMPLEX_SUCCEED, geru_v2, gerc_v2, hemv_v2, her_v2, her2_v2)
/* vector by vector, in place, and the coefficients of rotations, which are left as the caller has them: */
EACH(FOUR_SUCCEED, axpy_v2, copy_v2, scal_v2, swap_v2, rot_v2, rotg_v2)
EACH(REAL_SUCCEED, rotm_v2, rotmg_v2)
EACH(SUCCEED, Csscal_v2, Zdscal_v2, Csrot_v2, Zdrot_v2, AxpyEx, ScalEx, CopyEx, SwapEx)

EXPORTED int cublasCreate_v2(void **handle) {
    *handle = calloc(1, sizeof(struct blas_handle));
    return *handle ? SUCCESS : CUBLAS_ALLOC_FAILED;
}

EXPORTED int cublasDestroy_v2(void *handle) {
    free(handle);
    return SUCCESS;
}

/* One field of a handle: its setter and its getter. */
#define STATE(setter, getter, type, field)                         \
    EXPORTED int setter(struct blas_handle *handle, type value) {  \
        handle->field = value;                                     \
        return SUCCESS;                                            \
    }                                                              \
    EXPORTED int getter(struct blas_handle *handle, type *value) { \
        *value = handle->field;                                    \
        return SUCCESS;                                            \
    }

STATE(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
STATE(cublasSetMathMode, cublasGetMathMode, int, math_mode)
STATE(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)
STATE(cublasSetSmCountTarget, cublasGetSmCountTarget, int, multiprocessor_target)
STATE(cublasSetStream_v2, cublasGetStream_v2, void *, stream)

/* The workspace is the caller's own allocation; nothing here writes to it. */
SUCCEEDS(cublasSetWorkspace_v2)

EXPORTED int cublasGetVersion_v2(void *handle, int *version) {
    *version = (int)cublasLtGetVersion();
    return SUCCESS;
}

EXPORTED const char *cublasGetStatusName(int status) {
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

EXPORTED const char *cublasGetStatusString(int status) {
    return status == SUCCESS ? "success" : "not modelled by pytest-membudget's stand-in for cuBLAS";
}
