/* The cards as cuDNN is told of them: one device-properties descriptor each.

   From 9.8 on cuDNN plans for a device described in JSON ("deviceless ahead-of-time compilation",
   docs.nvidia.com/deeplearning/cudnn). The JSON's names are those that cuDNN 9.26 gives for a real device
   (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); virtual/cudnn_workspaces.py describes cards the same way. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

enum {
    DEVICEPROP_DESCRIPTOR = 38,     /* cudnnBackendDescriptorType_t */
    JSON_REPRESENTATION = 2702,     /* cudnnBackendAttributeName_t */
    TYPE_CHAR = 24,                 /* cudnnBackendAttributeType_t */
};

/* What no field of `struct card` has is a limit of the CUDA C++ Programming Guide ("Technical Specifications
   per Compute Capability"), the same from 7.0 to 12.0, or a neutral value. The version of the driver is that of
   the oldest one for CUDA 13. */
static int describe(const struct card *card, char *json, size_t size) {
    return snprintf(
        json, size,
        "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
        "\"multiProcessorCount\":%d,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
        "\"maxSharedMemoryPerBlockOptin\":%zu,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
        "\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,"
        "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,"
        "\"l2CacheSize\":%zu,\"deviceName\":\"\",\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,"
        "\"totalGlobalMem\":%zu}",
        card->multiprocessors, card->shared_bytes_per_block_optin, card->blocks_per_multiprocessor,
        card->threads_per_multiprocessor, card->clock_khz, card->memory_clock_khz, card->l2_bytes,
        card->major * 100 + card->minor * 10, card->total_bytes);
}

static void *create(const struct card *card) {
    int (*create_descriptor)(int, void **) = cudnn_real("cudnnBackendCreateDescriptor");
    int (*set)(void *, int, int, int64_t, const void *) = cudnn_real("cudnnBackendSetAttribute");
    int (*finalize)(void *) = cudnn_real("cudnnBackendFinalize");
    int (*destroy)(void *) = cudnn_real("cudnnBackendDestroyDescriptor");
    char json[2048];
    describe(card, json, sizeof json);
    void *descriptor = NULL;
    if (create_descriptor(DEVICEPROP_DESCRIPTOR, &descriptor)) return NULL;
    if (set(descriptor, JSON_REPRESENTATION, TYPE_CHAR, (int64_t)strlen(json), json) || finalize(descriptor)) {
        destroy(descriptor);
        return NULL;
    }
    return descriptor;
}

void *cudnn_device_properties(int device) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void **descriptors; /* one a card, made when first needed, never destroyed */
    const struct card *card = card_at(device);
    if (!card) return NULL;
    pthread_mutex_lock(&lock);
    if (!descriptors) descriptors = calloc((size_t)card_count(), sizeof *descriptors);
    void *descriptor = NULL;
    if (descriptors) {
        if (!descriptors[device]) descriptors[device] = create(card);
        descriptor = descriptors[device];
    }
    pthread_mutex_unlock(&lock);
    return descriptor;
}
