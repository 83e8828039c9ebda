/* Error codes of the CUDA runtime and driver, which have been the same numbers since CUDA 10.1.

   Source: CUDA Runtime API 13.2, "Data types used by CUDA Runtime", cudaError; CUDA Driver API 13.2, CUresult. */
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
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

/* The runtime keeps the last error of each thread until cudaGetLastError() takes it: every function of the
   runtime returns through this. */
int runtime_result(int error);

/* The vendor's name and text of an error: "cudaErrorMemoryAllocation", "out of memory". */
const char *error_name(int error);
const char *error_text(int error);

#endif
