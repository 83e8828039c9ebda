/* cuDNN's handles: they belong to the stand-in, since the real library opens the driver to create one.

   The older API's size functions take a handle, and some depend on the card: CTC loss and the persistent
   algorithms of recurrent layers need a compute capability, batch norm in channels last a cooperative launch. A
   real handle begins with the description of its GPU, in the order of the JSON in cudnn_device.c. Its place
   for these five numbers was found by trying (9.19.0 and 9.26.0: nothing else of a handle changes any size),
   differs between releases, and is checked against a known size before it is used.

   Prototypes: cudnn_graph.h of cuDNN 9.26. */
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

/* Offsets in bytes of 32-bit numbers. */
enum { MULTIPROCESSORS = 28, SHARED_BYTES_PER_BLOCK = 36, CAPABILITY = 104 };

struct layout {
    int threads_per_multiprocessor, cooperative_launch;
};

static const struct layout layouts[] = {{64, 76} /* 9.26.0 */, {60, 72} /* 9.19.0 */};

static void put(struct cudnn_handle *handle, int offset, int32_t number) {
    memcpy(handle->description + offset, &number, sizeof number);
}

static void describe(struct cudnn_handle *handle, const struct card *card, struct layout layout) {
    memset(handle->description, 0, sizeof handle->description);
    put(handle, MULTIPROCESSORS, card->multiprocessors);
    put(handle, SHARED_BYTES_PER_BLOCK, 49152); /* of every card (CUDA C++ Programming Guide) */
    put(handle, CAPABILITY, card->major * 100 + card->minor * 10);
    put(handle, layout.threads_per_multiprocessor, card->threads_per_multiprocessor);
    put(handle, layout.cooperative_launch, 1);
}

/* Whether the real library finds the card in the handle. */
static bool is_understood(struct cudnn_handle *handle, const struct card *card) {
    int (*real)(void *, size_t *) = cudnn_real("cudnnDropoutGetStatesSize");
    size_t bytes = 0;
    return real(handle, &bytes) == CUDNN_SUCCESS && bytes && bytes == cudnn_dropout_states_bytes(card);
}

EXPORTED int cudnnCreate(struct cudnn_handle **handle) {
    const struct card *card = card_at(current_device());
    if (!handle || !card) return CUDNN_BAD_PARAM;
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUDNN_HOST_ALLOCATION_FAILED;
    for (size_t index = 0; index < sizeof layouts / sizeof *layouts; ++index) {
        describe(*handle, card, layouts[index]);
        (*handle)->is_described = is_understood(*handle, card);
        if ((*handle)->is_described) return CUDNN_SUCCESS;
    }
    memset((*handle)->description, 0, sizeof (*handle)->description);
    return CUDNN_SUCCESS;
}

void cudnn_was_asked_with(const struct cudnn_handle *handle) {
    cudnn_was_asked();
    if (handle && !handle->is_described)
        not_modelled("cudnnCreate (what this cuDNN's batch norm, CTC loss and recurrent layers take on this card)");
}

EXPORTED int cudnnDestroy(struct cudnn_handle *handle) {
    free(handle);
    return CUDNN_SUCCESS;
}

EXPORTED int cudnnSetStream(struct cudnn_handle *handle, void *stream) {
    if (!handle) return CUDNN_BAD_PARAM;
    handle->stream = stream;
    return CUDNN_SUCCESS;
}

EXPORTED int cudnnGetStream(struct cudnn_handle *handle, void **stream) {
    if (!handle || !stream) return CUDNN_BAD_PARAM;
    *stream = handle->stream;
    return CUDNN_SUCCESS;
}

/* What kernels reported: none runs. `status` is a cudnnStatus_t. */
EXPORTED int cudnnQueryRuntimeError(void *handle, int *status, int mode, void *tag) {
    (void)handle, (void)mode, (void)tag;
    *status = CUDNN_SUCCESS;
    return CUDNN_SUCCESS;
}
