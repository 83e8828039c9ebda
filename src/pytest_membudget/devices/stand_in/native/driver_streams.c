/* The driver's streams, events and graphs: the runtime's own.

   Source of prototypes: CUDA Driver API 13.2, "Stream Management", "Event Management", "Graph Management". */
#include "contexts.h"
#include "errors.h"
#include "graphs.h"
#include "memory.h"
#include "stand_in.h"
#include "streams.h"

int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cudaStreamDestroy(void *stream);
int cudaStreamGetPriority(void *stream, int *priority);
int cudaStreamGetFlags(void *stream, unsigned *flags);
int cudaStreamGetId(void *stream, unsigned long long *id);
int cudaStreamGetDevice(void *stream, int *device);
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaStreamGetCaptureInfo_v2(void *, int *, unsigned long long *, void **, const void ***, size_t *);
int cudaStreamGetCaptureInfo_v3(void *, int *, unsigned long long *, void **, const void ***, const void **,
                                size_t *);
int cudaThreadExchangeStreamCaptureMode(int *mode);
int cudaEventCreateWithFlags(void **event, unsigned flags);
int cudaEventDestroy(void *event);
int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags);
int cudaEventQuery(void *event);
int cudaEventSynchronize(void *event);
int cudaEventElapsedTime(float *milliseconds, void *start, void *end);
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data);
int cudaGraphInstantiate(void **executable, void *graph, unsigned long long flags);
int cudaGraphLaunch(void *executable, void *stream);
int cudaGraphDestroy(void *graph);
int cudaGraphExecDestroy(void *executable);

EXPORTED int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    return cudaStreamCreateWithPriority(stream, flags, priority);
}

EXPORTED int cuStreamCreate(void **stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

EXPORTED int cuStreamDestroy_v2(void *stream)
{
    return cudaStreamDestroy(stream);
}

EXPORTED int cuStreamSynchronize(void *stream)
{
    return wait_for_stream(stream);
}

EXPORTED int cuStreamQuery(void *stream)
{
    return wait_for_stream(stream);
}

EXPORTED int cuStreamGetPriority(void *stream, int *priority)
{
    return cudaStreamGetPriority(stream, priority);
}

EXPORTED int cuStreamGetFlags(void *stream, unsigned *flags)
{
    return cudaStreamGetFlags(stream, flags);
}

EXPORTED int cuStreamGetId(void *stream, unsigned long long *id)
{
    return cudaStreamGetId(stream, id);
}

EXPORTED int cuStreamGetDevice(void *stream, int *device)
{
    return cudaStreamGetDevice(stream, device);
}

EXPORTED int cuStreamGetCtx(void *stream, void **context)
{
    int device;
    cudaStreamGetDevice(stream, &device);
    *context = primary_context(device);
    return SUCCESS;
}

EXPORTED int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return cudaStreamWaitEvent(stream, event, flags);
}

EXPORTED int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    return cudaLaunchHostFunc(stream, function, data);
}

EXPORTED int cuEventCreate(void **event, unsigned flags)
{
    return cudaEventCreateWithFlags(event, flags);
}

EXPORTED int cuEventDestroy_v2(void *event)
{
    return cudaEventDestroy(event);
}

EXPORTED int cuEventRecord(void *event, void *stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

EXPORTED int cuEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    return cudaEventRecordWithFlags(event, stream, flags);
}

EXPORTED int cuEventQuery(void *event)
{
    return cudaEventQuery(event);
}

EXPORTED int cuEventSynchronize(void *event)
{
    return cudaEventSynchronize(event);
}

EXPORTED int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end)
{
    return cudaEventElapsedTime(milliseconds, start, end);
}

EXPORTED int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
    return cudaEventElapsedTime(milliseconds, start, end);
}

EXPORTED int cuStreamBeginCapture_v2(void *stream, int mode)
{
    return begin_capture_in(stream, NULL, mode);
}

EXPORTED int cuStreamEndCapture(void *stream, void **graph)
{
    return end_capture(stream, graph);
}

EXPORTED int cuStreamIsCapturing(void *stream, int *status)
{
    *status = capture_info(stream).status;
    return SUCCESS;
}

EXPORTED int cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
                                       const void ***dependencies, size_t *count)
{
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

EXPORTED int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph,
                                       const void ***dependencies, const void **edges, size_t *count)
{
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}

EXPORTED int cuThreadExchangeStreamCaptureMode(int *mode)
{
    return cudaThreadExchangeStreamCaptureMode(mode);
}

EXPORTED int cuGraphCreate(void **graph, unsigned flags)
{
    return create_graph(graph);
}

EXPORTED int cuGraphDestroy(void *graph)
{
    return cudaGraphDestroy(graph);
}

EXPORTED int cuGraphGetNodes(void *graph, void **nodes, size_t *count)
{
    return graph_nodes(graph, nodes, count);
}

EXPORTED int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

EXPORTED int cuGraphLaunch(void *executable, void *stream)
{
    return cudaGraphLaunch(executable, stream);
}

EXPORTED int cuGraphExecDestroy(void *executable)
{
    return cudaGraphExecDestroy(executable);
}

EXPORTED int cuStreamWriteValue32_v2(void *stream, void *address, unsigned value, unsigned flags)
{
    note_work(stream);
    return fill_memory(address, &value, sizeof value, 1);
}

EXPORTED int cuStreamWaitValue32_v2(void *stream, void *address, unsigned value, unsigned flags)
{
    return SUCCESS;
}

/* The second form also answers with a green context, of which there are none. */
EXPORTED int cuStreamGetCtx_v2(void *stream, void **context, void **green)
{
    *green = NULL;
    return cuStreamGetCtx(stream, context);
}

/* The driver logs nothing. */
EXPORTED int cuLogsRegisterCallback(void *function, void *data, void **handle)
{
    *handle = new_handle();
    return SUCCESS;
}

EXPORTED int cuLogsUnregisterCallback(void *handle)
{
    return SUCCESS;
}
