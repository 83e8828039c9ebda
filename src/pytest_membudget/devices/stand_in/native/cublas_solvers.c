/* cuBLAS's batched factorizations and solvers, and its copies between host and device. They take no buffer
   from PyTorch; what they must leave behind is "no error" and pivots. Prototypes: cublas_api.h of CUDA 12.6
   to 13.2. */
#include "libraries.h"

/* The infos of getrfBatched, getriBatched and matinvBatched lie on the device, one per matrix; those of
   geqrfBatched, getrsBatched and gelsBatched are one integer on the host (cuBLAS documentation). */
#define GETRF(name)                                                                                     \
    EXPORTED int name(void *handle, int n, void *matrices, int lda, int *pivots, int *infos, int count) \
    {                                                                                                   \
        write_no_exchanges(pivots, n, count);                                                           \
        write_no_errors(infos, count);                                                                  \
        return 0;                                                                                       \
    }
FOUR_TYPES(GETRF, cublas, getrfBatched)

#define GETRI(name)                                                                          \
    EXPORTED int name(void *handle, int n, const void *matrices, int lda, const int *pivots, \
                      void *inverses, int ldc, int *infos, int count)                        \
    {                                                                                        \
        write_no_errors(infos, count);                                                       \
        return 0;                                                                            \
    }
FOUR_TYPES(GETRI, cublas, getriBatched)

#define MATINV(name)                                                                               \
    EXPORTED int name(void *handle, int n, const void *matrices, int lda, void *inverses, int ldc, \
                      int *infos, int count)                                                       \
    {                                                                                              \
        write_no_errors(infos, count);                                                             \
        return 0;                                                                                  \
    }
FOUR_TYPES(MATINV, cublas, matinvBatched)

#define GETRS(name)                                                                               \
    EXPORTED int name(void *handle, int trans, int n, int columns, const void *matrices, int lda, \
                      const int *pivots, void *right, int ldb, int *info, int count)              \
    {                                                                                             \
        write_no_errors(info, 1);                                                                 \
        return 0;                                                                                 \
    }
FOUR_TYPES(GETRS, cublas, getrsBatched)

#define GEQRF(name)                                                                               \
    EXPORTED int name(void *handle, int m, int n, void *matrices, int lda, void *taus, int *info, \
                      int count)                                                                  \
    {                                                                                             \
        write_no_errors(info, 1);                                                                 \
        return 0;                                                                                 \
    }
FOUR_TYPES(GEQRF, cublas, geqrfBatched)

#define GELS(name)                                                                                 \
    EXPORTED int name(void *handle, int trans, int m, int n, int columns, void *matrices, int lda, \
                      void *right, int ldc, int *info, int *device_infos, int count)               \
    {                                                                                              \
        write_no_errors(info, 1);                                                                  \
        write_no_errors(device_infos, count);                                                      \
        return 0;                                                                                  \
    }
FOUR_TYPES(GELS, cublas, gelsBatched)

/* Copies, as the runtime's own make them (what is copied and what not is decided there, in one place). */
extern int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height, int kind, void *stream);
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 }; /* cudaMemcpyKind, driver_types.h */

static int copy_columns(const void *from, int64_t from_stride, void *to, int64_t to_stride, int64_t bytes,
                        int64_t columns, int kind, void *stream)
{
    if (bytes <= 0 || columns <= 0)
        return 0;
    return cudaMemcpy2DAsync(to, (size_t)to_stride, from, (size_t)from_stride, (size_t)bytes,
                             (size_t)columns, kind, stream);
}

#define COPY_MATRIX(name, integer, kind, stream_parameter, stream)                                \
    EXPORTED int name(integer rows, integer columns, integer element, const void *from,           \
                      integer lda, void *to, integer ldb stream_parameter)                        \
    {                                                                                             \
        return copy_columns(from, (int64_t)lda * element, to, (int64_t)ldb * element,             \
                            (int64_t)rows * element, columns, kind, stream);                      \
    }
/* A vector with a step is a matrix whose columns have one element. */
#define COPY_VECTOR(name, integer, kind, stream_parameter, stream)                                \
    EXPORTED int name(integer count, integer element, const void *from, integer incx, void *to,   \
                      integer incy stream_parameter)                                              \
    {                                                                                             \
        return copy_columns(from, (int64_t)incx * element, to, (int64_t)incy * element, element,  \
                            count, kind, stream);                                                 \
    }
#define STREAM_PARAMETER , void *stream
#define COPIES(integer, suffix)                                                                   \
    COPY_MATRIX(cublasSetMatrix##suffix, integer, HOST_TO_DEVICE, , NULL)                         \
    COPY_MATRIX(cublasGetMatrix##suffix, integer, DEVICE_TO_HOST, , NULL)                         \
    COPY_MATRIX(cublasSetMatrixAsync##suffix, integer, HOST_TO_DEVICE, STREAM_PARAMETER, stream)  \
    COPY_MATRIX(cublasGetMatrixAsync##suffix, integer, DEVICE_TO_HOST, STREAM_PARAMETER, stream)  \
    COPY_VECTOR(cublasSetVector##suffix, integer, HOST_TO_DEVICE, , NULL)                         \
    COPY_VECTOR(cublasGetVector##suffix, integer, DEVICE_TO_HOST, , NULL)                         \
    COPY_VECTOR(cublasSetVectorAsync##suffix, integer, HOST_TO_DEVICE, STREAM_PARAMETER, stream)  \
    COPY_VECTOR(cublasGetVectorAsync##suffix, integer, DEVICE_TO_HOST, STREAM_PARAMETER, stream)
COPIES(int, )
COPIES(int64_t, _64)
