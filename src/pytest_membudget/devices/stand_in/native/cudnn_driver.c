/* The oldest forms of driver functions, which a real libcuda exports too (CUDA Driver API 13.2).

   cuDNN's engines that compile at run time look some of them up before they plan ("undefined symbol:
   cuLinkAddData", "cuCtxPushCurrent": 9.26); without them there is no plan of theirs, attention's on Hopper
   among them. Planning calls none. */
#include "libraries.h"

enum { CUDA_ERROR_NOT_SUPPORTED = 801 }; /* CUresult */

#define OLD(name) REFUSED(name, CUDA_ERROR_NOT_SUPPORTED)

/* clang-format off */
OLD(cuArray3DCreate) OLD(cuArray3DGetDescriptor) OLD(cuArrayCreate) OLD(cuArrayGetDescriptor)
OLD(cuCtxCreate) OLD(cuCtxPopCurrent) OLD(cuCtxPushCurrent) OLD(cuDevicePrimaryCtxRelease)
OLD(cuDevicePrimaryCtxReset) OLD(cuDevicePrimaryCtxSetFlags) OLD(cuDeviceTotalMem) OLD(cuEventDestroy)
OLD(cuGraphAddDependencies) OLD(cuGraphAddKernelNode) OLD(cuGraphAddNode)
OLD(cuGraphExecKernelNodeSetParams) OLD(cuGraphExecUpdate) OLD(cuGraphGetEdges)
OLD(cuGraphKernelNodeGetParams) OLD(cuGraphKernelNodeSetParams) OLD(cuGraphNodeGetDependencies)
OLD(cuGraphNodeGetDependentNodes) OLD(cuGraphRemoveDependencies) OLD(cuGraphicsResourceGetMappedPointer)
OLD(cuGraphicsResourceSetMapFlags) OLD(cuIpcOpenMemHandle) OLD(cuLinkAddData) OLD(cuLinkAddFile)
OLD(cuLinkCreate) OLD(cuMemAdvise) OLD(cuMemAlloc) OLD(cuMemAllocPitch) OLD(cuMemFree)
OLD(cuMemGetAddressRange) OLD(cuMemGetInfo) OLD(cuMemHostGetDevicePointer) OLD(cuMemHostRegister)
OLD(cuMemPrefetchAsync) OLD(cuMemcpy2DAsync) OLD(cuMemcpy3DAsync) OLD(cuMemcpy3DBatchAsync)
OLD(cuMemcpyBatchAsync) OLD(cuMemcpyDtoDAsync) OLD(cuMemcpyDtoHAsync) OLD(cuMemcpyHtoDAsync)
OLD(cuModuleGetGlobal) OLD(cuStreamBatchMemOp) OLD(cuStreamBeginCapture) OLD(cuStreamDestroy)
OLD(cuStreamGetCaptureInfo) OLD(cuStreamUpdateCaptureDependencies) OLD(cuStreamWaitValue32)
OLD(cuStreamWaitValue64) OLD(cuStreamWriteValue32) OLD(cuStreamWriteValue64)
