/* Captures and graphs, as they are asked for: launching a graph does nothing.

   Source of prototypes and status values: CUDA Runtime API 13.2, "Graph Management" and "Stream Management". */
#include <stdint.h>
#include <stdlib.h>

#include "captures.h"
#include "errors.h"
#include "launches.h"
#include "tables.h"

/* cudaStreamCaptureStatus */
enum { NO_CAPTURE, ACTIVE_CAPTURE, INVALIDATED_CAPTURE };

/* A node's handle is an address within nothing: graph and index. */
static int graph_nodes(const struct graph *graph, void **nodes, size_t *count)
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
ALIAS(cuGraphGetNodes, graph_nodes)

EXPORTED int cudaStreamBeginCapture(void *stream, int mode)
{
    return runtime_result(begin_capture(stream, NULL, mode));
}
PER_THREAD(cudaStreamBeginCapture)

EXPORTED int cuStreamBeginCapture_v2(void *stream, int mode)
{
    return begin_capture(stream, NULL, mode);
}

EXPORTED int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *dependencies, const void *edges,
                                           size_t count, int mode)
{
    return runtime_result(begin_capture(stream, graph, mode));
}
PER_THREAD(cudaStreamBeginCaptureToGraph)

EXPORTED int cudaStreamEndCapture(void *stream, void **graph)
{
    return runtime_result(end_capture(stream, graph));
}
PER_THREAD(cudaStreamEndCapture)

EXPORTED int cudaStreamIsCapturing(void *stream, int *status)
{
    const struct capture *capture = capture_of(stream);
    *status = !capture ? NO_CAPTURE : capture->invalidated ? INVALIDATED_CAPTURE : ACTIVE_CAPTURE;
    return SUCCESS;
}
STREAM_NAMES(cudaStreamIsCapturing, cuStreamIsCapturing)

static int report_capture(void *stream, int *status, unsigned long long *id, void **graph, const void ***dependencies)
{
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
                                         const void ***dependencies, size_t *count)
{
    if (count)
        *count = 0;
    return report_capture(stream, status, id, graph, dependencies);
}
STREAM_NAMES(cudaStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2)

EXPORTED int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph,
                                         const void ***dependencies, const void **edges, size_t *count)
{
    if (edges)
        *edges = NULL;
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}
STREAM_NAMES(cudaStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3)

/* CUDA 13 has the third form under the first name; in CUDA 12 that name has the three parameters of CUDA 11,
   which nothing compiled for it calls (its header means _v2 by the name). */
EXPORTED int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **graph,
                                      const void ***dependencies, const void **edges, size_t *count)
{
    if (cuda_version() < 13000)
        return report_capture(stream, status, id, NULL, NULL);
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}
PER_THREAD(cudaStreamGetCaptureInfo)

/* What waits for what is of no interest where nothing runs; the forms differ in their parameters. */
EXPORTED int cudaStreamUpdateCaptureDependencies(void *stream)
{
    return runtime_result(capture_of(stream) ? SUCCESS : INVALID_VALUE);
}
STREAM_NAMES(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_v2)
ALIAS(cudaStreamUpdateCaptureDependencies_v2_ptsz, cudaStreamUpdateCaptureDependencies)

EXPORTED int cudaGraphCreate(void **graph, unsigned flags)
{
    return runtime_result(create_graph(graph));
}

EXPORTED int cudaGraphDestroy(void *graph)
{
    free(graph);
    return runtime_result(graph ? SUCCESS : INVALID_VALUE);
}
ALIAS(cuGraphDestroy, cudaGraphDestroy)

EXPORTED int cudaGraphGetNodes(void *graph, void **nodes, size_t *count)
{
    return runtime_result(graph_nodes(graph, nodes, count));
}

EXPORTED int cudaGraphInstantiate(void **executable, void *graph, unsigned long long flags)
{
    *executable = new_handle();
    return runtime_result(graph ? SUCCESS : INVALID_VALUE);
}
ALIAS(cudaGraphInstantiateWithFlags, cudaGraphInstantiate)
ALIAS(cuGraphInstantiateWithFlags, cudaGraphInstantiate)

EXPORTED int cudaGraphLaunch(void *executable, void *stream)
{
    return runtime_result(executable ? launch(stream) : INVALID_VALUE);
}
STREAM_NAMES(cudaGraphLaunch, cuGraphLaunch)

EXPORTED int cudaGraphUpload(void *executable, void *stream)
{
    return runtime_result(executable ? SUCCESS : INVALID_VALUE);
}
STREAM_NAMES(cudaGraphUpload, cudaGraphExecDestroy)
ALIAS(cuGraphExecDestroy, cudaGraphUpload)

/* Objects that a graph keeps alive, as PyTorch ties host memory to it, live as long as the process: nothing that
   they hold is on a card. */
CREATES(cudaUserObjectCreate, 1)
EACH(SUCCEEDS, cudaUserObjectRetain, cudaUserObjectRelease, cudaGraphRetainUserObject,
     cudaGraphReleaseUserObject)
