/* cuDNN's older API, as libtorch and others still call it: batch norm, dropout, CTC loss, pooling, spatial
   transformer, softmax and the rest.

   Descriptors need no handle and are the real library's. Sizes are the real library's too: it computes them
   from the descriptors and the card (cudnn_description.c).

   Prototypes: cudnn_ops.h, cudnn_adv.h and cudnn_cnn.h of cuDNN 9.26. */
#include "cudnn.h"
#include "refuse.h"

EACH(SUCCEEDS, cudnnActivationBackward, cudnnActivationForward, cudnnAddTensor,
     cudnnBatchNormalizationBackward, cudnnBatchNormalizationBackwardEx,
     cudnnBatchNormalizationForwardInference, cudnnBatchNormalizationForwardTraining,
     cudnnBatchNormalizationForwardTrainingEx, cudnnCTCLoss, cudnnCTCLoss_v8, cudnnConvolutionBackwardBias,
     cudnnConvolutionBackwardData, cudnnConvolutionBackwardFilter, cudnnConvolutionBiasActivationForward,
     cudnnConvolutionForward, cudnnDivisiveNormalizationBackward, cudnnDivisiveNormalizationForward,
     cudnnDropoutBackward, cudnnDropoutForward, cudnnIm2Col, cudnnLRNCrossChannelBackward,
     cudnnLRNCrossChannelForward, cudnnMultiHeadAttnBackwardData, cudnnMultiHeadAttnBackwardWeights,
     cudnnMultiHeadAttnForward, cudnnNormalizationBackward, cudnnNormalizationForwardInference,
     cudnnNormalizationForwardTraining, cudnnOpTensor, cudnnPoolingBackward, cudnnPoolingForward,
     cudnnRNNBackwardData_v8, cudnnRNNBackwardWeights_v8, cudnnRNNForward, cudnnReduceTensor,
     cudnnReorderFilterAndBias, cudnnScaleTensor, cudnnSetTensor, cudnnSoftmaxBackward, cudnnSoftmaxForward,
     cudnnSpatialTfGridGeneratorBackward, cudnnSpatialTfGridGeneratorForward, cudnnSpatialTfSamplerBackward,
     cudnnSpatialTfSamplerForward, cudnnTransformFilter, cudnnTransformTensor, cudnnTransformTensorEx)

/* Sizes and choices that nobody has looked at. PyTorch asks for a convolution's algorithm here only under
   TORCH_CUDNN_V8_API_DISABLED=1 (aten/src/ATen/native/cudnn/Conv_v7.cpp). */
#define CUDNN_REFUSED(name) REFUSED("libcudnn", name)
EACH(CUDNN_REFUSED, cudnnBuildRNNDynamic, cudnnFindConvolutionBackwardDataAlgorithm,
     cudnnFindConvolutionBackwardDataAlgorithmEx, cudnnFindConvolutionBackwardFilterAlgorithm,
     cudnnFindConvolutionBackwardFilterAlgorithmEx, cudnnFindConvolutionForwardAlgorithm,
     cudnnFindConvolutionForwardAlgorithmEx, cudnnFusedOpsExecute, cudnnMakeFusedOpsPlan,
     cudnnGetExecutionPlanWorkspaceSize, cudnnGetConvolutionBackwardDataAlgorithmMaxCount,
     cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnGetConvolutionBackwardDataWorkspaceSize,
     cudnnGetConvolutionBackwardFilterAlgorithmMaxCount, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
     cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnGetConvolutionForwardAlgorithmMaxCount,
     cudnnGetConvolutionForwardAlgorithm_v7, cudnnGetConvolutionForwardWorkspaceSize,
     cudnnGetFoldedConvBackwardDataDescriptors, cudnnGetMultiHeadAttnBuffers, cudnnGetMultiHeadAttnWeights,
     cudnnGetNormalizationBackwardWorkspaceSize, cudnnGetNormalizationForwardTrainingWorkspaceSize,
     cudnnGetNormalizationTrainingReserveSpaceSize, cudnnGetRNNDropoutLocationsInternal,
     cudnnGetReductionIndicesSize, cudnnGetReductionWorkspaceSize)

CUDNN_SIZE(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, 9)
CUDNN_SIZE(cudnnGetBatchNormalizationBackwardExWorkspaceSize, 11)
CUDNN_SIZE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, 6)
CUDNN_SIZE(cudnnGetCTCLossWorkspaceSize, 9)
CUDNN_SIZE(cudnnGetCTCLossWorkspaceSize_v8, 6)
