/* The version of CUDA that this process's PyTorch was built for, which also says how structures are laid out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "errors.h"
#include "stand_in.h"

/* The runtime's own libraries, by the major version in their names, oldest first. */
static int version_of_loaded(void)
{
    static const struct {
        const char *name;
        int version;
    } runtimes[] = {{"libcudart.so.12", 12060}, {"libcudart.so.13", 13000}};
    for (unsigned index = 0; index < sizeof runtimes / sizeof *runtimes; index++) {
        void *loaded = dlopen(runtimes[index].name, RTLD_NOW | RTLD_NOLOAD);
        if (loaded) {
            dlclose(loaded);
            return runtimes[index].version;
        }
    }
    return 13000;
}

int cuda_version(void)
{
    static int version;
    int known = __atomic_load_n(&version, __ATOMIC_RELAXED);
    if (!known) {
        const char *text = getenv("MEMBUDGET_STAND_IN_CUDA");
        known = text && atoi(text) >= 12000 ? atoi(text) : version_of_loaded();
        __atomic_store_n(&version, known, __ATOMIC_RELAXED);
    }
    return known;
}

EXPORTED int cudaRuntimeGetVersion(int *version)
{
    *version = cuda_version();
    return SUCCESS;
}

/* The newest that PyTorch may ask for: a driver answers all older runtimes. */
EXPORTED int cudaDriverGetVersion(int *version)
{
    *version = cuda_version();
    return SUCCESS;
}

EXPORTED int cuDriverGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}
