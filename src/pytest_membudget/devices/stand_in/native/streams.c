/* Streams and events: everything in them is done at once.

   Source of prototypes: CUDA Runtime API 13.2, "Stream Management" and "Event Management". */
#include "streams.h"

#include <stdint.h>
#include <stdlib.h>

#include "contexts.h"
#include "errors.h"
#include "per_thread.h"
#include "stand_in.h"

/* cudaStreamLegacy and cudaStreamPerThread are the numbers 1 and 2. */
#define LAST_CONSTANT_STREAM 2
/* Any elapsed time, but the same each time: autotuning then always takes the first of its candidates. */
#define ELAPSED_MS 1.0f

struct event {
    struct capture *capture; /* of the stream that it was recorded in last */
    unsigned flags;
};

static unsigned long long last_stream_id = LAST_CONSTANT_STREAM;

struct stream *stream_at(void *stream)
{
    return (uintptr_t)stream > LAST_CONSTANT_STREAM ? stream : NULL;
}

static int create_stream(void **created, unsigned flags, int priority)
{
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

EXPORTED int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    return runtime_result(create_stream(stream, flags, priority));
}

EXPORTED int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

EXPORTED int cudaStreamCreate(void **stream)
{
    return cudaStreamCreateWithPriority(stream, 0, 0);
}

EXPORTED int cudaStreamDestroy(void *stream)
{
    if (!stream_at(stream))
        return runtime_result(INVALID_HANDLE);
    free(stream);
    return SUCCESS;
}

EXPORTED int cudaStreamQuery(void *stream)
{
    return runtime_result(wait_for_stream(stream));
}
PER_THREAD_STREAM(cudaStreamQuery)

EXPORTED int cudaStreamSynchronize(void *stream)
{
    use_runtime();
    return runtime_result(wait_for_stream(stream));
}
PER_THREAD_STREAM(cudaStreamSynchronize)

EXPORTED int cudaDeviceSynchronize(void)
{
    use_runtime();
    return runtime_result(wait_for_device());
}

EXPORTED int cudaStreamGetPriority(void *stream, int *priority)
{
    *priority = stream_at(stream) ? stream_at(stream)->priority : 0;
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamGetPriority)

EXPORTED int cudaStreamGetFlags(void *stream, unsigned *flags)
{
    *flags = stream_at(stream) ? stream_at(stream)->flags : 0;
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamGetFlags)

EXPORTED int cudaStreamGetId(void *stream, unsigned long long *id)
{
    *id = stream_at(stream) ? stream_at(stream)->id : (uintptr_t)stream;
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamGetId)

EXPORTED int cudaStreamGetDevice(void *stream, int *device)
{
    *device = stream_at(stream) ? stream_at(stream)->device : current_device();
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamGetDevice)

EXPORTED int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}

EXPORTED int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    struct event *created = calloc(1, sizeof *created);
    if (!created)
        return runtime_result(OPERATING_SYSTEM);
    use_runtime();
    created->flags = flags;
    *event = created;
    return SUCCESS;
}

EXPORTED int cudaEventCreate(void **event)
{
    return cudaEventCreateWithFlags(event, 0);
}

EXPORTED int cudaEventDestroy(void *event)
{
    free(event);
    return runtime_result(event ? SUCCESS : INVALID_HANDLE);
}

EXPORTED int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    if (!event)
        return runtime_result(INVALID_HANDLE);
    use_runtime();
    ((struct event *)event)->capture = capture_of(stream);
    return SUCCESS;
}
PER_THREAD_STREAM(cudaEventRecordWithFlags)

EXPORTED int cudaEventRecord(void *event, void *stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}
PER_THREAD_STREAM(cudaEventRecord)

/* Nobody can wait for an event of a capture that is going on: nothing has run. */
static int wait_for_event(const struct event *event)
{
    if (!event)
        return INVALID_HANDLE;
    return event->capture && event->capture->active ? CAPTURED_EVENT : SUCCESS;
}

EXPORTED int cudaEventQuery(void *event)
{
    return runtime_result(wait_for_event(event));
}

EXPORTED int cudaEventSynchronize(void *event)
{
    return runtime_result(wait_for_event(event));
}

EXPORTED int cudaEventElapsedTime(float *milliseconds, void *start, void *end)
{
    *milliseconds = ELAPSED_MS;
    return runtime_result(start && end ? SUCCESS : INVALID_HANDLE);
}

EXPORTED int cudaEventElapsedTime_v2(float *milliseconds, void *start, void *end)
{
    return cudaEventElapsedTime(milliseconds, start, end);
}

/* A stream that waits for an event of a capture takes part in it from then on. */
EXPORTED int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    struct capture *capture = event ? ((struct event *)event)->capture : NULL, *own = capture_of(stream);
    if (!event)
        return runtime_result(INVALID_HANDLE);
    if (!capture || !capture->active || capture == own)
        return SUCCESS;
    if (own)
        return runtime_result(CAPTURE_MERGE);
    if (!stream_at(stream))
        return runtime_result(CAPTURE_UNSUPPORTED);
    stream_at(stream)->capture = capture;
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamWaitEvent)

EXPORTED int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    note_work(stream);
    if (!capture_of(stream)) /* in a capture it runs when the graph is launched */
        function(data);
    return SUCCESS;
}
PER_THREAD_STREAM(cudaLaunchHostFunc)

EXPORTED int cudaStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned flags)
{
    if (capture_of(stream))
        return runtime_result(CAPTURE_UNSUPPORTED);
    function(stream, SUCCESS, data);
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamAddCallback)
