/* What is captured: the work in streams is counted, and waiting for it is refused.

   PyTorch's allocator keeps a pool for each capture, and asks which streams capture
   (CUDACachingAllocator.cpp, CUDAGraph.cpp). Source: CUDA Runtime API 13.2, "Stream Management". */
#include "captures.h"

#include <stdint.h>
#include <stdlib.h>

#include "errors.h"
#include "tables.h"
#include "waiting.h"

/* cudaStreamLegacy and cudaStreamPerThread are the numbers 1 and 2. */
#define LAST_CONSTANT_STREAM 2
enum { RELAXED = 2 }; /* cudaStreamCaptureMode; 0 is global, 1 of the thread */

static __thread int capture_mode;
static __thread struct capture *begun_here; /* the last that this thread began */
static unsigned long long last_id;

static unsigned long long new_id(void) { return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED); }

struct stream *stream_at(void *stream) { return (uintptr_t)stream > LAST_CONSTANT_STREAM ? stream : NULL; }

struct capture *capture_of(void *stream) {
    struct stream *of = stream_at(stream);
    return of && of->capture && of->capture->active ? of->capture : NULL;
}

void note_work(void *stream) {
    struct capture *capture = capture_of(stream);
    if (capture)
        __atomic_add_fetch(&capture->graph->nodes, 1, __ATOMIC_RELAXED);
    else
        stream_has_work(stream_at(stream));
}

int wait_for_stream(void *stream) {
    struct capture *capture = capture_of(stream);
    if (!capture) {
        host_waited_for_stream(stream_at(stream));
        return SUCCESS;
    }
    capture->invalidated = 1;
    return CAPTURE_UNSUPPORTED;
}

int wait_for_device(void) {
    if (!begun_here || !begun_here->active || begun_here->mode == RELAXED || capture_mode == RELAXED) {
        host_waited_for_device(current_device());
        return SUCCESS;
    }
    begun_here->invalidated = 1;
    return CAPTURE_UNSUPPORTED;
}

int create_graph(void **graph) {
    struct graph *created = calloc(1, sizeof *created);
    if (!created)
        return OPERATING_SYSTEM;
    created->id = new_id();
    *graph = created;
    return SUCCESS;
}

/* Captures are never freed: streams and events may look at theirs after its end. */
int begin_capture(void *stream, void *graph, int mode) {
    struct stream *origin = stream_at(stream);
    if (!origin || capture_of(stream))
        return CAPTURE_UNSUPPORTED;
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture || (!graph && create_graph(&graph) != SUCCESS)) {
        free(capture);
        return OPERATING_SYSTEM;
    }
    *capture = (struct capture){.id = new_id(), .graph = graph, .origin = origin, .active = 1, .mode = mode};
    begun_here = capture;
    origin->capture = capture;
    return SUCCESS;
}

int end_capture(void *stream, void **graph) {
    struct capture *capture = capture_of(stream);
    *graph = NULL;
    if (!capture)
        return INVALID_VALUE;
    if (capture->origin != stream)
        return CAPTURE_UNMATCHED;
    capture->active = 0;
    if (capture->invalidated)
        return CAPTURE_INVALIDATED;
    *graph = capture->graph;
    return SUCCESS;
}

int exchange_capture_mode(int *mode) {
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return SUCCESS;
}

/* The driver's names: the same functions, of which cudaGetLastError() knows nothing. */
ALIAS(cuStreamSynchronize, wait_for_stream)
ALIAS(cuCtxSynchronize, wait_for_device)
ALIAS(cuGraphCreate, create_graph)
ALIAS(cuStreamEndCapture, end_capture)
ALIAS(cuThreadExchangeStreamCaptureMode, exchange_capture_mode)
ALIAS(cudaThreadExchangeStreamCaptureMode, exchange_capture_mode)
