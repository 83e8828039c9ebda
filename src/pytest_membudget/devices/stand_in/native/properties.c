/* The properties of a card: attributes by number, and the runtime's structure of them.

   Source: CUDA Runtime API 12.6, 12.9 and 13.2, cudaDeviceAttr and cudaDeviceProp (whose offsets were read by
   offsetof from the headers of these versions; 12.6 and 12.9 have the same). What is the same for all cards
   is so in the table "Technical Specifications per Compute Capability", CUDA C++ Programming Guide 13. */
#include "properties.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "tables.h"

/* Attributes that are the same on all cards since compute capability 7.0: threads of a block and by its
   dimensions (1 to 4), blocks of a grid (5 to 7), shared and constant memory, threads of a warp, pitch,
   registers of a block and texture alignment (8 to 14), overlap, mapped host memory, surfaces, concurrent
   kernels, copy engines, unified addressing and texture pitch (15 to 51), priorities, L1, registers of a
   multiprocessor, managed memory and access to it, preemption and cooperative launch (78 to 99), virtual
   memory management and handles of it, for the driver (102, 103), memory pools and their handles, events
   between processes (115 to 125). Not there, or not in use: a time limit of kernels, memory of the host's own
   and a mode of computing (17 to 20), PCI's device and domain, Windows' drivers (34, 35, 50, 104, 105), boards
   of several (84, 85), the host's page tables (88, 100, 101), GPUDirect (110, 116 to 118). */
static const struct {
    short attribute;
    int value;
} constants[] = {
    {1, 1024},  {2, 1024},  {3, 1024},   {4, 64},          {5, 2147483647}, {6, 65535}, {7, 65535},
    {8, 49152}, {9, 65536}, {10, 32},    {11, 2147483647}, {12, 65536},     {14, 512},  {15, 1},
    {19, 1},    {30, 512},  {31, 1},     {40, 3},          {41, 1},         {51, 32},   {78, 1},
    {79, 1},    {80, 1},    {82, 65536}, {83, 1},          {89, 1},         {90, 1},    {91, 1},
    {95, 1},    {99, 1},    {102, 1},    {103, 1},         {115, 1},        {119, 1},   {125, 1},
    {17, 0},    {18, 0},    {20, 0},     {34, 0},          {35, 0},         {50, 0},    {84, 0},
    {85, 0},    {88, 0},    {100, 0},    {101, 0},         {104, 0},        {105, 0},   {110, 0},
    {116, 0},   {117, 0},   {118, 0},
};

static int constant(int attribute) {
    for (unsigned index = 0; index < sizeof constants / sizeof *constants; index++)
        if (constants[index].attribute == attribute)
            return constants[index].value;
    char name[64];
    snprintf(name, sizeof name, "cudaDeviceGetAttribute of attribute %d", attribute);
    not_modelled(name);
    return 0;
}

/* How much faster single precision is than double. */
static int singles_for_a_double(const struct card *card) {
    if (card->major == 7 && card->minor == 5)
        return 32;
    return (card->major == 8 && card->minor > 0) || card->major == 12 ? 64 : 2;
}

int device_attribute(const struct card *card, int device, int attribute) {
    switch (attribute) {
    case 13: return card->clock_khz;
    case 16: return card->multiprocessors;
    case 33: return device + 1; /* PCI bus */
    case 36: return card->memory_clock_khz;
    case 37: return card->memory_bus_bits;
    case 38: return (int)card->l2_bytes;
    case 39: return card->threads_per_multiprocessor;
    case 75: return card->major;
    case 76: return card->minor;
    case 81: return (int)card->shared_bytes_per_multiprocessor;
    case 87: return singles_for_a_double(card);
    case 97: return (int)card->shared_bytes_per_block_optin;
    case 106: return card->blocks_per_multiprocessor;
    case 111: return card->major >= 8 ? 1024 : 0; /* of a block's shared memory, for the system */
    case 120: return card->major >= 9;            /* clusters */
    case 132:
        return card->major >= 9 && card->peers == 1; /* multicast, NVSwitch's since the third generation */
    default: return constant(attribute);
    }
}

void bus_id(char *text, int length, int device) {
    if (length > 0)
        snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned)(device + 1) & 0xff);
}

void device_uuid(unsigned char *uuid, int device) {
    memset(uuid, 0x5d, 16);
    uuid[15] = (unsigned char)device;
}

/* Where an attribute lies in cudaDeviceProp: in CUDA 13, in CUDA 12 (0: not there), and how wide it is. */
static const struct {
    short attribute, at_13, at_12, bytes;
} places[] = {
    {8, 296, 296, 8},   {12, 304, 304, 4},  {10, 308, 308, 4}, {11, 312, 312, 8},  {1, 320, 320, 4},
    {2, 324, 324, 4},   {3, 328, 328, 4},   {4, 332, 332, 4},  {5, 336, 336, 4},   {6, 340, 340, 4},
    {7, 344, 344, 4},   {13, 0, 348, 4},    {9, 352, 352, 8},  {75, 360, 360, 4},  {76, 364, 364, 4},
    {14, 368, 368, 8},  {51, 376, 376, 8},  {15, 0, 384, 4},   {16, 384, 388, 4},  {19, 392, 400, 4},
    {31, 560, 576, 4},  {33, 568, 584, 4},  {40, 584, 600, 4}, {41, 588, 604, 4},  {36, 0, 608, 4},
    {37, 592, 612, 4},  {38, 596, 616, 4},  {39, 604, 624, 4}, {78, 608, 628, 4},  {79, 612, 632, 4},
    {80, 616, 636, 4},  {81, 624, 640, 8},  {82, 632, 648, 4}, {83, 636, 652, 4},  {87, 0, 668, 4},
    {89, 656, 676, 4},  {90, 660, 680, 4},  {91, 664, 684, 4}, {95, 668, 688, 4},  {97, 672, 696, 8},
    {106, 688, 712, 4}, {111, 696, 720, 8}, {99, 704, 728, 4}, {115, 720, 744, 4}, {119, 736, 760, 4},
    {125, 744, 768, 4}, {120, 748, 772, 4},
};

enum { SIZE_13 = 1008, SIZE_12 = 1032, UUID_AT = 256, TOTAL_AT = 288 };

static int write_properties(char *properties, int device, int version) {
    const struct card *card = card_at(device);
    uint64_t total = card ? card->total_bytes : 0;
    if (!card)
        return INVALID_DEVICE;
    memset(properties, 0, version >= 13000 ? SIZE_13 : SIZE_12);
    memcpy(properties, card->name, sizeof card->name);
    device_uuid((unsigned char *)properties + UUID_AT, device);
    memcpy(properties + TOTAL_AT, &total, sizeof total);
    for (unsigned index = 0; index < sizeof places / sizeof *places; index++) {
        int at = version >= 13000 ? places[index].at_13 : places[index].at_12;
        int value = device_attribute(card, device, places[index].attribute);
        if (at) /* little-endian: the upper half of a wide field stays zero */
            memcpy(properties + at, &value, sizeof value);
    }
    return SUCCESS;
}

/* CUDA 13's name; CUDA 12's headers mean the next by it. */
EXPORTED int cudaGetDeviceProperties(void *properties, int device) {
    return runtime_result(write_properties(properties, device, cuda_version()));
}

EXPORTED int cudaGetDeviceProperties_v2(void *properties, int device) {
    return runtime_result(write_properties(properties, device, 12000));
}

EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (!card_at(device))
        return INVALID_DEVICE;
    *value = device_attribute(card_at(device), device, attribute);
    return SUCCESS;
}
RUNTIME(cudaDeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, int device), value,
        attribute, device)

EXPORTED int cuDeviceGetPCIBusId(char *text, int length, int device) {
    bus_id(text, length, device);
    return card_at(device) ? SUCCESS : INVALID_DEVICE;
}
RUNTIME(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *text, int length, int device), text, length,
        device)

/* cudaLimit: stack of a thread, printf's buffer, malloc's heap; the documented defaults. */
EXPORTED int cudaDeviceGetLimit(size_t *value, int limit) {
    *value = limit == 0 ? 1024 : limit == 1 ? 1048576 : limit == 2 ? 8388608 : 0;
    return SUCCESS;
}
ALIAS(cuCtxGetLimit, cudaDeviceGetLimit)
EACH(SUCCEEDS, cudaDeviceSetLimit, cuCtxSetLimit)
