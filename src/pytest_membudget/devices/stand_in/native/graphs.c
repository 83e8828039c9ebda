/* Graphs: a capture counts the work in its streams, and launching a graph does nothing.

   PyTorch's allocator keeps a pool for each capture, and asks which streams capture
   (CUDACachingAllocator.cpp, CUDAGraph.cpp). Source of prototypes and status values: CUDA Runtime API 13.2,
   "Graph Management" and "Stream Management". */
#include "graphs.h"

#include <stdlib.h>

#include "errors.h"
#include "launches.h"
#include "per_thread.h"
#include "stand_in.h"
#include "streams.h"

/* cudaStreamCaptureStatus */
enum { NO_CAPTURE, ACTIVE_CAPTURE, INVALIDATED_CAPTURE };
enum { RELAXED = 2 }; /* cudaStreamCaptureMode; 0 is global, 1 of the thread */
static __thread int capture_mode;
static __thread struct capture *begun_here; /* the last that this thread began */
static unsigned long long last_id;

static unsigned long long new_id(void)
{
    return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
}

struct capture *capture_of(void *stream)
{
    struct stream *of = stream_at(stream);
    return of && of->capture && of->capture->active ? of->capture : NULL;
}

void note_work(void *stream)
{
    struct capture *capture = capture_of(stream);
    if (capture)
        __atomic_add_fetch(&capture->graph->nodes, 1, __ATOMIC_RELAXED);
}

int wait_for_stream(void *stream)
{
    struct capture *capture = capture_of(stream);
    if (!capture)
        return SUCCESS;
    capture->invalidated = 1;
    return CAPTURE_UNSUPPORTED;
}

int wait_for_device(void)
{
    if (!begun_here || !begun_here->active || begun_here->mode == RELAXED || capture_mode == RELAXED)
        return SUCCESS;
    begun_here->invalidated = 1;
    return CAPTURE_UNSUPPORTED;
}

int create_graph(void **graph)
{
    struct graph *created = calloc(1, sizeof *created);
    if (!created)
        return OPERATING_SYSTEM;
    created->id = new_id();
    *graph = created;
    return SUCCESS;
}

/* Captures are never freed: streams and events may look at theirs after its end. */
int begin_capture_in(void *stream, void *graph, int mode)
{
    struct stream *origin = stream_at(stream);
    struct capture *capture;
    void *made = graph;
    if (!origin || capture_of(stream))
        return CAPTURE_UNSUPPORTED;
    capture = calloc(1, sizeof *capture);
    if (!capture || (!made && create_graph(&made) != SUCCESS)) {
        free(capture);
        return OPERATING_SYSTEM;
    }
    capture->id = new_id();
    capture->graph = made;
    capture->origin = origin;
    capture->active = 1;
    capture->mode = mode;
    begun_here = capture;
    origin->capture = capture;
    return SUCCESS;
}

int end_capture(void *stream, void **graph)
{
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

struct capture_info capture_info(void *stream)
{
    struct capture *capture = capture_of(stream);
    if (!capture)
        return (struct capture_info){NO_CAPTURE, 0, NULL};
    return (struct capture_info){capture->invalidated ? INVALIDATED_CAPTURE : ACTIVE_CAPTURE, capture->id,
                                 capture->graph};
}

/* A node's handle is an address within nothing: graph and index. */
int graph_nodes(const struct graph *graph, void **nodes, size_t *count)
{
    if (!graph)
        return INVALID_VALUE;
    if (!nodes) {
        *count = graph->nodes;
        return SUCCESS;
    }
    for (size_t index = 0; index < *count; index++)
        nodes[index] = index < graph->nodes ? (void *)((uintptr_t)graph + index) : NULL;
    if (*count > graph->nodes)
        *count = graph->nodes;
    return SUCCESS;
}

EXPORTED int cudaStreamBeginCapture(void *stream, int mode)
{
    return runtime_result(begin_capture_in(stream, NULL, mode));
}
PER_THREAD_STREAM(cudaStreamBeginCapture)

EXPORTED int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *dependencies, const void *edges,
                                           size_t count, int mode)
{
    return runtime_result(begin_capture_in(stream, graph, mode));
}
PER_THREAD_STREAM(cudaStreamBeginCaptureToGraph)

EXPORTED int cudaStreamEndCapture(void *stream, void **graph)
{
    return runtime_result(end_capture(stream, graph));
}
PER_THREAD_STREAM(cudaStreamEndCapture)

EXPORTED int cudaStreamIsCapturing(void *stream, int *status)
{
    *status = capture_info(stream).status;
    return SUCCESS;
}
PER_THREAD_STREAM(cudaStreamIsCapturing)

static int report_capture(void *stream, int *status, unsigned long long *id, void **graph, const void ***dependencies)
{
    struct capture_info info = capture_info(stream);
    *status = info.status;
    if (id)
        *id = info.id;
    if (graph)
        *graph = info.graph;
    if (dependencies)
        *dependencies = NULL;
    return SUCCESS;
}

EXPORTED int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
                                         const void ***dependencies, size_t *count)
{
    if (count)
        *count = 0;
    return report_capture(stream, status, id, graph, dependencies);
}
PER_THREAD_STREAM(cudaStreamGetCaptureInfo_v2)

EXPORTED int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph,
                                         const void ***dependencies, const void **edges, size_t *count)
{
    if (edges)
        *edges = NULL;
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}
PER_THREAD_STREAM(cudaStreamGetCaptureInfo_v3)

/* CUDA 13 has the third form under the first name; in CUDA 12 that name has the three parameters of CUDA 11,
   which nothing compiled for it calls (its header means _v2 by the name). */
EXPORTED int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **graph,
                                      const void ***dependencies, const void **edges, size_t *count)
{
    if (cuda_version() < 13000)
        return report_capture(stream, status, id, NULL, NULL);
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}
PER_THREAD_STREAM(cudaStreamGetCaptureInfo)

/* What waits for what is of no interest where nothing runs; the forms differ in their parameters. */
EXPORTED int cudaStreamUpdateCaptureDependencies(void *stream)
{
    return runtime_result(capture_of(stream) ? SUCCESS : INVALID_VALUE);
}
PER_THREAD_STREAM(cudaStreamUpdateCaptureDependencies)

EXPORTED int cudaStreamUpdateCaptureDependencies_v2(void *stream)
{
    return cudaStreamUpdateCaptureDependencies(stream);
}
PER_THREAD_STREAM(cudaStreamUpdateCaptureDependencies_v2)

EXPORTED int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return SUCCESS;
}

EXPORTED int cudaGraphCreate(void **graph, unsigned flags)
{
    return runtime_result(create_graph(graph));
}

EXPORTED int cudaGraphDestroy(void *graph)
{
    free(graph);
    return runtime_result(graph ? SUCCESS : INVALID_VALUE);
}

EXPORTED int cudaGraphGetNodes(void *graph, void **nodes, size_t *count)
{
    return runtime_result(graph_nodes(graph, nodes, count));
}

EXPORTED int cudaGraphInstantiate(void **executable, void *graph, unsigned long long flags)
{
    *executable = new_handle();
    return runtime_result(graph ? SUCCESS : INVALID_VALUE);
}

EXPORTED int cudaGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

EXPORTED int cudaGraphLaunch(void *executable, void *stream)
{
    return runtime_result(executable ? launch(stream) : INVALID_VALUE);
}
PER_THREAD_STREAM(cudaGraphLaunch)

EXPORTED int cudaGraphUpload(void *executable, void *stream)
{
    return runtime_result(executable ? SUCCESS : INVALID_VALUE);
}
PER_THREAD_STREAM(cudaGraphUpload)

EXPORTED int cudaGraphExecDestroy(void *executable)
{
    return runtime_result(executable ? SUCCESS : INVALID_VALUE);
}
