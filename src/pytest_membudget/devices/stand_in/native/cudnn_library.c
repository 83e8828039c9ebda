/* The real cuDNN, which plans and knows sizes; nothing is executed by it.

   torch loads it outside of the global scope, where RTLD_NEXT does not look. Its functions that take no handle
   (descriptors, versions, error texts: cudnnGetVersion, cudnnGetErrorString, cudnnGetProperty, ...) are not
   defined here: libtorch finds the real ones. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "cudnn.h"

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static void *library;
static char version_text[32];
static atomic_bool asked;

static int refuse(void) { return CUDNN_NOT_INITIALIZED; }

static void load(void) {
    const char *name = "libcudnn.so.9"; /* the one soname of cuDNN 9.x */
    library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!library) library = dlopen(name, RTLD_NOW);
    size_t (*get_version)(void) = library ? dlsym(library, "cudnnGetVersion") : NULL;
    size_t release = get_version ? get_version() : 0; /* as 92600 */
    snprintf(version_text, sizeof version_text, "%zu.%zu.%zu", release / 10000, release / 100 % 100, release % 100);
}

void *cudnn_real(const char *name) {
    pthread_once(&library_once, load);
    void *function = library ? dlsym(library, name) : NULL;
    if (function) return function;
    not_modelled(name);
    return (void *)refuse;
}

void cudnn_was_asked(void) {
    pthread_once(&library_once, load);
    atomic_store(&asked, true);
}

/* The cuDNN that gave plans or sizes, as "9.26.0"; NULL where none was asked for. */
EXPORTED const char *stand_in_cudnn_version(void) { return atomic_load(&asked) ? version_text : NULL; }
