/* cuSPARSELt: products with a matrix of which two in four elements are zero (torch._cslt_compress and
   others, aten/src/ATen/native/sparse/cuda/cuSPARSELtOps.cpp). Descriptors, plans and handles are the
   caller's own memory of 512 bytes at least (cusparseLt.h 0.7 to 0.8: arrays of bytes, aligned to 16).
   Sizes are not published. */
#include "libraries.h"

/* What is kept in a descriptor's memory. */
struct matrix {
    int64_t rows, columns;
    int type;
};

EXPORTED int cusparseLtStructuredDescriptorInit(void *handle, struct matrix *matrix, int64_t rows,
                                                int64_t columns, int64_t ld, uint32_t alignment, int type,
                                                int order, int sparsity) {
    *matrix = (struct matrix){rows, columns, type};
    return 0;
}

/* Half of the elements, and two bits for each of them that say where it was. That is PyTorch's own figure
   for its compressed tensor, too: 9/16 of the dense one in 16-bit numbers and 10/16 in 8-bit ones
   (cuSPARSELtOps.cpp, compression_factor). The buffer of the compression is not known. */
EXPORTED int cusparseLtSpMMACompressedSize2(void *handle, const struct matrix *matrix, size_t *compressed,
                                            size_t *buffer) {
    size_t elements = (size_t)(matrix->rows * matrix->columns);
    not_modelled("cusparseLtSpMMACompressedSize2");
    *compressed = elements / 2 * data_type_bytes(matrix->type) + elements / 8;
    *buffer = 512; /* the smallest block of PyTorch's allocator */
    return 0;
}

EXPORTED int cusparseLtMatmulGetWorkspace(void *handle, void *plan, size_t *size) {
    not_modelled("cusparseLtMatmulGetWorkspace");
    *size = 512;
    return 0;
}

/* The search's answers: algorithm 0 of 1, no split. */
EXPORTED int cusparseLtMatmulAlgGetAttribute(void *handle, void *selection, int attribute, void *value,
                                             size_t bytes) {
    enum { MAX_ID = 1 }; /* CUSPARSELT_MATMUL_ALG_CONFIG_MAX_ID */
    if (bytes == sizeof(int))
        *(int *)value = attribute == MAX_ID;
    return 0;
}

EACH(SUCCEEDS, cusparseLtInit, cusparseLtDestroy, cusparseLtDenseDescriptorInit,
     cusparseLtMatDescriptorDestroy, cusparseLtMatDescSetAttribute, cusparseLtMatmulDescriptorInit,
     cusparseLtMatmulDescSetAttribute, cusparseLtMatmulAlgSelectionInit, cusparseLtMatmulAlgSelectionDestroy,
     cusparseLtMatmulAlgSetAttribute, cusparseLtMatmulPlanInit, cusparseLtMatmulPlanDestroy, cusparseLtMatmul,
     cusparseLtMatmulSearch, cusparseLtSpMMACompress2)
