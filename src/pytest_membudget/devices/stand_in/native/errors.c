/* Errors: the last one of each thread, and their names and texts.

   Source of numbers, names and texts: CUDA Runtime API 13.2, cudaError and cudaGetErrorString. */
#include "errors.h"

#include "tables.h"

static __thread int last_error;

static const struct {
    int error;
    const char *runtime_name, *driver_name, *text;
} errors[] = {
    {SUCCESS, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {INITIALIZATION_ERROR, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED",
     "initialization error"},
    {INVALID_SYMBOL, "cudaErrorInvalidSymbol", 0, "invalid device symbol"},
    {NO_DEVICE, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {OPERATING_SYSTEM, "cudaErrorOperatingSystem", "CUDA_ERROR_OPERATING_SYSTEM",
     "OS call failed or operation not supported on this OS"},
    {INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {SYMBOL_NOT_FOUND, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {PEER_ACCESS_ALREADY_ENABLED, "cudaErrorPeerAccessAlreadyEnabled",
     "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {PEER_ACCESS_NOT_ENABLED, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
     "peer access has not been enabled"},
    {HOST_MEMORY_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered",
     "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {HOST_MEMORY_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CAPTURE_MERGE, "cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CAPTURED_EVENT, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

static int row_of(int error) {
    for (unsigned row = 0; row < sizeof errors / sizeof *errors; row++)
        if (errors[row].error == error)
            return (int)row;
    return -1;
}

int runtime_result(int error) {
    if (error != SUCCESS)
        last_error = error;
    return error;
}

const char *error_name(int error) {
    int row = row_of(error);
    return row < 0 ? "unrecognized error code" : errors[row].runtime_name;
}

const char *error_text(int error) {
    int row = row_of(error);
    return row < 0 ? "unrecognized error code" : errors[row].text;
}

EXPORTED int cudaGetLastError(void) {
    int error = last_error;
    last_error = SUCCESS;
    return error;
}

EXPORTED int cudaPeekAtLastError(void) { return last_error; }

EXPORTED const char *cudaGetErrorName(int error) { return error_name(error); }

EXPORTED const char *cudaGetErrorString(int error) { return error_text(error); }

/* The driver logs nothing. */
CREATES(cuLogsRegisterCallback, 3)
SUCCEEDS(cuLogsUnregisterCallback)

EXPORTED int cuGetErrorName(int error, const char **name) {
    int row = row_of(error);
    *name = row < 0 ? 0 : errors[row].driver_name;
    return *name ? SUCCESS : INVALID_VALUE;
}

EXPORTED int cuGetErrorString(int error, const char **text) {
    int row = row_of(error);
    *text = row < 0 ? 0 : errors[row].text;
    return *text ? SUCCESS : INVALID_VALUE;
}
