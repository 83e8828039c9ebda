/* Streams and events. Nothing runs, so that everything in them is done at once, or when somebody has waited for
   it: that is varied (unknown.h).

   Source of prototypes: CUDA Runtime API and CUDA Driver API 13.2, "Stream Management", "Event
   Management". */
#include <stdint.h>
#include <stdlib.h>

#include "captures.h"
#include "contexts.h"
#include "errors.h"
#include "tables.h"
#include "unknown.h"
#include "waiting.h"

/* Any elapsed time, but the same each time: autotuning then always takes the first of its candidates. It is long:
   what is over at once is tried hundreds of times. */
#define ELAPSED_MS 1000.0f

struct event {
    struct capture *capture; /* of the stream that it was recorded in last */
    unsigned flags;
    struct mark mark;
};

static unsigned long long last_stream_id = 2; /* after the constants for default streams */

EXPORTED int cuStreamCreateWithPriority(void **created, unsigned flags, int priority) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return OPERATING_SYSTEM;
    use_runtime();
    stream->device = current_device();
    stream->flags = flags;
    /* priorities beyond the card's range are set to its ends */
    stream->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    stream->id = __atomic_add_fetch(&last_stream_id, 1, __ATOMIC_RELAXED);
    *created = stream;
    return SUCCESS;
}

EXPORTED int cuStreamCreate(void **created, unsigned flags) {
    return cuStreamCreateWithPriority(created, flags, 0);
}
RUNTIME(cudaStreamCreateWithPriority, cuStreamCreateWithPriority,
        (void **stream, unsigned flags, int priority), stream, flags, priority)
RUNTIME(cudaStreamCreateWithFlags, cuStreamCreate, (void **stream, unsigned flags), stream, flags)
RUNTIME(cudaStreamCreate, cuStreamCreate, (void **stream), stream, 0)

EXPORTED int cuStreamDestroy_v2(void *stream) {
    if (!stream_at(stream))
        return INVALID_HANDLE;
    free(stream);
    return SUCCESS;
}
RUNTIME(cudaStreamDestroy, cuStreamDestroy_v2, (void *stream), stream)

static int query_stream(void *stream, void *caller) {
    if (capture_of(stream))
        return wait_for_stream(stream);
    if (!may_find_behind(caller) || !stream_may_be_behind(stream_at(stream)))
        return SUCCESS;
    return other_answer(BEHIND) ? NOT_READY : SUCCESS;
}

EXPORTED int cuStreamQuery(void *stream) { return query_stream(stream, __builtin_return_address(0)); }

EXPORTED int cudaStreamQuery(void *stream) {
    return runtime_result(query_stream(stream, __builtin_return_address(0)));
}
PER_THREAD(cudaStreamQuery)

EXPORTED int cudaStreamSynchronize(void *stream) {
    use_runtime();
    return runtime_result(wait_for_stream(stream));
}
PER_THREAD(cudaStreamSynchronize)

EXPORTED int cudaDeviceSynchronize(void) {
    use_runtime();
    return runtime_result(wait_for_device());
}

/* Code has read what lies on a card, which Python answered without a copy: `stream` is the current one. */
EXPORTED void stand_in_host_waits(void *stream) {
    if (!capture_of(stream))
        host_waited_for_stream(stream_at(stream));
}

/* What is known of a stream, and what holds for a default one. */
#define KNOWN(name, second, type, field, of_default) \
    EXPORTED int name(void *stream, type *value) {   \
        struct stream *of = stream_at(stream);       \
        *value = of ? of->field : of_default;        \
        return SUCCESS;                              \
    }                                                \
    STREAM_NAMES(name, second)
KNOWN(cudaStreamGetPriority, cuStreamGetPriority, int, priority, 0)
KNOWN(cudaStreamGetFlags, cuStreamGetFlags, unsigned, flags, 0)
KNOWN(cudaStreamGetId, cuStreamGetId, unsigned long long, id, (uintptr_t)stream)
KNOWN(cudaStreamGetDevice, cuStreamGetDevice, int, device, current_device())

EXPORTED int cuStreamGetCtx(void *stream, void **context) {
    int device;
    cudaStreamGetDevice(stream, &device);
    *context = primary_context(device);
    return SUCCESS;
}

/* The second form also answers with a green context, of which there are none. */
EXPORTED int cuStreamGetCtx_v2(void *stream, void **context, void **green) {
    *green = NULL;
    return cuStreamGetCtx(stream, context);
}

EXPORTED int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}
ALIAS(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange)

EXPORTED int cuEventCreate(void **event, unsigned flags) {
    struct event *created = calloc(1, sizeof *created);
    if (!created)
        return OPERATING_SYSTEM;
    use_runtime();
    created->flags = flags;
    *event = created;
    return SUCCESS;
}
RUNTIME(cudaEventCreateWithFlags, cuEventCreate, (void **event, unsigned flags), event, flags)
RUNTIME(cudaEventCreate, cuEventCreate, (void **event), event, 0)

EXPORTED int cuEventDestroy_v2(void *event) {
    free(event);
    return event ? SUCCESS : INVALID_HANDLE;
}
RUNTIME(cudaEventDestroy, cuEventDestroy_v2, (void *event), event)

EXPORTED int cuEventRecord(void *event, void *stream) {
    if (!event)
        return INVALID_HANDLE;
    use_runtime();
    ((struct event *)event)->capture = capture_of(stream);
    mark_stream(stream_at(stream), &((struct event *)event)->mark);
    return SUCCESS;
}
RUNTIME(cudaEventRecord, cuEventRecord, (void *event, void *stream), event, stream)
PER_THREAD(cudaEventRecord)
/* Flags come last: whether a graph is to show the event to others. */
ALIAS(cuEventRecordWithFlags, cuEventRecord)
ALIAS(cudaEventRecordWithFlags, cudaEventRecord)
ALIAS(cudaEventRecordWithFlags_ptsz, cudaEventRecord)

/* Nobody can wait for an event of a capture that is going on: nothing has run. */
static int check_event(const struct event *event) {
    if (!event)
        return INVALID_HANDLE;
    return event->capture && event->capture->active ? CAPTURED_EVENT : SUCCESS;
}

EXPORTED int cuEventSynchronize(void *event) {
    int error = check_event(event);
    if (!error)
        host_waited_for_mark(&((struct event *)event)->mark);
    return error;
}
RUNTIME(cudaEventSynchronize, cuEventSynchronize, (void *event), event)

static int query(void *event, void *caller) {
    int error = check_event(event);
    if (!error && watchdog_is_late(&((struct event *)event)->mark))
        return NOT_READY;
    if (error || !may_find_behind(caller) || !mark_may_be_behind(&((struct event *)event)->mark))
        return error;
    return other_answer(BEHIND) ? NOT_READY : SUCCESS;
}

EXPORTED int cuEventQuery(void *event) { return query(event, __builtin_return_address(0)); }

EXPORTED int cudaEventQuery(void *event) { return runtime_result(query(event, __builtin_return_address(0))); }

EXPORTED int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    *milliseconds = ELAPSED_MS;
    return start && end ? SUCCESS : INVALID_HANDLE;
}
ALIAS(cuEventElapsedTime_v2, cuEventElapsedTime)
RUNTIME(cudaEventElapsedTime, cuEventElapsedTime, (float *milliseconds, void *start, void *end), milliseconds,
        start, end)
ALIAS(cudaEventElapsedTime_v2, cudaEventElapsedTime)

/* A stream that waits for an event of a capture takes part in it from then on. */
EXPORTED int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    struct capture *capture = event ? ((struct event *)event)->capture : NULL, *own = capture_of(stream);
    if (!event)
        return INVALID_HANDLE;
    if (!own)
        stream_comes_after(stream_at(stream), &((struct event *)event)->mark);
    if (!capture || !capture->active || capture == own)
        return SUCCESS;
    if (own)
        return CAPTURE_MERGE;
    if (!stream_at(stream))
        return CAPTURE_UNSUPPORTED;
    stream_at(stream)->capture = capture;
    return SUCCESS;
}
RUNTIME(cudaStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned flags), stream, event,
        flags)
PER_THREAD(cudaStreamWaitEvent)

EXPORTED int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
    note_work(stream);
    if (!capture_of(stream)) /* in a capture it runs when the graph is launched */
        function(data);
    return SUCCESS;
}
STREAM_NAMES(cudaLaunchHostFunc, cuLaunchHostFunc)

EXPORTED int cudaStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data,
                                   unsigned flags) {
    if (capture_of(stream))
        return runtime_result(CAPTURE_UNSUPPORTED);
    function(stream, SUCCESS, data);
    return SUCCESS;
}
PER_THREAD(cudaStreamAddCallback)

SUCCEEDS(cuStreamWaitValue32_v2)
