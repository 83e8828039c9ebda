/* Contexts: each card has its primary one, which is active once a thread has used the card.

   Source: CUDA Driver API 13.2, "Primary Context Management" and "Context Management". */
#include "contexts.h"

#include <stddef.h>
#include <string.h>

#include "errors.h"
#include "tables.h"

#define MOST_DEPTH 64

static struct context {
    int active;
} contexts[MOST_CARDS];

/* The thread's stack of contexts. The runtime changes its top. */
static __thread void *stack[MOST_DEPTH];
static __thread int depth;
static __thread int device;

void *primary_context(int of) {
    if (!card_at(of))
        return NULL;
    __atomic_store_n(&contexts[of].active, 1, __ATOMIC_RELAXED);
    return &contexts[of];
}

int device_of_context(const void *context) {
    ptrdiff_t index = (const struct context *)context - contexts;
    return index >= 0 && index < card_count() && context == &contexts[index] ? (int)index : -1;
}

static void make_current(void *context) {
    if (!depth)
        depth = 1;
    stack[depth - 1] = context;
    if (context)
        device = device_of_context(context);
}

void use_runtime(void) {
    if (!depth || !stack[depth - 1])
        make_current(primary_context(device));
}

int current_device(void) { return device; }

EXPORTED int cudaGetDeviceCount(int *count) {
    *count = card_count();
    return runtime_result(*count ? SUCCESS : NO_DEVICE);
}

EXPORTED int cudaGetDevice(int *found) {
    *found = device;
    return runtime_result(card_count() ? SUCCESS : NO_DEVICE);
}

EXPORTED int cudaSetDevice(int to) {
    if (!card_at(to))
        return runtime_result(INVALID_DEVICE);
    make_current(primary_context(to)); /* active at once since CUDA 12.0 */
    return SUCCESS;
}

EXPORTED int cudaInitDevice(int of, unsigned device_flags, unsigned flags) {
    return runtime_result(primary_context(of) ? SUCCESS : INVALID_DEVICE);
}

SUCCEEDS(cudaSetDeviceFlags)

EXPORTED int cudaGetDeviceFlags(unsigned *flags) {
    *flags = 8; /* cudaDeviceMapHost, which the runtime always sets */
    return SUCCESS;
}

EXPORTED int cuInit(unsigned flags) { return card_count() ? SUCCESS : NO_DEVICE; }

EXPORTED int cuDevicePrimaryCtxRetain(void **context, int of) {
    *context = primary_context(of);
    return *context ? SUCCESS : INVALID_DEVICE;
}

EXPORTED int cuDevicePrimaryCtxRelease_v2(int of) { return card_at(of) ? SUCCESS : INVALID_DEVICE; }
ALIAS(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxRelease_v2)

EXPORTED int cuDevicePrimaryCtxGetState(int of, unsigned *flags, int *active) {
    if (!card_at(of))
        return INVALID_DEVICE;
    *flags = 0;
    *active = contexts[of].active;
    return SUCCESS;
}

EXPORTED int cuCtxGetCurrent(void **context) {
    *context = depth ? stack[depth - 1] : NULL;
    /* A thread of autograd that has only launched through libraries: PyTorch would warn that cuBLAS has
       no context, which on a card it has, from the library's own use of the runtime. */
    if (!*context && card_count() && contexts[device].active)
        *context = &contexts[device];
    return SUCCESS;
}

EXPORTED int cuCtxSetCurrent(void *context) {
    if (context && device_of_context(context) < 0)
        return INVALID_CONTEXT;
    make_current(context);
    return SUCCESS;
}

EXPORTED int cuCtxPushCurrent_v2(void *context) {
    if (device_of_context(context) < 0)
        return INVALID_CONTEXT;
    if (depth == MOST_DEPTH)
        return INVALID_VALUE;
    stack[depth++] = context;
    device = device_of_context(context);
    return SUCCESS;
}

EXPORTED int cuCtxPopCurrent_v2(void **context) {
    if (!depth)
        return INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    if (depth && stack[depth - 1])
        device = device_of_context(stack[depth - 1]);
    return SUCCESS;
}

EXPORTED int cuCtxGetDevice(int *found) {
    *found = device;
    return SUCCESS;
}

EXPORTED int cuCtxGetApiVersion(void *context, unsigned *version) {
    *version = 3020; /* the API of contexts, the same since CUDA 3.2 */
    return SUCCESS;
}

EXPORTED int cuCtxGetFlags(unsigned *flags) {
    *flags = 0;
    return SUCCESS;
}

EXPORTED int cuCtxGetId(void *context, unsigned long long *id) {
    int of = context ? device_of_context(context) : device;
    *id = (unsigned long long)of + 1;
    return of < 0 ? INVALID_CONTEXT : SUCCESS;
}
