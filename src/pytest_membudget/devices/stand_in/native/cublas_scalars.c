/* cuBLAS's reductions of vectors to one number, which goes to the host or to the device as the handle's
   pointer mode says. On the device it is the caller's tensor; on the host it is read at once, so that it is
   written: zero, and the first position. Prototypes: cublas_api.h of CUDA 12.6 to 13.2; of each function the
   second form, with the suffix _64, has 64-bit integers in the same places. */
#include <string.h>

#include "cublas_handle.h"
#include "libraries.h"

enum { POINTERS_TO_HOST = 0 }; /* cublasPointerMode_t */

static int reduced(const struct blas_handle *handle, void *result, size_t bytes)
{
    if (handle->pointer_mode == POINTERS_TO_HOST)
        memset(result, 0, bytes);
    return 0;
}

#define DOT(name, bytes)               \
    DOT_OF(name, int, bytes)           \
    DOT_OF(name##_64, int64_t, bytes)
#define DOT_OF(name, integer, bytes)                                                              \
    EXPORTED int name(void *handle, integer n, const void *x, integer incx, const void *y,        \
                      integer incy, void *result)                                                 \
    {                                                                                             \
        return reduced(handle, result, bytes);                                                    \
    }
DOT(cublasSdot_v2, 4)
DOT(cublasDdot_v2, 8)
DOT(cublasCdotu_v2, 8)
DOT(cublasCdotc_v2, 8)
DOT(cublasZdotu_v2, 16)
DOT(cublasZdotc_v2, 16)

/* The results of norms and sums of magnitudes are real. */
#define NORM(name, bytes)              \
    NORM_OF(name, int, bytes)          \
    NORM_OF(name##_64, int64_t, bytes)
#define NORM_OF(name, integer, bytes)                                                             \
    EXPORTED int name(void *handle, integer n, const void *x, integer incx, void *result)         \
    {                                                                                             \
        return reduced(handle, result, bytes);                                                    \
    }
NORM(cublasSnrm2_v2, 4)
NORM(cublasDnrm2_v2, 8)
NORM(cublasScnrm2_v2, 4)
NORM(cublasDznrm2_v2, 8)
NORM(cublasSasum_v2, 4)
NORM(cublasDasum_v2, 8)
NORM(cublasScasum_v2, 4)
NORM(cublasDzasum_v2, 8)

/* The position of the largest or smallest element, counted from 1; 0 where there is none. */
#define POSITION(name)         \
    POSITION_OF(name, int)     \
    POSITION_OF(name##_64, int64_t)
#define POSITION_OF(name, integer)                                                                \
    EXPORTED int name(struct blas_handle *handle, integer n, const void *x, integer incx,         \
                      integer *result)                                                            \
    {                                                                                             \
        if (handle->pointer_mode == POINTERS_TO_HOST)                                             \
            *result = n > 0;                                                                      \
        return 0;                                                                                 \
    }
POSITION(cublasIsamax_v2)
POSITION(cublasIdamax_v2)
POSITION(cublasIcamax_v2)
POSITION(cublasIzamax_v2)
POSITION(cublasIsamin_v2)
POSITION(cublasIdamin_v2)
POSITION(cublasIcamin_v2)
POSITION(cublasIzamin_v2)

#define DOT_EX(name, integer)                                                                     \
    EXPORTED int name(void *handle, integer n, const void *x, int x_type, integer incx,           \
                      const void *y, int y_type, integer incy, void *result, int result_type,     \
                      int execution_type)                                                         \
    {                                                                                             \
        return reduced(handle, result, data_type_bytes(result_type));                             \
    }
DOT_EX(cublasDotEx, int)
DOT_EX(cublasDotEx_64, int64_t)
