/* The real cuDNN, which plans and knows sizes; nothing is executed by it.

   torch loads it outside of the global scope, where RTLD_NEXT does not look. Its functions that take no
   handle and need not answer where there is none (descriptors) are not defined here: libtorch finds the real
   ones.

   Where it is not installed, a library that was written in its place refuses them, and what needs a plan says
   how to get the real one. Prototypes: cudnn_graph.h of cuDNN 9.26. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "cudnn.h"
#include "refuse.h"
#include "versions.h"

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static void *library;
static char version_text[32];
static atomic_bool asked;

/* torch says of this status that its cuDNN is not here, and how to get it (device.py). */
static int not_here(void) { return CUDNN_NOT_INITIALIZED; }

static void load(void) {
    const char *name = "libcudnn.so.9"; /* the one soname of cuDNN 9.x */
    library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        library = dlopen(name, RTLD_NOW);
    if (library && is_written_library(library))
        library = NULL;
    size_t (*get_version)(void) = library ? dlsym(library, "cudnnGetVersion") : NULL;
    size_t release = get_version ? get_version() : 0; /* as 92600 */
    snprintf(version_text, sizeof version_text, "%zu.%zu.%zu", release / 10000, release / 100 % 100,
             release % 100);
}

static void *find(const char *name) {
    pthread_once(&library_once, load);
    return library ? dlsym(library, name) : NULL;
}

void *cudnn_real(const char *name) {
    void *function = find(name);
    if (function)
        return function;
    note_refused("cuDNN (not installed: `membudget install-torch` brings it)");
    return (void *)not_here;
}

int cudnn_attribute(void *descriptor, int name, int type, int64_t most, int64_t *count, void *values) {
    int (*real)(void *, int, int, int64_t, int64_t *, void *) = cudnn_real("cudnnBackendGetAttribute");
    return real(descriptor, name, type, most, count, values);
}

void cudnn_was_asked(void) {
    pthread_once(&library_once, load);
    atomic_store(&asked, true);
}

/* The cuDNN that gave plans or sizes, as "9.26.0"; NULL where none was asked for. */
EXPORTED const char *stand_in_cudnn_version(void) {
    return atomic_load(&asked) && library ? version_text : NULL;
}

/* PyTorch chooses by it whether cuDNN computes attention: without cuDNN it is that of the release that
   PyTorch was built for, so that the choice is the same, and refused. */
EXPORTED size_t cudnnGetVersion(void) {
    size_t (*real)(void) = find("cudnnGetVersion");
    return real ? real() : cudnn_version_of_torch();
}

/* libraryPropertyType: 0 major, 1 minor, 2 patch. */
EXPORTED int cudnnGetProperty(int property, int *value) {
    int (*real)(int, int *) = find("cudnnGetProperty");
    if (real)
        return real(property, value);
    int version = (int)cudnn_version_of_torch();
    *value = property == 0 ? version / 10000 : property == 1 ? version / 100 % 100 : version % 100;
    return SUCCESS;
}

EXPORTED const char *cudnnGetErrorString(int status) {
    const char *(*real)(int) = find("cudnnGetErrorString");
    return real ? real(status)
                : "cuDNN's own library, which plans this, is not here: run `membudget install-torch`";
}

EXPORTED void cudnnGetLastErrorString(char *message, size_t room) {
    void (*real)(char *, size_t) = find("cudnnGetLastErrorString");
    if (real)
        real(message, room);
    else if (room)
        *message = 0;
}
