/* cuDNN's graph (backend) API: convolutions, attention and norms, planned by the real library.

   The real library finalizes a heuristics or plan descriptor for a handle, which needs the driver, or for a
   device-properties descriptor, which does not (since 9.8). So attributes that are handles are left out, and
   the current card's description is put in before such a descriptor is finalized. Descriptors, attributes and
   everything else are the real library's; executing a plan does nothing, and one whose kernels would have to
   be compiled waits with that (cudnn_waiting_plans.c).

   Constants and prototypes: cudnn_graph.h of cuDNN 9.26. */
#include <pthread.h>
#include <stdlib.h>

#include "cudnn.h"
#include "refuse.h"

enum { TYPE_HANDLE = 0, TYPE_BACKEND_DESCRIPTOR = 15 }; /* cudnnBackendAttributeType_t */

/* cudnnBackendDescriptorType_t */
enum { ENGINE_DESCRIPTOR = 2, ENGINEHEUR_DESCRIPTOR = 4, EXECUTION_PLAN_DESCRIPTOR = 5 };
enum { OPERATION_CONVOLUTION_FORWARD = 10, OPERATION_CONVOLUTION_BACKWARD_DATA = 12, OPERATIONGRAPH = 15 };

/* cudnnBackendAttributeName_t: the device of each of them */
enum { ENGINEHEUR_DEVICEPROP = 204, EXECUTION_PLAN_DEVICEPROP = 407, ENGINE_DEVICEPROP = 1307 };

enum { EXECUTION_PLAN_ENGINE_CONFIG = 401 };

/* Descriptors that were created and not yet finalized, the attribute that names their device, and of a plan
   the engine's configuration. */
struct unfinished {
    void *descriptor, *config;
    int device_attribute;
    struct unfinished *next;
};

static pthread_mutex_t unfinished_lock = PTHREAD_MUTEX_INITIALIZER;
static struct unfinished *unfinished;

/* Whether this thread's newest graph has a convolution: a graph is made after its operations. */
static _Thread_local bool has_convolution, graph_has_convolution;

static void note_operation(int kind) {
    if (kind >= OPERATION_CONVOLUTION_FORWARD && kind <= OPERATION_CONVOLUTION_BACKWARD_DATA)
        has_convolution = true;
    if (kind == OPERATIONGRAPH) {
        graph_has_convolution = has_convolution;
        has_convolution = false;
    }
}

static int device_attribute_of(int kind) {
    switch (kind) {
    case ENGINE_DESCRIPTOR: return ENGINE_DEVICEPROP;
    case ENGINEHEUR_DESCRIPTOR: return ENGINEHEUR_DEVICEPROP;
    case EXECUTION_PLAN_DESCRIPTOR: return EXECUTION_PLAN_DEVICEPROP;
    default: return 0;
    }
}

static bool remember(void *descriptor, int device_attribute) {
    struct unfinished *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    pthread_mutex_lock(&unfinished_lock);
    *entry = (struct unfinished){descriptor, NULL, device_attribute, unfinished};
    unfinished = entry;
    pthread_mutex_unlock(&unfinished_lock);
    return true;
}

static void remember_config(void *descriptor, void *config) {
    pthread_mutex_lock(&unfinished_lock);
    for (struct unfinished *entry = unfinished; entry; entry = entry->next)
        if (entry->descriptor == descriptor)
            entry->config = config;
    pthread_mutex_unlock(&unfinished_lock);
}

/* What is remembered of `descriptor`, once; its device attribute is 0 where it needs no device. */
static struct unfinished forget(void *descriptor) {
    struct unfinished found = {0};
    pthread_mutex_lock(&unfinished_lock);
    for (struct unfinished **link = &unfinished; *link; link = &(*link)->next) {
        struct unfinished *entry = *link;
        if (entry->descriptor != descriptor)
            continue;
        found = *entry;
        *link = entry->next;
        free(entry);
        break;
    }
    pthread_mutex_unlock(&unfinished_lock);
    return found;
}

static int destroy(void *descriptor) {
    int (*real)(void *) = cudnn_real("cudnnBackendDestroyDescriptor");
    return real(descriptor);
}

EXPORTED int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
    int (*real)(int, void **) = cudnn_real("cudnnBackendCreateDescriptor");
    int status = real(kind, descriptor);
    int device_attribute = device_attribute_of(kind);
    note_operation(kind);
    if (status || !device_attribute || remember(*descriptor, device_attribute))
        return status;
    destroy(*descriptor);
    return CUDNN_HOST_ALLOCATION_FAILED;
}

EXPORTED int cudnnBackendDestroyDescriptor(void *descriptor) {
    forget(descriptor);
    cudnn_forget_plan(descriptor);
    return destroy(descriptor);
}

EXPORTED int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
                                      const void *values) {
    int (*real)(void *, int, int, int64_t, const void *) = cudnn_real("cudnnBackendSetAttribute");
    if (type == TYPE_HANDLE)
        return SUCCESS;
    if (name == EXECUTION_PLAN_ENGINE_CONFIG && count == 1)
        remember_config(descriptor, *(void *const *)values);
    bool names_device =
        name == ENGINE_DEVICEPROP || name == ENGINEHEUR_DEVICEPROP || name == EXECUTION_PLAN_DEVICEPROP;
    if (names_device)
        forget(descriptor); /* the caller's own description stays */
    return real(descriptor, name, type, count, values);
}

static int set_device(void *descriptor, int device_attribute) {
    int (*set)(void *, int, int, int64_t, const void *) = cudnn_real("cudnnBackendSetAttribute");
    void *device = cudnn_device_properties(current_device());
    if (!device) /* before 9.8, or a release that wants to know more: a caller would blame its own operation */
        return (int)stand_in_refuse(
            "libcudnn", "cudnnBackendFinalize (this cuDNN does not take the description of a card)");
    return set(descriptor, device_attribute, TYPE_BACKEND_DESCRIPTOR, 1, &device);
}

EXPORTED int cudnnBackendFinalize(void *descriptor) {
    int (*real)(void *) = cudnn_real("cudnnBackendFinalize");
    struct unfinished found = forget(descriptor);
    if (!found.device_attribute)
        return real(descriptor);
    cudnn_was_asked();
    int status = set_device(descriptor, found.device_attribute);
    if (!status && found.config && graph_has_convolution)
        cudnn_note_workspace(found.config);
    if (status || (found.config && cudnn_plan_waits(descriptor, found.config)))
        return status;
    return real(descriptor);
}

/* The workspace is the caller's; what a plan computes is not. */
EXPORTED int cudnnBackendExecute(void *handle, void *plan, void *variant_pack) {
    return handle ? SUCCESS : CUDNN_BAD_PARAM;
}

REFUSED("libcudnn", cudnnBackendPopulateCudaGraph)
REFUSED("libcudnn", cudnnBackendUpdateCudaGraph)
