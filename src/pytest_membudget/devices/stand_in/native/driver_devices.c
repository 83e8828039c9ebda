/* The driver's questions about devices. Source of prototypes: CUDA Driver API 13.2, "Device Management". */
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "properties.h"

EXPORTED int cuDeviceGetCount(int *count)
{
    *count = card_count();
    return SUCCESS;
}

EXPORTED int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return card_at(ordinal) ? SUCCESS : INVALID_DEVICE;
}

EXPORTED int cuDeviceGetName(char *name, int length, int device)
{
    if (!card_at(device) || length <= 0)
        return INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", card_at(device)->name);
    return SUCCESS;
}

EXPORTED int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    if (!card_at(device))
        return INVALID_DEVICE;
    *bytes = card_at(device)->total_bytes;
    return SUCCESS;
}

EXPORTED int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    device_uuid(uuid, device);
    return card_at(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORTED int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

EXPORTED int cuDeviceGetPCIBusId(char *text, int length, int device)
{
    bus_id(text, length, device);
    return card_at(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORTED int cuDeviceComputeCapability(int *major, int *minor, int device)
{
    if (!card_at(device))
        return INVALID_DEVICE;
    *major = card_at(device)->major;
    *minor = card_at(device)->minor;
    return SUCCESS;
}

EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (!card_at(device))
        return INVALID_DEVICE;
    *value = device_attribute(card_at(device), device, attribute);
    return SUCCESS;
}

EXPORTED int cuCtxGetLimit(size_t *value, int limit)
{
    *value = limit == 0 ? 1024 : limit == 1 ? 1048576 : limit == 2 ? 8388608 : 0; /* as cudaDeviceGetLimit */
    return SUCCESS;
}

EXPORTED int cuCtxSetLimit(int limit, size_t value)
{
    return SUCCESS;
}
