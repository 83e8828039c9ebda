/* The driver's questions about devices. Source of prototypes: CUDA Driver API 13.2, "Device Management". */
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "properties.h"
#include "tables.h"

EXPORTED int cuDeviceGetCount(int *count) {
    *count = card_count();
    return SUCCESS;
}

EXPORTED int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return card_at(ordinal) ? SUCCESS : INVALID_DEVICE;
}

EXPORTED int cuDeviceGetName(char *name, int length, int device) {
    if (!card_at(device) || length <= 0)
        return INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", card_at(device)->name);
    return SUCCESS;
}

EXPORTED int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (!card_at(device))
        return INVALID_DEVICE;
    *bytes = card_at(device)->total_bytes;
    return SUCCESS;
}

EXPORTED int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    device_uuid(uuid, device);
    return card_at(device) ? SUCCESS : INVALID_DEVICE;
}
ALIAS(cuDeviceGetUuid, cuDeviceGetUuid_v2)

EXPORTED int cuDeviceComputeCapability(int *major, int *minor, int device) {
    if (!card_at(device))
        return INVALID_DEVICE;
    *major = card_at(device)->major;
    *minor = card_at(device)->minor;
    return SUCCESS;
}
