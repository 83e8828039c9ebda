/* Functions of NVIDIA's libraries that nobody has modelled: they are called, noted by name, and refuse.

   The libraries that take NVIDIA's places under torch (devices/stand_in/linked) are written from what torch
   links and what is installed; each of their functions calls stand_in_refuse. */
#define _GNU_SOURCE
#include "refuse.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "errors.h"
#include "stand_in.h"

enum { NOT_SUPPORTED = 801 }; /* cudaError and CUresult */

/* "Not supported" as each library says it, by the beginnings of its name and of the function's: the first row
   that fits. cublasStatus_t, cudnnStatus_t, cufftResult, CUfileOpError, CUptiResult, curandStatus_t,
   cusolverStatus_t, cusparseStatus_t, ncclResult_t, nvmlReturn_t, nvrtcResult, nvJitLinkResult,
   nvshmemx_status: CUDA 12.6 to 13.2, cuDNN 9.26, NVML 580, NCCL 2.30.7, NVSHMEM 3.4. cuRAND and the two that
   compile have no such status: theirs is an internal error. */
static const struct {
    const char *library, *function;
    long status;
} refusals[] = {
    {"libcublas", "", 15},
    {"libcudnn", "", 3000},
    {"libcufft", "", 16},
    {"libcufile", "cuFileRead", -5007}, /* bytes read or written, or an error below zero */
    {"libcufile", "cuFileWrite", -5007},
    {"libcufile", "", 5007}, /* the upper half is CUDA_SUCCESS */
    {"libcupti", "", 27},
    {"libcurand", "", 999},
    {"libcusolver", "", 9},
    {"libcusparse", "", 10},
    {"libnccl", "", 5},
    {"libnvidia-ml", "", 3},
    {"libnvrtc", "", 11},
    {"libnvJitLink", "", 6},
    {"libnvshmem", "nvshmem_malloc", 0}, /* a pointer */
    {"libnvshmem", "nvshmem_calloc", 0},
    {"libnvshmem", "nvshmem_align", 0},
    {"libnvshmem", "nvshmem_ptr", 0},
    {"libnvshmem", "nvshmemx_mc_ptr", 0},
    {"libnvshmem", "nvshmemid_init_status", 0}, /* NVSHMEM_STATUS_NOT_INITIALIZED */
    {"libnvshmem", "", 3},
};

static int begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

EXPORTED long stand_in_refuse(const char *library, const char *function) {
    note_refused(function);
    for (unsigned index = 0; index < sizeof refusals / sizeof *refusals; index++)
        if (begins(library, refusals[index].library) && begins(function, refusals[index].function))
            return refusals[index].status;
    return begins(library, "libcudart") ? runtime_result(NOT_SUPPORTED) : NOT_SUPPORTED;
}

/* dlsym also searches what a library needs: the mark must be its own. */
int is_written_library(void *library) {
    void *mark = dlsym(library, "stand_in_linked");
    struct link_map *map;
    Dl_info info;
    return mark && !dlinfo(library, RTLD_DI_LINKMAP, &map) && dladdr(mark, &info) &&
           !strcmp(info.dli_fname, map->l_name);
}
