/* cuBLAS's reductions of vectors to one number, which goes to the host or to the device as the handle's
   pointer mode says. On the device it is the caller's tensor; on the host it is read at once, so that it is
   written: zero, and the first position. Prototypes: cublas_api.h of CUDA 12.6 to 13.2; of each function the
   second form, with the suffix _64, has 64-bit integers in the same places. */
#include <string.h>

#include "cublas_handle.h"
#include "libraries.h"

enum { POINTERS_TO_HOST = 0 }; /* cublasPointerMode_t */

static int reduced(const struct blas_handle *handle, void *result, int64_t number, size_t bytes) {
    if (handle->pointer_mode == POINTERS_TO_HOST) {
        memset(result, 0, bytes);
        memcpy(result, &number, bytes < sizeof number ? bytes : sizeof number); /* little-endian */
    }
    return 0;
}

/* A function and the place of its result, of so many bytes. */
#define ZERO(name, place, bytes)                               \
    BY_WORDS(name, place, reduced(AT(1), AT(place), 0, bytes)) \
    BY_WORDS(name##_64, place, reduced(AT(1), AT(place), 0, bytes))

/* (handle, n, x, incx, y, incy, result) */
ZERO(cublasSdot_v2, 7, 4)
ZERO(cublasDdot_v2, 7, 8)
ZERO(cublasCdotu_v2, 7, 8)
ZERO(cublasCdotc_v2, 7, 8)
ZERO(cublasZdotu_v2, 7, 16)
ZERO(cublasZdotc_v2, 7, 16)

/* (handle, n, x, incx, result): norms and sums of magnitudes are real. */
#define REAL_RESULTS(name) \
    ZERO(cublasS##name, 5, 4) ZERO(cublasD##name, 5, 8) ZERO(cublasSc##name, 5, 4) ZERO(cublasDz##name, 5, 8)
REAL_RESULTS(nrm2_v2)
REAL_RESULTS(asum_v2)

/* (handle, n, x, x_type, incx, y, y_type, incy, result, result_type, execution_type) */
#define DOT_EX(name) BY_WORDS(name, 10, reduced(AT(1), AT(9), 0, data_type_bytes(INT(10))))
DOT_EX(cublasDotEx)
DOT_EX(cublasDotEx_64)

/* The position of the largest or smallest element, counted from 1; 0 where there is none. */
#define POSITION(name)                                                \
    BY_WORDS(name, 5, reduced(AT(1), AT(5), INT(2) > 0, sizeof(int))) \
    BY_WORDS(name##_64, 5, reduced(AT(1), AT(5), LONG(2) > 0, sizeof(int64_t)))
#define POSITIONS(name) \
    POSITION(cublasIs##name) POSITION(cublasId##name) POSITION(cublasIc##name) POSITION(cublasIz##name)
POSITIONS(amax_v2)
POSITIONS(amin_v2)
