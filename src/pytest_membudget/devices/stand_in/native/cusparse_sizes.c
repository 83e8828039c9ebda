/* cuSPARSE: descriptors, the numbers of elements of sparse results, and the sizes of buffers.

   PyTorch allocates each buffer with its caching allocator (aten/src/ATen/native/sparse/cuda, torch 2.11
   to 2.15: SparseBlasImpl.cpp, SparseCUDABlas.cpp, SparseMatMul.cu). The vendor publishes no rule for the
   sizes, so each that is asked for is recorded by name as not modelled. How many elements a sparse sum or
   product has depends on where the elements are, which is not known here: the largest possible number is
   used, recorded likewise. */
#include <stdlib.h>

#include "errors.h"
#include "libraries.h"

/* A sparse or dense matrix, or a vector. */
struct sparse_matrix {
    int64_t rows, columns, specified; /* elements, of each matrix of a batch */
    size_t index_bytes, value_bytes;
};

/* What a buffer takes at least: PyTorch's allocator hands out blocks of 512 bytes (kMinBlockSize). */
enum { LEAST_BYTES = 512 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int answer(const char *name, size_t *size, size_t bytes) {
    not_modelled(name);
    *size = bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
    return 0;
}

static int created(void **descriptor, struct sparse_matrix matrix) {
    struct sparse_matrix *kept = malloc(sizeof *kept);
    *descriptor = kept;
    if (!kept)
        return CUSPARSE_ALLOC_FAILED;
    *kept = matrix;
    return 0;
}

/* cusparseIndexType_t: 1 is 16 bits, 2 is 32, 3 is 64. */
static size_t index_bytes(int type) { return type == 3 ? 8 : type == 2 ? 4 : 2; }

/* Descriptors by the places of their arguments; the first is where they go to. */
#define DESCRIBES(name, count, rows, columns, specified, index_bytes, type) \
    BY_WORDS(name, count,                                                   \
             created(AT(1),                                                 \
                     (struct sparse_matrix){rows, columns, specified, index_bytes, data_type_bytes(type)}))
DESCRIBES(cusparseCreateCsr, 11, LONG(2), LONG(3), LONG(4), index_bytes(INT(9)), INT(11))
DESCRIBES(cusparseCreateCoo, 10, LONG(2), LONG(3), LONG(4), index_bytes(INT(8)), INT(10))
DESCRIBES(cusparseCreateDnMat, 6, LONG(2), LONG(3), LONG(2) * LONG(3), 0, INT(6))
DESCRIBES(cusparseCreateDnVec, 4, LONG(2), 1, LONG(2), 0, INT(4))

#define DESTROYS(name)                    \
    EXPORTED int name(void *descriptor) { \
        free(descriptor);                 \
        return 0;                         \
    }
DESTROYS(cusparseDestroySpMat)
DESTROYS(cusparseDestroyDnMat)
DESTROYS(cusparseDestroyDnVec)

SUCCEEDS(cusparseCsrSetPointers)
SUCCEEDS(cusparseCsrSetStridedBatch)

EXPORTED int cusparseSpMatGetSize(const struct sparse_matrix *matrix, int64_t *rows, int64_t *columns,
                                  int64_t *specified) {
    *rows = matrix->rows, *columns = matrix->columns, *specified = matrix->specified;
    return 0;
}

typedef const struct sparse_matrix *matrix_t;

/* The place of the result among the arguments, and its bytes. */
#define SIZE(name, place, bytes) BY_WORDS(name, place, answer(#name, AT(place), bytes))
SIZE(cusparseSpMM_bufferSize, 11, 0)
SIZE(cusparseSpMV_bufferSize, 10, 0)
SIZE(cusparseSDDMM_bufferSize, 11, 0)
SIZE(cusparseSpSM_bufferSize, 11, 0)
SIZE(cusparseSpSV_bufferSize, 10, 0)
FOUR_TYPES(SIZE, cusparse, csrgeam2_bufferSizeExt, 20, 0)

/* Sorting pairs of 32-bit numbers out of place takes a second copy of them. */
SIZE(cusparseXcoosort_bufferSizeExt, 7, (size_t)INT(4) * 8)
SIZE(cusparseXcsrsort_bufferSizeExt, 7, (size_t)INT(4) * 8)

/* The old interface's size is an int. */
static int answer_int(const char *name, int *size) {
    not_modelled(name);
    *size = LEAST_BYTES;
    return 0;
}
#define INT_SIZE(name, place) BY_WORDS(name, place, answer_int(#name, AT(place)))
FOUR_TYPES(INT_SIZE, cusparse, bsrsm2_bufferSize, 14)
FOUR_TYPES(INT_SIZE, cusparse, bsrsv2_bufferSize, 12)

/* A product of sparse matrices is asked for twice at each step: for its buffer, then to use it. Each
   element of A meets at most the elements of one row of B. */
static int64_t most_of_product(matrix_t a, matrix_t b) {
    int64_t row = least(b->specified, b->columns);
    if (row == 0 || a->specified == 0)
        return 0;
    int64_t dense = a->rows * b->columns;
    return a->specified > dense / row ? dense : a->specified * row;
}

/* (handle, op_a, op_b, alpha, a, b, beta, c, compute, algorithm, descriptor, size, buffer) */
BY_WORDS(cusparseSpGEMM_workEstimation, 13, AT(13) ? 0 : answer("cusparseSpGEMM_workEstimation", AT(12), 0))

/* At least the product itself is held until cusparseSpGEMM_copy hands it over (cuSPARSE documentation,
   SpGEMM). */
static int compute_product(matrix_t a, matrix_t b, struct sparse_matrix *c, size_t *size,
                           const void *buffer) {
    c->specified = most_of_product(a, b);
    if (buffer)
        return 0;
    return answer("cusparseSpGEMM_compute", size, (size_t)c->specified * (a->index_bytes + a->value_bytes));
}
BY_WORDS(cusparseSpGEMM_compute, 13, compute_product(AT(5), AT(6), AT(8), AT(12), AT(13)))

/* The sum of two: at most the elements of both. */
static int add_specified(int64_t rows, int64_t columns, int64_t specified_a, int64_t specified_b,
                         int *specified) {
    not_modelled("cusparseXcsrgeam2Nnz");
    *specified = (int)least(rows * columns, specified_a + specified_b);
    return 0;
}
BY_WORDS(cusparseXcsrgeam2Nnz, 14, add_specified(INT(2), INT(3), INT(5), INT(9), AT(14)))
