/* Streams, the graphs that are captured from them, and what a capture forbids. A null stream, and the
   runtime's constants for the default streams, are legal. */
#ifndef MEMBUDGET_STAND_IN_CAPTURES_H
#define MEMBUDGET_STAND_IN_CAPTURES_H

#include <stddef.h>

/* How many nodes a graph has is all that PyTorch looks at. */
struct graph {
    unsigned long long id;
    size_t nodes;
};

struct capture {
    unsigned long long id;
    struct graph *graph;
    void *origin; /* the stream that began it, and has to end it */
    int active;
    int invalidated;
    int mode;
};

struct stream {
    int device;
    int priority;
    unsigned flags;
    unsigned long long id;
    int number;              /* by which its work is counted (waiting.c); 0 before any */
    struct capture *capture; /* may have ended since */
};

/* NULL for a default stream. */
struct stream *stream_at(void *stream);
/* The capture that is going on in `stream`; NULL if there is none. */
struct capture *capture_of(void *stream);
/* A launch, copy or fill in `stream`: a node of the graph that is being captured there, else nothing. */
void note_work(void *stream);
/* An error where `stream` captures: waiting for it invalidates the capture. */
int wait_for_stream(void *stream);
/* The same for all streams of a device. */
int wait_for_device(void);

int create_graph(void **graph);
/* Into `graph`, or into a new one where it is NULL. */
int begin_capture(void *stream, void *graph, int mode);
int end_capture(void *stream, void **graph);
/* The calling thread's; what it was is written in its place. */
int exchange_capture_mode(int *mode);

#endif
