/* The card in a handle: what the older API's size functions of the real library read there.

   Some of those sizes depend on the card: CTC loss and the persistent algorithms of recurrent layers need a
   compute capability, batch norm in channels last a cooperative launch. A real handle begins with the
   description of its GPU, in the order of the JSON in cudnn_device.c. Its places for these five numbers were
   found by trying (nothing else of a handle changes any size), differ between releases, and are checked
   before they are used: two sizes must come out that do with no other. */
#include <string.h>

#include "cudnn.h"

/* Offsets in bytes of 32-bit numbers. */
enum { MULTIPROCESSORS = 28, SHARED_BYTES_PER_BLOCK = 36 };

struct layout {
    int threads_per_multiprocessor, cooperative_launch, capability;
};

static const struct layout layouts[] = {
    {64, 76, 104}, /* 9.26.0 */
    {64, 76, 108}, /* 9.28.0 */
    {60, 72, 104}, /* 9.19.0 */
};

/* cudnnTensorFormat_t, cudnnDataType_t, cudnnBatchNormMode_t */
enum { NHWC = 1, FLOAT = 0, SPATIAL_PERSISTENT = 2 };

static void put(struct cudnn_handle *handle, int offset, int32_t number) {
    memcpy(handle->description + offset, &number, sizeof number);
}

static void describe(struct cudnn_handle *handle, const struct card *card, struct layout layout,
                     int capability) {
    memset(handle->description, 0, sizeof handle->description);
    put(handle, MULTIPROCESSORS, card->multiprocessors);
    put(handle, SHARED_BYTES_PER_BLOCK, 49152); /* of every card (CUDA C++ Programming Guide) */
    put(handle, layout.capability, capability);
    put(handle, layout.threads_per_multiprocessor, card->threads_per_multiprocessor);
    put(handle, layout.cooperative_launch, 1);
}

/* One state of 48 bytes (curandState: curand_kernel.h) for every second thread that the card holds at once,
   in blocks of 256: read off what cuDNN 9.19 and 9.26 answer for handles of several made-up GPUs. */
enum { STATE_BYTES = 48, STATES_PER_BLOCK = 256 };

size_t cudnn_dropout_states_bytes(const struct card *card) {
    size_t states = (size_t)card->multiprocessors * (size_t)card->threads_per_multiprocessor / 2;
    size_t blocks = (states + STATES_PER_BLOCK - 1) / STATES_PER_BLOCK;
    return blocks * STATES_PER_BLOCK * STATE_BYTES;
}

static bool finds_multiprocessors(struct cudnn_handle *handle, const struct card *card) {
    int (*real)(void *, size_t *) = cudnn_real("cudnnDropoutGetStatesSize");
    size_t bytes = 0;
    return real(handle, &bytes) == SUCCESS && bytes && bytes == cudnn_dropout_states_bytes(card);
}

/* Batch norm in channels last has a workspace where a capability from 7.0 on and a cooperative launch are
   found. */
static bool finds_capability(struct cudnn_handle *handle) {
    int (*create)(void **) = cudnn_real("cudnnCreateTensorDescriptor");
    int (*destroy)(void *) = cudnn_real("cudnnDestroyTensorDescriptor");
    int (*set)(void *, int, int, int, int, int, int) = cudnn_real("cudnnSetTensor4dDescriptor");
    int (*sizes)(void *, int, int, void *, void *, void *, void *, void *, size_t *) =
        cudnn_real("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize");
    void *x = NULL, *scale = NULL;
    size_t bytes = 0;
    bool found = !create(&x) && !create(&scale) && !set(x, NHWC, FLOAT, 8, 64, 8, 8) &&
                 !set(scale, NHWC, FLOAT, 1, 64, 1, 1) &&
                 !sizes(handle, SPATIAL_PERSISTENT, 0, x, NULL, x, scale, NULL, &bytes) && bytes;
    if (x)
        destroy(x);
    if (scale)
        destroy(scale);
    return found;
}

void cudnn_describe(struct cudnn_handle *handle, const struct card *card) {
    for (size_t index = 0; index < sizeof layouts / sizeof *layouts; ++index) {
        describe(handle, card, layouts[index], 800);
        if (!finds_multiprocessors(handle, card) || !finds_capability(handle))
            continue;
        describe(handle, card, layouts[index], card->major * 100 + card->minor * 10);
        handle->is_described = true;
        return;
    }
    memset(handle->description, 0, sizeof handle->description);
}

void cudnn_was_asked_with(const struct cudnn_handle *handle) {
    cudnn_was_asked();
    if (handle && !handle->is_described)
        not_modelled(
            "cudnnCreate (what this cuDNN's batch norm, CTC loss and recurrent layers take on this card)");
}

int cudnn_size(const char *name, const uintptr_t *words, size_t count) {
    typedef uintptr_t word;
    int (*real)(word, word, word, word, word, word, word, word, word, word, word) = cudnn_real(name);
    word all[12] = {0};
    memcpy(all, words, (count + 1) * sizeof *all);
    cudnn_was_asked_with((const void *)all[1]);
    return real(all[1], all[2], all[3], all[4], all[5], all[6], all[7], all[8], all[9], all[10], all[11]);
}
