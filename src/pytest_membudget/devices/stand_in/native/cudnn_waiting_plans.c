/* Plans whose kernels would be compiled now: attention's on Hopper and later, a second or more each.

   The real library says what workspace an engine's configuration needs without compiling it
   (CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, since 9.2), and a plan that nobody executes is asked for nothing
   else. Whoever asks for more has it compiled then, which NVRTC's real library would do: it is refused by
   name.

   Constants and prototypes: cudnn_graph.h of cuDNN 9.26. */
#include <pthread.h>
#include <stdlib.h>

#include "cudnn.h"

enum { ENGINE_DESCRIPTOR = 2 }; /* cudnnBackendDescriptorType_t */
/* cudnnBackendAttributeType_t */
enum { TYPE_INT64 = 3, TYPE_BACKEND_DESCRIPTOR = 15, TYPE_BEHAVIOR_NOTE = 19 };
enum { BEHAVIOR_NOTE_RUNTIME_COMPILATION = 0 }; /* cudnnBackendBehaviorNote_t */

/* cudnnBackendAttributeName_t */
enum {
    ENGINECFG_ENGINE = 300,
    ENGINECFG_WORKSPACE_SIZE = 303,
    EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    ENGINE_BEHAVIOR_NOTE = 1305,
};

enum { MOST_NOTES = 16 };

struct waiting {
    void *plan;
    int64_t workspace_bytes;
    struct waiting *next;
};

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *waiting;

static bool would_be_compiled(void *config) {
    int (*create)(int, void **) = cudnn_real("cudnnBackendCreateDescriptor");
    int (*destroy)(void *) = cudnn_real("cudnnBackendDestroyDescriptor");
    void *engine = NULL;
    int notes[MOST_NOTES];
    int64_t count = 0;
    if (create(ENGINE_DESCRIPTOR, &engine))
        return false;
    if (cudnn_attribute(config, ENGINECFG_ENGINE, TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ||
        cudnn_attribute(engine, ENGINE_BEHAVIOR_NOTE, TYPE_BEHAVIOR_NOTE, MOST_NOTES, &count, notes))
        count = 0;
    bool found = false;
    for (int64_t index = 0; index < count && index < MOST_NOTES; ++index)
        found = found || notes[index] == BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    destroy(engine);
    return found;
}

bool cudnn_plan_waits(void *plan, void *config) {
    int64_t count = 0, bytes = 0;
    if (!would_be_compiled(config) ||
        cudnn_attribute(config, ENGINECFG_WORKSPACE_SIZE, TYPE_INT64, 1, &count, &bytes))
        return false;
    struct waiting *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    pthread_mutex_lock(&waiting_lock);
    *entry = (struct waiting){plan, bytes, waiting};
    waiting = entry;
    pthread_mutex_unlock(&waiting_lock);
    return true;
}

static bool waits(void *plan, int64_t *workspace_bytes) {
    bool found = false;
    pthread_mutex_lock(&waiting_lock);
    for (struct waiting *entry = waiting; entry; entry = entry->next) {
        if (entry->plan != plan)
            continue;
        found = true;
        *workspace_bytes = entry->workspace_bytes;
    }
    pthread_mutex_unlock(&waiting_lock);
    return found;
}

bool cudnn_forget_plan(void *plan) {
    bool found = false;
    pthread_mutex_lock(&waiting_lock);
    for (struct waiting **link = &waiting; *link; link = &(*link)->next) {
        struct waiting *entry = *link;
        if (entry->plan != plan)
            continue;
        found = true;
        *link = entry->next;
        free(entry);
        break;
    }
    pthread_mutex_unlock(&waiting_lock);
    return found;
}

EXPORTED int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t most, int64_t *count,
                                      void *values) {
    int (*finalize)(void *) = cudnn_real("cudnnBackendFinalize");
    int64_t bytes = 0;
    if (waits(descriptor, &bytes)) {
        if (name == EXECUTION_PLAN_WORKSPACE_SIZE && type == TYPE_INT64 && most >= 1 && values) {
            *(int64_t *)values = bytes;
            if (count)
                *count = 1;
            return SUCCESS;
        }
        int status = cudnn_forget_plan(descriptor) ? finalize(descriptor) : SUCCESS;
        if (status)
            return status;
    }
    return cudnn_attribute(descriptor, name, type, most, count, values);
}
