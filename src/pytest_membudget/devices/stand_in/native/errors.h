/* Error codes. Those without a library's name are of the CUDA runtime and driver, which have been the same
   numbers since CUDA 10.1 (CUDA Runtime API 13.2, "Data types used by CUDA Runtime", cudaError; CUDA Driver
   API 13.2, CUresult). Success is 0 in all libraries. */
#ifndef MEMBUDGET_STAND_IN_ERRORS_H
#define MEMBUDGET_STAND_IN_ERRORS_H

enum error {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INITIALIZATION_ERROR = 3,
    INVALID_SYMBOL = 13,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    OPERATING_SYSTEM = 304,
    INVALID_HANDLE = 400,
    SYMBOL_NOT_FOUND = 500,
    NOT_READY = 600,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

/* cublasStatus_t, cufftResult, cusparseStatus_t (cuSPARSELt's too), CUptiResult, nvrtcResult: CUDA 12.6 to
   13.2. What says that something is not supported is in refuse.c, and nowhere else. */
enum {
    CUBLAS_ALLOC_FAILED = 3,
    CUBLAS_INVALID_VALUE = 7,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUSPARSE_ALLOC_FAILED = 2,
    CUPTI_NO_MORE_RECORDS = 12,
    NVRTC_OUT_OF_MEMORY = 1,
    NVRTC_INVALID_INPUT = 3,
    NVRTC_NAME_NOT_VALID = 10,
};

/* cudnnStatus_t: cudnn_graph.h of cuDNN 9.26. */
enum {
    CUDNN_NOT_INITIALIZED = 1001,
    CUDNN_BAD_PARAM = 2000,
    CUDNN_HOST_ALLOCATION_FAILED = 4003,
    CUDNN_EXECUTION_FAILED_CUDART = 5003,
};

/* nvmlReturn_t: NVML API Reference Guide, release 580. */
enum {
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_ON_THIS_CARD = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
};

/* ncclResult_t: nccl.h of NVIDIA/nccl 2.30.7. */
enum {
    NCCL_UNHANDLED_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INVALID_ARGUMENT = 4,
};

/* The runtime keeps the last error of each thread until cudaGetLastError() takes it: every function of the
   runtime returns through this. */
int runtime_result(int error);

/* A function that is the driver's but for that. */
#define RUNTIME(name, driver, parameters, ...) \
    EXPORTED int name parameters { return runtime_result(driver(__VA_ARGS__)); }

/* The vendor's name and text of an error: "cudaErrorMemoryAllocation", "out of memory". */
const char *error_name(int error);
const char *error_text(int error);

#endif
