/* cuDNN's handles: they belong to the stand-in, since the real library opens the driver to create one.

   Prototypes: cudnn_graph.h of cuDNN 9.26. */
#include <stdlib.h>

#include "cudnn.h"

EXPORTED int cudnnCreate(struct cudnn_handle **handle) {
    const struct card *card = card_at(current_device());
    if (!handle || !card)
        return CUDNN_BAD_PARAM;
    *handle = calloc(1, sizeof **handle);
    if (!*handle)
        return CUDNN_HOST_ALLOCATION_FAILED;
    cudnn_describe(*handle, card);
    return SUCCESS;
}

EXPORTED int cudnnDestroy(struct cudnn_handle *handle) {
    free(handle);
    return SUCCESS;
}

EXPORTED int cudnnSetStream(struct cudnn_handle *handle, void *stream) {
    if (!handle)
        return CUDNN_BAD_PARAM;
    handle->stream = stream;
    return SUCCESS;
}

EXPORTED int cudnnGetStream(struct cudnn_handle *handle, void **stream) {
    if (!handle || !stream)
        return CUDNN_BAD_PARAM;
    *stream = handle->stream;
    return SUCCESS;
}

/* What kernels reported: none runs. `status` is a cudnnStatus_t. */
EXPORTED int cudnnQueryRuntimeError(void *handle, int *status, int mode, void *tag) {
    *status = SUCCESS;
    return SUCCESS;
}
