/* NVML as far as PyTorch asks: devices, names and memory.

   Source of prototypes, offsets and constants: NVML API Reference Guide, release 580. What is not here
   refuses: torch.cuda's utilisation, temperature and clocks (refuse.c). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "memory.h"
#include "peers.h"
#include "properties.h"
#include "tables.h"

struct pci_info {
    char short_text[16];
    unsigned domain, bus, device, kind, subsystem;
    char text[32];
};

static int device_of(const void *handle) { return (int)(uintptr_t)handle - 1; }

EACH(SUCCEEDS, nvmlInit, nvmlInit_v2, nvmlInitWithFlags, nvmlShutdown)

EXPORTED const char *nvmlErrorString(int error) {
    return error == SUCCESS ? "Success" : error == NVML_NOT_ON_THIS_CARD ? "Not Supported" : "Unknown Error";
}

EXPORTED int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)card_count();
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)((uintptr_t)index + 1);
    return card_at((int)index) ? SUCCESS : NVML_INVALID_ARGUMENT;
}

EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **handle) {
    char own[32];
    for (int device = 0; device < card_count(); device++) {
        bus_id(own, sizeof own, device);
        if (strstr(text, own + 5)) /* without the domain, which NVML writes with eight digits */
            return nvmlDeviceGetHandleByIndex_v2((unsigned)device, handle);
    }
    return NVML_NOT_FOUND;
}

/* nvmlPciInfo_t; FBGEMM links it. */
EXPORTED int nvmlDeviceGetPciInfo_v3(void *handle, struct pci_info *info) {
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    *info = (struct pci_info){0};
    bus_id(info->short_text, sizeof info->short_text, device_of(handle));
    sscanf(info->short_text, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->text, sizeof info->text, "0000%s", info->short_text);
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetIndex(void *handle, unsigned *index) {
    *index = (unsigned)device_of(handle);
    return card_at(device_of(handle)) ? SUCCESS : NVML_INVALID_ARGUMENT;
}

EXPORTED int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    snprintf(name, length, "%s", card_at(device_of(handle))->name);
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    unsigned char u[16];
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    device_uuid(u, device_of(handle));
    snprintf(text, length, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
             u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetHandleByUUID(const char *text, void **handle) {
    char own[64];
    for (unsigned index = 0; !nvmlDeviceGetHandleByIndex_v2(index, handle); index++)
        if (!nvmlDeviceGetUUID(*handle, own, sizeof own) && !strcmp(own, text))
            return SUCCESS;
    return NVML_NOT_FOUND;
}

EXPORTED int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long info[3]) {
    size_t free_bytes, total_bytes;
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    memory_info(device_of(handle), &free_bytes, &total_bytes);
    info[0] = total_bytes;
    info[1] = free_bytes;
    info[2] = total_bytes - free_bytes;
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    const struct card *card = card_at(device_of(handle));
    if (!card)
        return NVML_INVALID_ARGUMENT;
    *major = card->major;
    *minor = card->minor;
    return SUCCESS;
}

/* This process, as PyTorch's out-of-memory message shows it (reportProcessMemoryInfo,
   CUDACachingAllocator.cpp): its number at byte 0 and what it has in use at byte 8 of nvmlProcessInfo_v1_t
   and of its later forms. */
EXPORTED int nvmlDeviceGetComputeRunningProcesses(const void *handle, unsigned *count, void *infos) {
    size_t free_bytes, total_bytes;
    unsigned room = *count, process = (unsigned)getpid();
    unsigned long long used;
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    *count = 1;
    if (!room)
        return NVML_INSUFFICIENT_SIZE;
    memory_info(device_of(handle), &free_bytes, &total_bytes);
    used = total_bytes - free_bytes;
    memcpy(infos, &process, sizeof process);
    memcpy((char *)infos + 8, &used, sizeof used);
    return SUCCESS;
}
ALIAS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses)

/* nvmlGpuP2PStatus_t */
EXPORTED int nvmlDeviceGetP2PStatus(void *handle, void *other, int index, int *status) {
    enum { OK, GPU_NOT_SUPPORTED = 2 };
    if (!card_at(device_of(handle)) || !card_at(device_of(other)))
        return NVML_INVALID_ARGUMENT;
    *status = reaches(device_of(handle), device_of(other)) ? OK : GPU_NOT_SUPPORTED;
    return SUCCESS;
}

/* Cards on NVSwitch have 12 links to it of the third generation (A100), 18 of the later ones (nvidia.com,
   "NVLink and NVLink Switch"); what other cards have depends on the machine, as what they reach does. */
static int links_of(const void *handle) {
    const struct card *card = card_at(device_of(handle));
    return !card || card->peers != 1 ? 0 : card->major == 8 ? 12 : 18;
}

/* One answer for all links: a value of an enumeration. */
static int of_link(const void *handle, unsigned link, int *answer, int value) {
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    if (link >= (unsigned)links_of(handle))
        return NVML_NOT_ON_THIS_CARD;
    *answer = value;
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetNvLinkState(void *handle, unsigned link, int *active) {
    return of_link(handle, link, active, 1);
}

EXPORTED int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, int *type) {
    return of_link(handle, link, type, 2); /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
}

/* nvmlGpuFabricInfoV_t: its state at byte 28, of which 0 says that the card is in no fabric, as A100s and
   H100s are without IMEX. PyTorch until 2.13 takes any other answer than success for an error, wherever a
   segment is expandable (get_fabric_access in c10/cuda/PeerToPeerAccess.cpp; pytorch#186375 makes a warning of
   it, for Jetson Orin), and on cards before Hopper such segments work (noonghunna/club-3090#449). */
EXPORTED int nvmlDeviceGetGpuFabricInfoV(void *handle, char *info) {
    if (!card_at(device_of(handle)))
        return NVML_INVALID_ARGUMENT;
    info[28] = 0;
    return SUCCESS;
}

EXPORTED int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = cuda_version();
    return SUCCESS;
}
