/* cuBLAS: matrix products and the like, which take no memory from PyTorch's allocator.

   PyTorch allocates cuBLAS's workspace with its own caching allocator and passes it with cublasSetWorkspace
   (aten/src/ATen/cuda/CublasHandlePool.cpp, torch 2.11 to 2.15). cuBLAS then uses it instead of the
   workspace that cublasCreate took (cuBLAS documentation, "cublasSetWorkspace"). What cublasCreate takes
   comes from the driver, as a kernel's code does: it is in no figure of PyTorch's allocator.

   Prototypes: cublas_api.h and cublas_v2.h of CUDA 12.6 to 13.2, and the cuBLAS documentation. */
#include <stdlib.h>
#include <string.h>

#include "cublas_names.h"
#include "libraries.h"

enum { SUCCESS = 0, ALLOC_FAILED = 3, NOT_SUPPORTED = 15 }; /* cublasStatus_t */
enum { POINTERS_TO_HOST = 0 };                              /* cublasPointerMode_t */

/* What the getters of a handle give back. As with the real one, a handle belongs to one thread at a time.
 */
struct blas_handle {
    int pointer_mode, math_mode, atomics_mode, multiprocessor_target;
    void *stream;
};

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

size_t cublasLtGetVersion(void);

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

/* Reductions to a scalar, into the host's memory or the device's as the pointer mode says. The device's is
   the caller's tensor; on the host the value would be read at once, so it is written: zero. */
static void write_scalar(const struct blas_handle *handle, void *result, size_t bytes)
{
    if (handle->pointer_mode == POINTERS_TO_HOST) memset(result, 0, bytes);
}

#define DOT(name, bytes)                                                                                   \
    EXPORTED int name(void *handle, int n, const void *x, int incx, const void *y, int incy, void *result) \
    {                                                                                                      \
        write_scalar(handle, result, bytes);                                                               \
        return SUCCESS;                                                                                    \
    }
DOT(cublasSdot_v2, 4)
DOT(cublasDdot_v2, 8) DOT(cublasCdotu_v2, 8) DOT(cublasCdotc_v2, 8) DOT(cublasZdotu_v2, 16)
    DOT(cublasZdotc_v2, 16)

#define NORM(name, bytes)                                                         \
    EXPORTED int name(void *handle, int n, const void *x, int incx, void *result) \
    {                                                                             \
        write_scalar(handle, result, bytes);                                      \
        return SUCCESS;                                                           \
    }
        NORM(cublasSnrm2_v2, 4) NORM(cublasDnrm2_v2, 8) NORM(cublasScnrm2_v2, 4) NORM(cublasDznrm2_v2, 8)
            NORM(cublasSasum_v2, 4) NORM(cublasDasum_v2, 8) NORM(cublasScasum_v2, 4)
                NORM(cublasDzasum_v2, 8)

/* The position of the largest or smallest element, counted from 1: the first. */
#define POSITION(name)                                                                         \
    EXPORTED int name(struct blas_handle *handle, int n, const void *x, int incx, int *result) \
    {                                                                                          \
        if (handle->pointer_mode == POINTERS_TO_HOST) *result = n > 0;                         \
        return SUCCESS;                                                                        \
    }
                    POSITION(cublasIsamax_v2) POSITION(cublasIdamax_v2) POSITION(cublasIcamax_v2)
                        POSITION(cublasIzamax_v2) POSITION(cublasIsamin_v2) POSITION(cublasIdamin_v2)
                            POSITION(cublasIcamin_v2) POSITION(cublasIzamin_v2)

                                EXPORTED
    int cublasDotEx(void *handle, int n, const void *x, int x_type, int incx, const void *y, int y_type,
                    int incy, void *result, int result_type, int execution_type)
{
    write_scalar(handle, result, data_type_bytes(result_type));
    return SUCCESS;
}
