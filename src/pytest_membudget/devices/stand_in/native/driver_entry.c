/* Functions of the driver by name: cuGetProcAddress and the runtime's form of it.

   Source: CUDA Driver API 13.2, "Driver Entry Point Access". A name means the newest form of a function
   that the asked version of CUDA had; here a form is found by its suffix. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "stand_in.h"

/* Functions whose forms have other parameters: from which CUDA on the suffix is meant. */
static const struct {
    const char *name, *suffix;
    int since;
} forms[] = {
    {"cuStreamGetCaptureInfo", "_v3", 12030},
    {"cuStreamGetCaptureInfo", "_v2", 11030},
    {"cuStreamGetCtx", "_v2", 12050},
    {"cuStreamGetCtx", "", 0},
};

static void *with_suffix(const char *name, const char *suffix) {
    char full[192];
    if (snprintf(full, sizeof full, "%s%s", name, suffix) >= (int)sizeof full)
        return NULL;
    return dlsym(RTLD_DEFAULT, full); /* ours, or one that was written to refuse */
}

static void *find_function(const char *name, int version) {
    for (unsigned index = 0; index < sizeof forms / sizeof *forms; index++)
        if (!strcmp(forms[index].name, name) && version >= forms[index].since)
            return with_suffix(name, forms[index].suffix);
    void *newer = with_suffix(name, "_v2");
    return newer ? newer : with_suffix(name, "");
}

static int entry_point(const char *name, void **function, int version) {
    *function = find_function(name, version);
    if (!*function)
        note_refused(name);
    return *function ? SUCCESS : SYMBOL_NOT_FOUND;
}

/* What cuDNN and PyTorch look up was written to refuse when it is called (devices/stand_in/linked); a name
   that is not even there, other code has asked for. */
EXPORTED int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                 int *status) {
    int error = entry_point(name, function, version);
    if (status)
        *status = error ? 1 : 0; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    return error;
}

EXPORTED int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return entry_point(name, function, version);
}

/* The runtime succeeds, and says in `status` that there is no such function. */
EXPORTED int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                              unsigned long long flags, int *status) {
    int error = entry_point(name, function, (int)version);
    if (status)
        *status = error ? 1 : 0; /* cudaDriverEntryPointSymbolNotFound */
    return SUCCESS;
}

EXPORTED int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                     int *status) {
    return cudaGetDriverEntryPointByVersion(name, function, (unsigned)cuda_version(), flags, status);
}

/* The driver's private tables are not ours to imitate: libraries with the runtime linked in do not start.
   cuDNN's is not to: the workspaces that it decides are listed (cudnn_workspaces.c). */
EXPORTED int cuGetExportTable(const void **table, const void *id) {
    Dl_info caller;
    *table = NULL;
    if (!dladdr(__builtin_return_address(0), &caller) || !strstr(caller.dli_fname, "libcudnn"))
        note_refused("cuGetExportTable");
    return SYMBOL_NOT_FOUND;
}
