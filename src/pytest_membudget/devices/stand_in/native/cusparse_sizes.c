/* cuSPARSE: descriptors, the numbers of elements of sparse results, and the sizes of buffers.

   PyTorch allocates each buffer with its caching allocator (aten/src/ATen/native/sparse/cuda, torch 2.11
   to 2.15: SparseBlasImpl.cpp, SparseCUDABlas.cpp, SparseMatMul.cu). The vendor publishes no rule for the
   sizes, so each that is asked for is recorded by name as not modelled. How many elements a sparse sum or
   product has depends on where the elements are, which is not known here: the largest possible number is
   used, recorded likewise. */
#include <stdlib.h>

#include "cusparse_descriptors.h"

enum { ALLOC_FAILED = 2 }; /* cusparseStatus_t */

/* What a buffer takes at least: PyTorch's allocator hands out blocks of 512 bytes (kMinBlockSize). */
enum { LEAST_BYTES = 512 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int answer(const char *name, size_t *size, size_t bytes)
{
    not_modelled(name);
    *size = bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
    return 0;
}

static int created(void **descriptor, struct sparse_matrix matrix)
{
    struct sparse_matrix *kept = malloc(sizeof *kept);
    *descriptor = kept;
    if (!kept)
        return ALLOC_FAILED;
    *kept = matrix;
    return 0;
}

/* cusparseIndexType_t: 1 is 16 bits, 2 is 32, 3 is 64. */
static size_t index_bytes(int type)
{
    return type == 3 ? 8 : type == 2 ? 4 : 2;
}

EXPORTED int cusparseCreateCsr(void **descriptor, int64_t rows, int64_t columns, int64_t specified,
                               void *offsets, void *column_indices, void *values, int offsets_type,
                               int columns_type, int base, int type)
{
    return created(descriptor, (struct sparse_matrix){rows, columns, specified, index_bytes(columns_type),
                                                      data_type_bytes(type)});
}

EXPORTED int cusparseCreateCoo(void **descriptor, int64_t rows, int64_t columns, int64_t specified,
                               void *row_indices, void *column_indices, void *values, int index_type,
                               int base, int type)
{
    return created(descriptor, (struct sparse_matrix){rows, columns, specified, index_bytes(index_type),
                                                      data_type_bytes(type)});
}

EXPORTED int cusparseCreateDnMat(void **descriptor, int64_t rows, int64_t columns, int64_t ld, void *values,
                                 int type, int order)
{
    return created(descriptor,
                   (struct sparse_matrix){rows, columns, rows * columns, 0, data_type_bytes(type)});
}

EXPORTED int cusparseCreateDnVec(void **descriptor, int64_t count, void *values, int type)
{
    return created(descriptor, (struct sparse_matrix){count, 1, count, 0, data_type_bytes(type)});
}

#define DESTROYS(name)                  \
    EXPORTED int name(void *descriptor) \
    {                                   \
        free(descriptor);               \
        return 0;                       \
    }
DESTROYS(cusparseDestroySpMat)
DESTROYS(cusparseDestroyDnMat)
DESTROYS(cusparseDestroyDnVec)

EXPORTED int cusparseCsrSetPointers(struct sparse_matrix *matrix, void *offsets, void *columns, void *values)
{
    return 0;
}

EXPORTED int cusparseCsrSetStridedBatch(struct sparse_matrix *matrix, int count, int64_t offsets_stride,
                                        int64_t values_stride)
{
    return 0;
}

EXPORTED int cusparseSpMatGetSize(const struct sparse_matrix *matrix, int64_t *rows, int64_t *columns,
                                  int64_t *specified)
{
    *rows = matrix->rows, *columns = matrix->columns, *specified = matrix->specified;
    return 0;
}

typedef const struct sparse_matrix *matrix_t;

EXPORTED int cusparseSpMM_bufferSize(void *h, int op_a, int op_b, const void *alpha, matrix_t a, matrix_t b,
                                     const void *beta, matrix_t c, int compute, int algorithm, size_t *size)
{
    return answer("cusparseSpMM_bufferSize", size, 0);
}

EXPORTED int cusparseSpMV_bufferSize(void *h, int op_a, const void *alpha, matrix_t a, matrix_t x,
                                     const void *beta, matrix_t y, int compute, int algorithm, size_t *size)
{
    return answer("cusparseSpMV_bufferSize", size, 0);
}

EXPORTED int cusparseSDDMM_bufferSize(void *h, int op_a, int op_b, const void *alpha, matrix_t a,
                                      matrix_t b, const void *beta, matrix_t c, int compute, int algorithm,
                                      size_t *size)
{
    return answer("cusparseSDDMM_bufferSize", size, 0);
}

EXPORTED int cusparseSpSM_bufferSize(void *h, int op_a, int op_b, const void *alpha, matrix_t a, matrix_t b,
                                     matrix_t c, int compute, int algorithm, void *descriptor, size_t *size)
{
    return answer("cusparseSpSM_bufferSize", size, 0);
}

EXPORTED int cusparseSpSV_bufferSize(void *h, int op_a, const void *alpha, matrix_t a, matrix_t x,
                                     matrix_t y, int compute, int algorithm, void *descriptor, size_t *size)
{
    return answer("cusparseSpSV_bufferSize", size, 0);
}

/* A product of sparse matrices is asked for twice at each step: for its buffer, then to use it. Each
   element of A meets at most the elements of one row of B. */
static int64_t most_of_product(matrix_t a, matrix_t b)
{
    int64_t row = least(b->specified, b->columns);
    if (row == 0 || a->specified == 0)
        return 0;
    int64_t dense = a->rows * b->columns;
    return a->specified > dense / row ? dense : a->specified * row;
}

EXPORTED int cusparseSpGEMM_workEstimation(void *h, int op_a, int op_b, const void *alpha, matrix_t a,
                                           matrix_t b, const void *beta, struct sparse_matrix *c,
                                           int compute, int algorithm, void *descriptor, size_t *size,
                                           void *buffer)
{
    return buffer ? 0 : answer("cusparseSpGEMM_workEstimation", size, 0);
}

/* At least the product itself is held until cusparseSpGEMM_copy hands it over (cuSPARSE documentation,
 * SpGEMM). */
EXPORTED int cusparseSpGEMM_compute(void *h, int op_a, int op_b, const void *alpha, matrix_t a, matrix_t b,
                                    const void *beta, struct sparse_matrix *c, int compute, int algorithm,
                                    void *descriptor, size_t *size, void *buffer)
{
    c->specified = most_of_product(a, b);
    if (buffer)
        return 0;
    return answer("cusparseSpGEMM_compute", size, (size_t)c->specified * (a->index_bytes + a->value_bytes));
}

/* The sum of two: at most the elements of both. */
EXPORTED int cusparseXcsrgeam2Nnz(void *h, int rows, int columns, void *type_a, int specified_a,
                                  const int *rows_a, const int *columns_a, void *type_b, int specified_b,
                                  const int *rows_b, const int *columns_b, void *type_c, int *rows_c,
                                  int *specified, void *buffer)
{
    not_modelled("cusparseXcsrgeam2Nnz");
    *specified = (int)least((int64_t)rows * columns, (int64_t)specified_a + specified_b);
    return 0;
}

#define GEAM_SIZE(name)                                                                                 \
    EXPORTED int name(void *h, int rows, int columns, const void *alpha, void *type_a, int specified_a, \
                      const void *values_a, const int *rows_a, const int *columns_a, const void *beta,  \
                      void *type_b, int specified_b, const void *values_b, const int *rows_b,           \
                      const int *columns_b, void *type_c, const void *values_c, const int *rows_c,      \
                      const int *columns_c, size_t *size)                                               \
    {                                                                                                   \
        return answer(#name, size, 0);                                                                  \
    }
FOUR_TYPES(GEAM_SIZE, cusparse, csrgeam2_bufferSizeExt)

/* Sorting pairs of 32-bit numbers out of place takes a second copy of them. */
EXPORTED int cusparseXcoosort_bufferSizeExt(void *h, int rows, int columns, int specified,
                                            const int *row_indices, const int *column_indices, size_t *size)
{
    return answer("cusparseXcoosort_bufferSizeExt", size, (size_t)specified * 8);
}

EXPORTED int cusparseXcsrsort_bufferSizeExt(void *h, int rows, int columns, int specified,
                                            const int *offsets, const int *column_indices, size_t *size)
{
    return answer("cusparseXcsrsort_bufferSizeExt", size, (size_t)specified * 8);
}

/* The old interface's size is an int, at another position of the arguments. */
static int answer_int(const char *name, int *size)
{
    not_modelled(name);
    *size = LEAST_BYTES;
    return 0;
}

#define BSRSM_SIZE(name)                                                                                   \
    EXPORTED int name(void *h, int direction, int op_a, int op_x, int block_rows, int columns, int blocks, \
                      void *type, void *values, const int *offsets, const int *indices, int block,         \
                      void *info, int *size)                                                               \
    {                                                                                                      \
        return answer_int(#name, size);                                                                    \
    }
FOUR_TYPES(BSRSM_SIZE, cusparse, bsrsm2_bufferSize)

#define BSRSV_SIZE(name)                                                                           \
    EXPORTED int name(void *h, int direction, int op_a, int block_rows, int blocks, void *type,    \
                      void *values, const int *offsets, const int *indices, int block, void *info, \
                      int *size)                                                                   \
    {                                                                                              \
        return answer_int(#name, size);                                                            \
    }
FOUR_TYPES(BSRSV_SIZE, cusparse, bsrsv2_bufferSize)
