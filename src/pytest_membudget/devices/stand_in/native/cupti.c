/* CUPTI, which torch.profiler asks for a record of kernels and copies: none runs here, so that it is given
   none. The operators and their memory are PyTorch's own records.

   Prototypes and constants: cupti_result.h, cupti_version.h, cupti_activity.h and cupti_callbacks.h of CUDA
   12.6 to 13.2. What is not here refuses (refuse.c). */
#include "errors.h"
#include "tables.h"

EXPORTED int cuptiGetVersion(uint32_t *version) {
    *version = 130001; /* CUPTI_API_VERSION of CUDA 13.0: Kineto prints it */
    return SUCCESS;
}

EXPORTED int cuptiGetResultString(int result, const char **text) {
    *text = result == SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR";
    return SUCCESS;
}

EXPORTED int cuptiGetCallbackName(int domain, uint32_t callback, const char **name) {
    *name = "";
    return SUCCESS;
}

CREATES(cuptiSubscribe, 1)

EXPORTED int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    *dropped = 0;
    return SUCCESS;
}

EXPORTED int cuptiActivityGetNextRecord(void *buffer, size_t bytes, void **record) {
    return CUPTI_NO_MORE_RECORDS;
}

EXPORTED int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last) {
    if (last)
        *last = 0;
    return SUCCESS;
}

/* The last two are the runtime's switch. */
EACH(SUCCEEDS, cuptiActivityDisable, cuptiActivityEnable, cuptiActivityEnableCudaEventDeviceTimestamps,
     cuptiActivityEnableDriverApi, cuptiActivityEnableRuntimeApi, cuptiActivityFlushAll,
     cuptiActivityPushExternalCorrelationId, cuptiActivityRegisterCallbacks,
     cuptiActivityRegisterTimestampCallback, cuptiActivitySetAttribute, cuptiEnableCallback,
     cuptiEnableDomain, cuptiFinalize, cuptiUnsubscribe, cudaProfilerStart, cudaProfilerStop)
