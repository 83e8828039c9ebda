/* Versions: of CUDA, for which this process's PyTorch was built, which also says how structures are laid out;
   and of libraries that are not loaded. Python says them (devices/stand_in/environment.py), from what is
   installed or from what PyTorch's own metadata asks for: nothing here looks at a loaded library, which may
   be a stand-in. */
#include "versions.h"

#include <stdlib.h>

#include "errors.h"
#include "tables.h"

static int number_in(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

int cuda_version(void) {
    static int version;
    int known = __atomic_load_n(&version, __ATOMIC_RELAXED);
    if (!known) {
        int number = number_in("MEMBUDGET_STAND_IN_CUDA");
        known = number >= 12000 ? number : 13000;
        __atomic_store_n(&version, known, __ATOMIC_RELAXED);
    }
    return known;
}

EXPORTED int cudaRuntimeGetVersion(int *version) {
    *version = cuda_version();
    return SUCCESS;
}

/* The newest that PyTorch may ask for: a driver answers all older runtimes. */
ALIAS(cudaDriverGetVersion, cudaRuntimeGetVersion)
ALIAS(cuDriverGetVersion, cudaRuntimeGetVersion)

/* PyTorch asks which products cuBLASLt has (aten/src/ATen/native/cuda/ScaledBlas.cpp, CUDABlas.cpp). */
EXPORTED size_t cublasLtGetVersion(void) {
    int version = number_in("MEMBUDGET_STAND_IN_CUBLAS");
    if (!version)
        not_modelled("cublasLtGetVersion");
    return (size_t)version;
}

/* NCCL's number is major * 10000 + minor * 100 + patch since 2.9 (nccl.h). */
EXPORTED int ncclGetVersion(int *version) {
    *version = number_in("MEMBUDGET_STAND_IN_NCCL");
    return *version ? SUCCESS : NCCL_SYSTEM_ERROR;
}

size_t cudnn_version_of_torch(void) {
    int version = number_in("MEMBUDGET_STAND_IN_CUDNN");
    if (!version)
        not_modelled("cudnnGetVersion"); /* PyTorch would compute attention without it */
    return (size_t)version;
}
