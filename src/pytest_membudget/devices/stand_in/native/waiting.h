/* What the host has waited for: of all other work in streams nobody knows whether it is done. */
#ifndef MEMBUDGET_WAITING_H
#define MEMBUDGET_WAITING_H

#include <stdint.h>

#include "captures.h"

/* As many as PyTorch has in its pools, 32 of each of 4 priorities (c10/cuda/CUDAStream.cpp), and some. */
#define MOST_STREAMS 160

/* How much of each stream's work, by the stream's number, something comes after. */
struct moment {
    uint32_t of[MOST_STREAMS];
};

/* What an event marks: the work of its stream so far, and what that comes after. */
struct mark {
    int number;
    uint32_t count;
    unsigned queries;
    struct moment after;
};

/* `stream`: NULL for the default stream of the thread's device. */
void stream_has_work(struct stream *stream);
void mark_stream(struct stream *stream, struct mark *mark);
/* Further work of `stream` comes after what is marked. */
void stream_comes_after(struct stream *stream, const struct mark *mark);

void host_waited_for_stream(struct stream *stream);
void host_waited_for_mark(const struct mark *mark);
void host_waited_for_device(int device);

/* Whether work may not be done; who asks again and again gets the answer at some time that it is. */
int mark_may_be_behind(struct mark *mark);
int stream_may_be_behind(struct stream *stream);

/* Whether the watchdog of process groups, which looks every 100 ms, has not looked yet: `stand_in_delay_watchdog`. */
int watchdog_is_late(struct mark *mark);

/* Whether code at this address may find work behind: PyTorch's allocator of cards' memory, and Python. Its allocator of
   pinned memory and the watchdog of process groups find all work done. */
int may_find_behind(void *address);

#endif
