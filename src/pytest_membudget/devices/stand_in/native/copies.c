/* Copies and fills. Small ones are made, as memory of the cards is memory of this process too; large ones
   that touch a card are not, so that what is only reserved stays without pages. */
#include <string.h>

#include "answers.h"
#include "captures.h"
#include "contexts.h"
#include "errors.h"
#include "host.h"
#include "memory.h"
#include "waiting.h"

EXPORTED size_t stand_in_most_copied_bytes(void) { return MOST_COPIED_BYTES; }

static int is_made(const void *to, const void *from, size_t bytes) {
    return bytes <= MOST_COPIED_BYTES || !(is_on_card(to) || is_on_card(from));
}

int copy_memory(void *to, const void *from, size_t bytes) {
    if (bytes && is_on_card(from) && !is_on_card(to) && answer_copy(to, bytes))
        return SUCCESS;
    if (bytes && is_made(to, from, bytes))
        memmove(to, from, bytes);
    else if (bytes)
        host_made_hollow(to);
    return SUCCESS;
}

struct rectangle {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
};

static int copy_rectangle(struct rectangle of) {
    char answer[MOST_ANSWER_BYTES];
    size_t bytes = of.width * of.height;
    int small = of.height && of.width <= MOST_COPIED_BYTES / of.height;
    if (bytes && is_on_card(of.from) && !is_on_card(of.to) && answer_copy(answer, bytes)) {
        of.from = answer;
        of.from_pitch = of.width;
    }
    if (small || !(is_on_card(of.to) || is_on_card(of.from)))
        for (size_t row = 0; row < of.height; row++)
            memmove(of.to + row * of.to_pitch, of.from + row * of.from_pitch, of.width);
    else
        host_made_hollow(of.to);
    return SUCCESS;
}

int fill_memory(void *to, const void *pattern, size_t pattern_bytes, size_t count) {
    if (count > MOST_COPIED_BYTES / pattern_bytes)
        return SUCCESS;
    if (pattern_bytes == 1)
        memset(to, *(const unsigned char *)pattern, count);
    else
        for (size_t index = 0; index < count; index++)
            memcpy((char *)to + index * pattern_bytes, pattern, pattern_bytes);
    return SUCCESS;
}

static int fill_rectangle(char *to, size_t pitch, unsigned char byte, size_t width, size_t height) {
    if (height && width <= MOST_COPIED_BYTES / height)
        for (size_t row = 0; row < height; row++)
            fill_memory(to + row * pitch, &byte, 1, width);
    return SUCCESS;
}

/* What is copied to the host is waited for, but where it goes to pinned memory without being asked to wait
   (CUDA Runtime API 13.2, "API synchronization behavior"). */
static int copy(void *to, const void *from, size_t bytes, void *stream, int waits) {
    use_runtime();
    note_work(stream);
    if (is_on_card(from) && !is_on_card(to) && !capture_of(stream) && (waits || !is_pinned(to)))
        host_waited_for_stream(stream_at(stream));
    return runtime_result(copy_memory(to, from, bytes));
}

EXPORTED int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    return copy(to, from, bytes, stream, 0);
}

EXPORTED int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    return copy(to, from, bytes, NULL, 1);
}

EXPORTED int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                 void *stream) {
    return copy(to, from, bytes, stream, 0);
}

EXPORTED int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    return copy(to, from, bytes, NULL, 1);
}

EXPORTED int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                               size_t height, int kind, void *stream) {
    use_runtime();
    note_work(stream);
    return runtime_result(copy_rectangle((struct rectangle){to, from, to_pitch, from_pitch, width, height}));
}

EXPORTED int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                          size_t height, int kind) {
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}

EXPORTED int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream) {
    unsigned char byte = (unsigned char)value;
    use_runtime();
    note_work(stream);
    return runtime_result(fill_memory(to, &byte, 1, bytes));
}

EXPORTED int cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

EXPORTED int cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream) {
    use_runtime();
    note_work(stream);
    return runtime_result(fill_rectangle(to, pitch, (unsigned char)value, width, height));
}

EXPORTED int cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}
