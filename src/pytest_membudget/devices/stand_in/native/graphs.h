#ifndef MEMBUDGET_STAND_IN_GRAPHS_H
#define MEMBUDGET_STAND_IN_GRAPHS_H

#include <stddef.h>

/* A graph that was captured: how many nodes it has is all that PyTorch looks at. */
struct graph {
    unsigned long long id;
    size_t nodes;
};

int end_capture(void *stream, void **graph);
int create_graph(void **graph);
int graph_nodes(const struct graph *graph, void **nodes, size_t *count);

struct capture_info {
    int status;
    unsigned long long id;
    void *graph;
};
struct capture_info capture_info(void *stream);
int begin_capture_in(void *stream, void *graph, int mode);

#endif
