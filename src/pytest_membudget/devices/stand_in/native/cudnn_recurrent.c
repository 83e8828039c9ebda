/* cuDNN's recurrent layers and their dropout: sizes without running anything.

   The real library computes the sizes from the descriptors and the card (cudnn_description.c).

   Prototypes: cudnn_adv.h and cudnn_ops.h of cuDNN 9.26. */
#include "cudnn.h"
#include "refuse.h"

EXPORTED int cudnnDropoutGetStatesSize(void *handle, size_t *bytes) {
    const struct card *card = card_at(current_device());
    if (!handle || !bytes || !card)
        return CUDNN_BAD_PARAM;
    *bytes = cudnn_dropout_states_bytes(card);
    return SUCCESS;
}

EXPORTED int cudnnRestoreDropoutDescriptor(void *dropout, void *handle, float probability, void *states,
                                           size_t bytes, unsigned long long seed) {
    int (*real)(void *, void *, float, void *, size_t, unsigned long long) =
        cudnn_real("cudnnRestoreDropoutDescriptor");
    return real(dropout, handle, probability, states, bytes, seed);
}

/* The real one runs a kernel that fills the states, where there are any; restoring only notes them. */
EXPORTED int cudnnSetDropoutDescriptor(void *dropout, void *handle, float probability, void *states,
                                       size_t bytes, unsigned long long seed) {
    int (*real)(void *, void *, float, void *, size_t, unsigned long long) =
        cudnn_real("cudnnSetDropoutDescriptor");
    if (states)
        return cudnnRestoreDropoutDescriptor(dropout, handle, probability, states, bytes, seed);
    return real(dropout, handle, probability, states, bytes, seed);
}

CUDNN_SIZE(cudnnGetRNNWeightSpaceSize, 3)

EXPORTED int cudnnGetRNNWeightParams(void *handle, void *rnn, int32_t layer, size_t space_bytes,
                                     const void *space, int32_t linear_layer, void *matrix,
                                     void **matrix_address, void *bias, void **bias_address) {
    int (*real)(void *, void *, int32_t, size_t, const void *, int32_t, void *, void **, void *, void **) =
        cudnn_real("cudnnGetRNNWeightParams");
    return real(handle, rnn, layer, space_bytes, space, linear_layer, matrix, matrix_address, bias,
                bias_address);
}

/* The real library writes both sizes and then fails, because it wants to know the current GPU; sizes that it
   did not write are not known. */
EXPORTED int cudnnGetRNNTempSpaceSizes(void *handle, void *rnn, int mode, void *x, size_t *workspace_bytes,
                                       size_t *reserve_bytes) {
    int (*real)(void *, void *, int, void *, size_t *, size_t *) = cudnn_real("cudnnGetRNNTempSpaceSizes");
    size_t workspace = SIZE_MAX, reserve = SIZE_MAX;
    cudnn_was_asked_with(handle);
    int status = real(handle, rnn, mode, x, &workspace, &reserve);
    if (status && status != CUDNN_EXECUTION_FAILED_CUDART)
        return status;
    if (workspace == SIZE_MAX || reserve == SIZE_MAX)
        return status ? status : (int)stand_in_refuse("libcudnn", "cudnnGetRNNTempSpaceSizes");
    if (workspace_bytes)
        *workspace_bytes = workspace;
    if (reserve_bytes)
        *reserve_bytes = reserve;
    return SUCCESS;
}
