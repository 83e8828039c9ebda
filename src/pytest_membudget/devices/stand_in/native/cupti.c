/* CUPTI, which torch.profiler asks for a record of kernels and copies: there are none here, so that it is not
   supported. Kineto then leaves the device's activities out and says so; the operators and their memory are
   PyTorch's own records. The real library would ask the driver for tables that are not public.

   Prototypes: cupti_result.h, cupti_version.h, cupti_activity.h of CUDA 12.6 to 13.2. */
#include "stand_in.h"

enum { SUCCESS = 0, NOT_SUPPORTED = 27 }; /* CUptiResult */

EXPORTED int cuptiGetVersion(uint32_t *version)
{
    *version = 0;
    return NOT_SUPPORTED;
}

EXPORTED int cuptiGetResultString(int result, const char **text)
{
    *text = result == SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED";
    return SUCCESS;
}

#define PROFILER(X)                                                                                        \
    X(cuptiSubscribe) X(cuptiUnsubscribe) X(cuptiEnableCallback) X(cuptiEnableDomain)                      \
    X(cuptiEnableAllDomains) X(cuptiGetCallbackName) X(cuptiFinalize) X(cuptiActivityEnable)               \
    X(cuptiActivityDisable) X(cuptiActivityEnableContext) X(cuptiActivityDisableContext)                   \
    X(cuptiActivityEnableDriverApi) X(cuptiActivityEnableRuntimeApi)                                       \
    X(cuptiActivityEnableCudaEventDeviceTimestamps) X(cuptiActivityEnableLatencyTimestamps)                \
    X(cuptiActivityEnableHWTrace) X(cuptiActivityFlushAll) X(cuptiActivityGetNextRecord)                   \
    X(cuptiActivityGetNumDroppedRecords) X(cuptiActivityPushExternalCorrelationId)                         \
    X(cuptiActivityPopExternalCorrelationId) X(cuptiActivityRegisterCallbacks)                             \
    X(cuptiActivityRegisterTimestampCallback) X(cuptiActivitySetAttribute) X(cuptiActivityGetAttribute)    \
    X(cuptiGetTimestamp) X(cuptiGetDeviceId) X(cuptiGetContextId) X(cuptiGetStreamIdEx)                    \
    X(cuptiProfilerInitialize) X(cuptiProfilerDeInitialize) X(cuptiProfilerBeginSession)                   \
    X(cuptiProfilerEndSession) X(cuptiProfilerSetConfig) X(cuptiProfilerUnsetConfig)                       \
    X(cuptiProfilerBeginPass) X(cuptiProfilerEndPass) X(cuptiProfilerEnableProfiling)                      \
    X(cuptiProfilerDisableProfiling) X(cuptiProfilerFlushCounterData) X(cuptiProfilerPushRange)            \
    X(cuptiProfilerPopRange) X(cuptiProfilerCounterDataImageCalculateSize)                                 \
    X(cuptiProfilerCounterDataImageInitialize)                                                             \
    X(cuptiProfilerCounterDataImageCalculateScratchBufferSize)                                             \
    X(cuptiProfilerCounterDataImageInitializeScratchBuffer) X(cuptiProfilerGetCounterAvailability)         \
    X(cuptiProfilerHostInitialize) X(cuptiRangeProfilerEnable)
#define NO_PROFILER(name)     \
    EXPORTED int name(void)   \
    {                         \
        return NOT_SUPPORTED; \
    }
PROFILER(NO_PROFILER)
