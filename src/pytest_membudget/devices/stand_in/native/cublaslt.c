/* cuBLASLt: matrix products with descriptors and a choice of algorithms.

   Memory: PyTorch passes a workspace that it allocated before it asks which algorithms there are
   (aten/src/ATen/cuda/CUDABlas.cpp, gemm_and_bias and others: _getWorkspaceSize, CublasLtWorkspace), and it
   allocates all of it whatever the chosen algorithm needs. So the answer's own workspace, 0 here, is in no
   figure but cuDNN's (cudnn_workspaces.c); an algorithm that needs less than there is exists for every
   product that cuBLASLt supports.

   Prototypes and layouts: cublasLt.h of CUDA 12.6 to 13.2, and the cuBLAS documentation. */
#include <string.h>

#include "errors.h"
#include "libraries.h"
#include "versions.h"

/* cublasLtMatmulHeuristicResult_t: the algorithm (8 words of 64 bits), the bytes of workspace, a status,
   the waves, 4 reserved integers: 96 bytes. A number above zero of waves is what a product that runs has.
 */
struct heuristic_result {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};
_Static_assert(sizeof(struct heuristic_result) == 96, "cublasLtMatmulHeuristicResult_t has 96 bytes");

/* libraryPropertyType: 0 major, 1 minor, 2 patch, of major * 10000 + minor * 100 + patch. */
EXPORTED int cublasLtGetProperty(int property, int *value) {
    int version = (int)cublasLtGetVersion();
    *value = property == 0 ? version / 10000 : property == 1 ? version / 100 % 100 : version % 100;
    return SUCCESS;
}
ALIAS(cublasGetProperty, cublasLtGetProperty) /* both libraries are of one release and have one number */

/* Descriptors are only handed back to functions that compute: nothing is kept of them. */
CREATES(cublasLtCreate, 1)
CREATES(cublasLtMatmulDescCreate, 1)
CREATES(cublasLtMatrixLayoutCreate, 1)
CREATES(cublasLtMatrixTransformDescCreate, 1)
CREATES(cublasLtMatmulPreferenceCreate, 1)

EACH(SUCCEEDS, cublasLtDestroy, cublasLtMatmul, cublasLtMatrixTransform, cublasLtMatmulDescInit_internal,
     cublasLtMatmulDescDestroy, cublasLtMatmulDescSetAttribute, cublasLtMatrixLayoutInit_internal,
     cublasLtGroupedMatrixLayoutInit_internal, cublasLtMatrixLayoutDestroy, cublasLtMatrixLayoutSetAttribute,
     cublasLtMatrixTransformDescInit_internal, cublasLtMatrixTransformDescDestroy,
     cublasLtMatrixTransformDescSetAttribute, cublasLtMatmulPreferenceInit_internal,
     cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceSetAttribute,
     cublasLtMatmulAlgoConfigSetAttribute, cublasLtHeuristicsCacheSetCapacity, cublasLtLoggerSetLevel,
     cublasLtLoggerSetMask, cublasLtLoggerForceDisable)

EXPORTED int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                            void *preference, int asked, struct heuristic_result *results,
                                            int *given) {
    if (asked < 1)
        return CUBLAS_INVALID_VALUE;
    memset(results, 0, sizeof *results);
    results->waves = 1;
    *given = 1;
    return SUCCESS;
}

EXPORTED int cublasLtMatmulAlgoCheck(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                     const void *algorithm, struct heuristic_result *result) {
    memset(result, 0, sizeof *result);
    memcpy(result->algorithm, algorithm, sizeof result->algorithm);
    result->waves = 1;
    return SUCCESS;
}

/* One algorithm, number 0. */
EXPORTED int cublasLtMatmulAlgoGetIds(void *handle, int compute, int scale, int a, int b, int c, int d,
                                      int asked, int *ids, int *given) {
    if (asked < 1)
        return CUBLAS_INVALID_VALUE;
    ids[0] = 0;
    *given = 1;
    return SUCCESS;
}

EXPORTED int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                                    uint64_t *algorithm) {
    memset(algorithm, 0, sizeof(uint64_t[8]));
    return SUCCESS;
}

EXPORTED int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value,
                                                  size_t bytes, size_t *written) {
    if (value)
        memset(value, 0, bytes);
    if (written)
        *written = bytes;
    return SUCCESS;
}

EXPORTED const char *cublasLtGetStatusName(int status) {
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

EXPORTED const char *cublasLtGetStatusString(int status) {
    return status == SUCCESS ? "success" : "not modelled by pytest-membudget's stand-in for cuBLASLt";
}
