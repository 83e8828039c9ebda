/* cuDNN's older API, as libtorch and others still call it: batch norm, dropout, CTC loss, pooling, spatial
   transformer, softmax and the rest.

   Descriptors need no handle and are the real library's. Sizes are the real library's too: it computes them
   from the descriptors and the card (cudnn_description.c).

   Prototypes: cudnn_ops.h, cudnn_adv.h and cudnn_cnn.h of cuDNN 9.26. */
#include "cudnn.h"

#define CUDNN_COMPUTES_ONLY(X)                                                                                 \
    X(cudnnActivationBackward) X(cudnnActivationForward) X(cudnnAddTensor)                                     \
    X(cudnnBatchNormalizationBackward) X(cudnnBatchNormalizationBackwardEx)                                    \
    X(cudnnBatchNormalizationForwardInference) X(cudnnBatchNormalizationForwardTraining)                       \
    X(cudnnBatchNormalizationForwardTrainingEx)                                                                \
    X(cudnnCTCLoss) X(cudnnCTCLoss_v8)                                                                         \
    X(cudnnConvolutionBackwardBias) X(cudnnConvolutionBackwardData) X(cudnnConvolutionBackwardFilter)          \
    X(cudnnConvolutionBiasActivationForward) X(cudnnConvolutionForward)                                        \
    X(cudnnDivisiveNormalizationBackward) X(cudnnDivisiveNormalizationForward)                                 \
    X(cudnnDropoutBackward) X(cudnnDropoutForward)                                                             \
    X(cudnnIm2Col) X(cudnnLRNCrossChannelBackward) X(cudnnLRNCrossChannelForward)                              \
    X(cudnnMultiHeadAttnBackwardData) X(cudnnMultiHeadAttnBackwardWeights) X(cudnnMultiHeadAttnForward)        \
    X(cudnnNormalizationBackward) X(cudnnNormalizationForwardInference) X(cudnnNormalizationForwardTraining)   \
    X(cudnnOpTensor) X(cudnnPoolingBackward) X(cudnnPoolingForward)                                            \
    X(cudnnRNNBackwardData_v8) X(cudnnRNNBackwardWeights_v8) X(cudnnRNNForward)                                \
    X(cudnnReduceTensor) X(cudnnReorderFilterAndBias) X(cudnnScaleTensor) X(cudnnSetTensor)                    \
    X(cudnnSoftmaxBackward) X(cudnnSoftmaxForward)                                                             \
    X(cudnnSpatialTfGridGeneratorBackward) X(cudnnSpatialTfGridGeneratorForward)                               \
    X(cudnnSpatialTfSamplerBackward) X(cudnnSpatialTfSamplerForward)                                           \
    X(cudnnTransformFilter) X(cudnnTransformTensor) X(cudnnTransformTensorEx)

CUDNN_COMPUTES_ONLY(COMPUTES_ONLY)

/* Sizes and choices that nobody has looked at. PyTorch asks for a convolution's algorithm here only under
   TORCH_CUDNN_V8_API_DISABLED=1 (aten/src/ATen/native/cudnn/Conv_v7.cpp). */
#define CUDNN_NOT_MODELLED(X)                                                                                  \
    X(cudnnBuildRNNDynamic)                                                                                    \
    X(cudnnFindConvolutionBackwardDataAlgorithm) X(cudnnFindConvolutionBackwardDataAlgorithmEx)                \
    X(cudnnFindConvolutionBackwardFilterAlgorithm) X(cudnnFindConvolutionBackwardFilterAlgorithmEx)            \
    X(cudnnFindConvolutionForwardAlgorithm) X(cudnnFindConvolutionForwardAlgorithmEx)                          \
    X(cudnnFusedOpsExecute) X(cudnnMakeFusedOpsPlan) X(cudnnGetExecutionPlanWorkspaceSize)                     \
    X(cudnnGetConvolutionBackwardDataAlgorithmMaxCount) X(cudnnGetConvolutionBackwardDataAlgorithm_v7)         \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                            \
    X(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount) X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)     \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                                          \
    X(cudnnGetConvolutionForwardAlgorithmMaxCount) X(cudnnGetConvolutionForwardAlgorithm_v7)                   \
    X(cudnnGetConvolutionForwardWorkspaceSize) X(cudnnGetFoldedConvBackwardDataDescriptors)                    \
    X(cudnnGetMultiHeadAttnBuffers) X(cudnnGetMultiHeadAttnWeights)                                            \
    X(cudnnGetNormalizationBackwardWorkspaceSize) X(cudnnGetNormalizationForwardTrainingWorkspaceSize)         \
    X(cudnnGetNormalizationTrainingReserveSpaceSize) X(cudnnGetRNNDropoutLocationsInternal)                    \
    X(cudnnGetReductionIndicesSize) X(cudnnGetReductionWorkspaceSize)

#define CUDNN_REFUSED(name) REFUSED(name, CUDNN_NOT_SUPPORTED)
CUDNN_NOT_MODELLED(CUDNN_REFUSED)

EXPORTED int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void *handle, int mode, int operation, void *x, void *z, void *y, void *scale, void *activation, size_t *bytes) {
    int (*real)(void *, int, int, void *, void *, void *, void *, void *, size_t *) =
        cudnn_real("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize");
    cudnn_was_asked_with(handle);
    return real(handle, mode, operation, x, z, y, scale, activation, bytes);
}

EXPORTED int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int operation, void *x,
                                                               void *y, void *dy, void *dz, void *dx, void *scale,
                                                               void *activation, size_t *bytes) {
    int (*real)(void *, int, int, void *, void *, void *, void *, void *, void *, void *, size_t *) =
        cudnn_real("cudnnGetBatchNormalizationBackwardExWorkspaceSize");
    cudnn_was_asked_with(handle);
    return real(handle, mode, operation, x, y, dy, dz, dx, scale, activation, bytes);
}

EXPORTED int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int operation,
                                                                  void *activation, void *x, size_t *bytes) {
    int (*real)(void *, int, int, void *, void *, size_t *) =
        cudnn_real("cudnnGetBatchNormalizationTrainingExReserveSpaceSize");
    cudnn_was_asked_with(handle);
    return real(handle, mode, operation, activation, x, bytes);
}

EXPORTED int cudnnGetCTCLossWorkspaceSize(void *handle, void *probabilities, void *gradients, const int *labels,
                                          const int *label_lengths, const int *input_lengths, int algorithm,
                                          void *loss, size_t *bytes) {
    int (*real)(void *, void *, void *, const int *, const int *, const int *, int, void *, size_t *) =
        cudnn_real("cudnnGetCTCLossWorkspaceSize");
    cudnn_was_asked_with(handle);
    return real(handle, probabilities, gradients, labels, label_lengths, input_lengths, algorithm, loss, bytes);
}

EXPORTED int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, void *loss, void *probabilities,
                                             void *gradients, size_t *bytes) {
    int (*real)(void *, int, void *, void *, void *, size_t *) = cudnn_real("cudnnGetCTCLossWorkspaceSize_v8");
    cudnn_was_asked_with(handle);
    return real(handle, algorithm, loss, probabilities, gradients, bytes);
}
