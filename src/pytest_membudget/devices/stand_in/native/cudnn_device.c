/* The cards as they are described to cuDNN: one device-properties descriptor each.

   From 9.8 on cuDNN plans for a device described in JSON ("deviceless ahead-of-time compilation",
   docs.nvidia.com/deeplearning/cudnn). The JSON's names are those that cuDNN 9.26 gives for a real device
   (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

enum {
    DEVICEPROP_DESCRIPTOR = 38, /* cudnnBackendDescriptorType_t */
    JSON_REPRESENTATION = 2702, /* cudnnBackendAttributeName_t */
    TYPE_CHAR = 24,             /* cudnnBackendAttributeType_t */
};

enum { JSON_BYTES = 1024 };

/* What no field of `struct card` has is a limit of the CUDA C++ Programming Guide ("Technical Specifications
   per Compute Capability"), the same from 7.0 to 12.0, or a neutral value. The version of the driver is that
   of the oldest one for CUDA 13. The width of the memory's bus is wanted from 9.27 or 9.28 on. */
static bool describe(const struct card *card, char *json) {
    int length = snprintf(
        json, JSON_BYTES,
        "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
        "\"multiProcessorCount\":%d,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
        "\"maxSharedMemoryPerBlockOptin\":%zu,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":"
        "65536,"
        "\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,"
        "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,"
        "\"memoryBusWidth\":%d,\"l2CacheSize\":%zu,\"deviceName\":\"\",\"cudaDeviceId\":0,\"deviceVer\":%d,"
        "\"driverVer\":13000,\"totalGlobalMem\":%zu}",
        card->multiprocessors, card->shared_bytes_per_block_optin, card->blocks_per_multiprocessor,
        card->threads_per_multiprocessor, card->clock_khz, card->memory_clock_khz, card->memory_bus_bits,
        card->l2_bytes, card->major * 100 + card->minor * 10, card->total_bytes);
    return length > 0 && length < JSON_BYTES;
}

static void *create(const char *json) {
    int (*create_descriptor)(int, void **) = cudnn_real("cudnnBackendCreateDescriptor");
    int (*set)(void *, int, int, int64_t, const void *) = cudnn_real("cudnnBackendSetAttribute");
    int (*finalize)(void *) = cudnn_real("cudnnBackendFinalize");
    int (*destroy)(void *) = cudnn_real("cudnnBackendDestroyDescriptor");
    void *descriptor = NULL;
    if (create_descriptor(DEVICEPROP_DESCRIPTOR, &descriptor))
        return NULL;
    if (set(descriptor, JSON_REPRESENTATION, TYPE_CHAR, (int64_t)strlen(json), json) ||
        finalize(descriptor)) {
        destroy(descriptor);
        return NULL;
    }
    return descriptor;
}

/* Descriptors are made when first needed and never destroyed: plans refer to them. They are found by what
   they say, since a test may change the cards of a process. */
struct described {
    struct described *next;
    void *descriptor;
    char json[JSON_BYTES];
};

static pthread_mutex_t descriptions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct described *descriptions;

/* The lock is held. */
static void *find_or_create(const char *json) {
    for (struct described *known = descriptions; known; known = known->next)
        if (!strcmp(known->json, json))
            return known->descriptor;
    struct described *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    strcpy(made->json, json);
    made->descriptor = create(json);
    if (!made->descriptor) {
        free(made);
        return NULL;
    }
    made->next = descriptions;
    descriptions = made;
    return made->descriptor;
}

void *cudnn_device_properties(int device) {
    const struct card *card = card_at(device);
    char json[JSON_BYTES];
    if (!card || !describe(card, json))
        return NULL;
    pthread_mutex_lock(&descriptions_lock);
    void *descriptor = find_or_create(json);
    pthread_mutex_unlock(&descriptions_lock);
    return descriptor;
}
