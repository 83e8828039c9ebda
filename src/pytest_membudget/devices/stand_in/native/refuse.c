/* Functions of NVIDIA's libraries that nobody has modelled: they are called, recorded by name, and refuse.

   The libraries that take NVIDIA's places under torch (devices/stand_in/linked) are written from what torch
   links and what is installed; each of their functions calls stand_in_refuse. */
#define _GNU_SOURCE
#include "refuse.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "errors.h"
#include "stand_in.h"

/* "Not supported" as each library says it, by the beginnings of its name and of the function's: the first row
   that fits. cuRAND and the two that compile have no such status. */
static const struct {
    const char *library, *function;
    long status;
} refusals[] = {
    {"libcublas", "", CUBLAS_NOT_SUPPORTED},
    {"libcudnn", "", CUDNN_NOT_SUPPORTED},
    {"libcufft", "", CUFFT_NOT_SUPPORTED},
    {"libcufile", "cuFileRead",
     -CUFILE_PLATFORM_NOT_SUPPORTED}, /* bytes read or written, or an error below zero */
    {"libcufile", "cuFileWrite", -CUFILE_PLATFORM_NOT_SUPPORTED},
    {"libcufile", "", CUFILE_PLATFORM_NOT_SUPPORTED}, /* the upper half is CUDA_SUCCESS */
    {"libcupti", "", CUPTI_NOT_SUPPORTED},
    {"libcurand", "", CURAND_INTERNAL_ERROR},
    {"libcusolver", "", CUSOLVER_NOT_SUPPORTED},
    {"libcusparse", "", CUSPARSE_NOT_SUPPORTED},
    {"libnccl", "", NCCL_INVALID_USAGE},
    {"libnvidia-ml", "", NVML_NOT_SUPPORTED},
    {"libnvrtc", "", NVRTC_INTERNAL_ERROR},
    {"libnvJitLink", "", NVJITLINK_INTERNAL_ERROR},
    {"libnvshmem", "nvshmem_malloc", 0}, /* a pointer */
    {"libnvshmem", "nvshmem_calloc", 0},
    {"libnvshmem", "nvshmem_align", 0},
    {"libnvshmem", "nvshmem_ptr", 0},
    {"libnvshmem", "nvshmemx_mc_ptr", 0},
    {"libnvshmem", "nvshmemid_init_status", 0}, /* NVSHMEM_STATUS_NOT_INITIALIZED */
    {"libnvshmem", "", NVSHMEM_NOT_SUPPORTED},
};

static int begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

EXPORTED long stand_in_refuse(const char *library, const char *function) {
    if (!begins(library, "libcupti")) /* a profile has no memory that a report would miss */
        not_modelled(function);
    for (unsigned index = 0; index < sizeof refusals / sizeof *refusals; index++)
        if (begins(library, refusals[index].library) && begins(function, refusals[index].function))
            return refusals[index].status;
    return runtime_result(NOT_SUPPORTED); /* the runtime's, and the driver's */
}

/* dlsym also searches what a library needs: the mark must be its own. */
int is_written_library(void *library) {
    void *mark = dlsym(library, "stand_in_linked");
    struct link_map *map;
    Dl_info info;
    return mark && !dlinfo(library, RTLD_DI_LINKMAP, &map) && dladdr(mark, &info) &&
           !strcmp(info.dli_fname, map->l_name);
}
