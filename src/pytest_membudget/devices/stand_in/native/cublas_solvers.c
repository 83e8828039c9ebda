/* cuBLAS's batched factorizations and solvers, and its copies between host and device. They take no buffer
   from PyTorch; what they must leave behind is "no error" and pivots. Prototypes: cublas_api.h of CUDA 12.6
   to 13.2. */
#include "libraries.h"

/* (handle, n, matrices, lda, pivots, infos, count) */
#define GETRF(name) \
    BY_WORDS(name, 7, (write_no_exchanges(AT(5), INT(2), INT(7)), write_no_errors(AT(6), INT(7))))
FOUR_TYPES(GETRF, cublas, getrfBatched)

/* The infos of these lie on the device, one per matrix; those of the others are one integer on the host
   (cuBLAS documentation). */
FOUR_TYPES(INFO, cublas, getriBatched, 8, 9)
FOUR_TYPES(INFO, cublas, matinvBatched, 7, 8)
FOUR_TYPES(INFO, cublas, getrsBatched, 10, 0)
FOUR_TYPES(INFO, cublas, geqrfBatched, 7, 0)

/* Both: one on the host, and one per matrix on the device. */
#define GELS(name) BY_WORDS(name, 12, (write_no_errors(AT(10), 1), write_no_errors(AT(11), INT(12))))
FOUR_TYPES(GELS, cublas, gelsBatched)

/* Copies, as the runtime's own make them (what is copied and what not is decided there, in one place). */
extern int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height, int kind, void *stream);
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 }; /* cudaMemcpyKind, driver_types.h */

static int copy_columns(const void *from, int64_t from_stride, void *to, int64_t to_stride, int64_t bytes,
                        int64_t columns, int kind, void *stream) {
    if (bytes <= 0 || columns <= 0)
        return 0;
    return cudaMemcpy2DAsync(to, (size_t)to_stride, from, (size_t)from_stride, (size_t)bytes, (size_t)columns,
                             kind, stream);
}

/* (rows, columns, bytes of an element, from, lda, to, ldb) of integers that N reads; a stream may follow. */
#define COPY_MATRIX(name, N, kind, count, stream)                                                         \
    BY_WORDS(name, count,                                                                                 \
             copy_columns(AT(4), (int64_t)N(5) * N(3), AT(6), (int64_t)N(7) * N(3), (int64_t)N(1) * N(3), \
                          N(2), kind, stream))
/* (count, bytes of an element, from, incx, to, incy): a matrix whose columns have one element. */
#define COPY_VECTOR(name, N, kind, count, stream) \
    BY_WORDS(                                     \
        name, count,                              \
        copy_columns(AT(3), (int64_t)N(4) * N(2), AT(5), (int64_t)N(6) * N(2), N(2), N(1), kind, stream))
#define COPIES(way, suffix, N, kind)                                 \
    COPY_MATRIX(cublas##way##Matrix##suffix, N, kind, 7, NULL)       \
    COPY_MATRIX(cublas##way##MatrixAsync##suffix, N, kind, 8, AT(8)) \
    COPY_VECTOR(cublas##way##Vector##suffix, N, kind, 6, NULL)       \
    COPY_VECTOR(cublas##way##VectorAsync##suffix, N, kind, 7, AT(7))
COPIES(Set, , INT, HOST_TO_DEVICE)
COPIES(Set, _64, LONG, HOST_TO_DEVICE)
COPIES(Get, , INT, DEVICE_TO_HOST)
COPIES(Get, _64, LONG, DEVICE_TO_HOST)
