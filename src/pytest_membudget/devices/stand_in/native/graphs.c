/* Captures and graphs, as they are asked for: launching a graph does nothing.

   Source of prototypes and status values: CUDA Runtime API 13.2, "Graph Management" and "Stream
   Management". */
#include <stdint.h>
#include <stdlib.h>

#include "captures.h"
#include "errors.h"
#include "launches.h"
#include "tables.h"

/* cudaStreamCaptureStatus */
enum { NO_CAPTURE, ACTIVE_CAPTURE, INVALIDATED_CAPTURE };

/* A node's handle is an address within nothing: graph and index. */
EXPORTED int cuGraphGetNodes(const struct graph *graph, void **nodes, size_t *count) {
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
RUNTIME(cudaGraphGetNodes, cuGraphGetNodes, (void *graph, void **nodes, size_t *count), graph, nodes, count)

EXPORTED int cuStreamBeginCapture_v2(void *stream, int mode) { return begin_capture(stream, NULL, mode); }
RUNTIME(cudaStreamBeginCapture, cuStreamBeginCapture_v2, (void *stream, int mode), stream, mode)
PER_THREAD(cudaStreamBeginCapture)

EXPORTED int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *dependencies,
                                           const void *edges, size_t count, int mode) {
    return runtime_result(begin_capture(stream, graph, mode));
}
PER_THREAD(cudaStreamBeginCaptureToGraph)

RUNTIME(cudaStreamEndCapture, end_capture, (void *stream, void **graph), stream, graph)
PER_THREAD(cudaStreamEndCapture)

EXPORTED int cudaStreamIsCapturing(void *stream, int *status) {
    const struct capture *capture = capture_of(stream);
    *status = !capture ? NO_CAPTURE : capture->invalidated ? INVALIDATED_CAPTURE : ACTIVE_CAPTURE;
    return SUCCESS;
}
STREAM_NAMES(cudaStreamIsCapturing, cuStreamIsCapturing)

static int report_capture(void *stream, int *status, unsigned long long *id, void **graph,
                          const void ***dependencies) {
    const struct capture *capture = capture_of(stream);
    if (id)
        *id = capture ? capture->id : 0;
    if (graph)
        *graph = capture ? capture->graph : NULL;
    if (dependencies)
        *dependencies = NULL;
    return cudaStreamIsCapturing(stream, status);
}

EXPORTED int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
                                         const void ***dependencies, size_t *count) {
    if (count)
        *count = 0;
    return report_capture(stream, status, id, graph, dependencies);
}
STREAM_NAMES(cudaStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2)

EXPORTED int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph,
                                         const void ***dependencies, const void **edges, size_t *count) {
    if (edges)
        *edges = NULL;
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}
STREAM_NAMES(cudaStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3)

/* CUDA 13 has the third form under the first name; in CUDA 12 that name has the three parameters of CUDA 11,
   which nothing compiled for it calls (its header means _v2 by the name). */
EXPORTED int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **graph,
                                      const void ***dependencies, const void **edges, size_t *count) {
    if (cuda_version() < 13000)
        return report_capture(stream, status, id, NULL, NULL);
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}
PER_THREAD(cudaStreamGetCaptureInfo)

/* What waits for what is of no interest where nothing runs; the forms differ in their parameters. */
EXPORTED int cudaStreamUpdateCaptureDependencies(void *stream) {
    return runtime_result(capture_of(stream) ? SUCCESS : INVALID_VALUE);
}
STREAM_NAMES(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_v2)
ALIAS(cudaStreamUpdateCaptureDependencies_v2_ptsz, cudaStreamUpdateCaptureDependencies)

RUNTIME(cudaGraphCreate, create_graph, (void **graph, unsigned flags), graph)

EXPORTED int cuGraphDestroy(void *graph) {
    free(graph);
    return graph ? SUCCESS : INVALID_VALUE;
}
RUNTIME(cudaGraphDestroy, cuGraphDestroy, (void *graph), graph)

EXPORTED int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
    *executable = new_handle();
    return graph ? SUCCESS : INVALID_VALUE;
}
RUNTIME(cudaGraphInstantiate, cuGraphInstantiateWithFlags,
        (void **executable, void *graph, unsigned long long flags), executable, graph, flags)
ALIAS(cudaGraphInstantiateWithFlags, cudaGraphInstantiate)

EXPORTED int cuGraphLaunch(void *executable, void *stream) {
    return executable ? launch(stream) : INVALID_VALUE;
}
RUNTIME(cudaGraphLaunch, cuGraphLaunch, (void *executable, void *stream), executable, stream)
PER_THREAD(cudaGraphLaunch)

EXPORTED int cuGraphExecDestroy(void *executable) { return executable ? SUCCESS : INVALID_VALUE; }
RUNTIME(cudaGraphExecDestroy, cuGraphExecDestroy, (void *executable), executable)
RUNTIME(cudaGraphUpload, cuGraphExecDestroy, (void *executable, void *stream), executable)
PER_THREAD(cudaGraphUpload)

/* Objects that a graph keeps alive, as PyTorch ties host memory to it, live as long as the process: nothing
   that they hold is on a card. */
CREATES(cudaUserObjectCreate, 1)
EACH(SUCCEEDS, cudaUserObjectRetain, cudaUserObjectRelease, cudaGraphRetainUserObject,
     cudaGraphReleaseUserObject)
