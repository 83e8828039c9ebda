/* CUPTI, which torch.profiler asks for a record of kernels and copies: there are none here, so that it is not
   supported, as all other functions of CUPTI's say too (refuse.c). Kineto then leaves the device's activities
   out and says so; the operators and their memory are PyTorch's own records.

   Prototypes: cupti_result.h, cupti_version.h, cupti_activity.h of CUDA 12.6 to 13.2. */
#include "errors.h"
#include "tables.h"

EXPORTED int cuptiGetVersion(uint32_t *version) {
    *version = 0;
    return CUPTI_NOT_SUPPORTED;
}

EXPORTED int cuptiGetResultString(int result, const char **text) {
    *text = result == SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED";
    return SUCCESS;
}

/* The runtime's switch of it. */
SUCCEEDS(cudaProfilerStart)
SUCCEEDS(cudaProfilerStop)
