/* cuBLAS: matrix products and the like, which take no memory from PyTorch's allocator.

   PyTorch allocates cuBLAS's workspace with its own caching allocator and passes it with cublasSetWorkspace
   (aten/src/ATen/cuda/CublasHandlePool.cpp, torch 2.11 to 2.15). cuBLAS then uses it instead of the
   workspace that cublasCreate took (cuBLAS documentation, "cublasSetWorkspace"). What cublasCreate takes
   comes from the driver, as a kernel's code does: it is in no figure of PyTorch's allocator.

   Prototypes: cublas_api.h and cublas_v2.h of CUDA 12.6 to 13.2, and the cuBLAS documentation. */
#include <stdlib.h>

#include "cublas_handle.h"
#include "cublas_names.h"
#include "libraries.h"
#include "versions.h"

enum { SUCCESS = 0, ALLOC_FAILED = 3, NOT_SUPPORTED = 15 }; /* cublasStatus_t */

/* Both widths of integers. */
#define BLAS_SUCCEEDS(name) COMPUTES_ONLY(name) COMPUTES_ONLY(name##_64)
#define BLAS_REFUSED(name) REFUSED(name, NOT_SUPPORTED) REFUSED(name##_64, NOT_SUPPORTED)
BLAS_COMPUTES_ONLY(BLAS_SUCCEEDS)
BLAS_NOT_MODELLED(BLAS_REFUSED)

EXPORTED int cublasCreate_v2(void **handle)
{
    *handle = calloc(1, sizeof(struct blas_handle));
    return *handle ? SUCCESS : ALLOC_FAILED;
}

EXPORTED int cublasDestroy_v2(void *handle)
{
    free(handle);
    return SUCCESS;
}

/* One field of a handle: its setter and its getter. */
#define STATE(setter, getter, type, field)                       \
    EXPORTED int setter(struct blas_handle *handle, type value)  \
    {                                                            \
        handle->field = value;                                   \
        return SUCCESS;                                          \
    }                                                            \
    EXPORTED int getter(struct blas_handle *handle, type *value) \
    {                                                            \
        *value = handle->field;                                  \
        return SUCCESS;                                          \
    }

STATE(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
STATE(cublasSetMathMode, cublasGetMathMode, int, math_mode)
STATE(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)
STATE(cublasSetSmCountTarget, cublasGetSmCountTarget, int, multiprocessor_target)
STATE(cublasSetStream_v2, cublasGetStream_v2, void *, stream)

/* The workspace is the caller's own allocation; nothing here writes to it. */
EXPORTED int cublasSetWorkspace_v2(void *handle, void *workspace, size_t workspace_bytes)
{
    return SUCCESS;
}

EXPORTED int cublasGetVersion_v2(void *handle, int *version)
{
    *version = (int)cublasLtGetVersion(); /* both libraries are of one release and have one number */
    return SUCCESS;
}

/* libraryPropertyType: 0 major, 1 minor, 2 patch. */
EXPORTED int cublasGetProperty(int property, int *value)
{
    int version = (int)cublasLtGetVersion(); /* major * 10000 + minor * 100 + patch */
    *value = property == 0 ? version / 10000 : property == 1 ? version / 100 % 100 : version % 100;
    return SUCCESS;
}

EXPORTED const char *cublasGetStatusName(int status)
{
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

EXPORTED const char *cublasGetStatusString(int status)
{
    return status == SUCCESS ? "success" : "not modelled by pytest-membudget's stand-in for cuBLAS";
}
