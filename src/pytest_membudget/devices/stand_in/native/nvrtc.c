/* NVRTC, with which PyTorch compiles kernels at run time: jiterator's, TorchScript's,
   torch.cuda._compile_kernel's (aten/src/ATen/native/cuda/jit_utils.cpp, torch/cuda/_utils.py). None runs, so
   none is compiled: a program's image is empty, which the module loader here takes, and a function is found
   under any name. A mistake in a program's text is not seen.

   Prototypes: nvrtc.h of CUDA 12.6 to 13.2. */
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "refuse.h"
#include "tables.h"

/* Not ELF's magic number: nothing is read from it. */
static const char image[8];

/* Names that a program is asked for by expressions, "my_kernel<float>". */
struct name {
    struct name *next;
    char text[];
};
struct program {
    struct name *names;
};

EXPORTED int nvrtcVersion(int *major, int *minor) {
    *major = cuda_version() / 1000;
    *minor = cuda_version() % 1000 / 10;
    return SUCCESS;
}

EXPORTED const char *nvrtcGetErrorString(int result) {
    return result == SUCCESS ? "NVRTC_SUCCESS"
                             : "NVRTC_ERROR, or not modelled by pytest-membudget's stand-in";
}

EXPORTED int nvrtcCreateProgram(struct program **program, const char *source, const char *name, int headers,
                                const char *const *header_sources, const char *const *header_names) {
    if (!program || !source)
        return NVRTC_INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    return *program ? SUCCESS : NVRTC_OUT_OF_MEMORY;
}

EXPORTED int nvrtcDestroyProgram(struct program **program) {
    while ((*program)->names) {
        struct name *first = (*program)->names;
        (*program)->names = first->next;
        free(first);
    }
    free(*program);
    *program = NULL;
    return SUCCESS;
}

EXPORTED int nvrtcAddNameExpression(struct program *program, const char *expression) {
    size_t bytes = strlen(expression) + 1;
    struct name *name = malloc(sizeof *name + bytes);
    if (!name)
        return NVRTC_OUT_OF_MEMORY;
    memcpy(name->text, expression, bytes);
    name->next = program->names;
    program->names = name;
    return SUCCESS;
}

SUCCEEDS(nvrtcCompileProgram)

/* Not the mangled name, which only a compiler knows. */
EXPORTED int nvrtcGetLoweredName(struct program *program, const char *expression, const char **lowered) {
    for (const struct name *name = program->names; name; name = name->next) {
        if (strcmp(name->text, expression))
            continue;
        *lowered = name->text;
        return SUCCESS;
    }
    return NVRTC_NAME_NOT_VALID;
}

#define RESULT(name, bytes)                                          \
    EXPORTED int name##Size(struct program *program, size_t *size) { \
        *size = bytes;                                               \
        return SUCCESS;                                              \
    }                                                                \
    EXPORTED int name(struct program *program, char *result) {       \
        memcpy(result, image, bytes);                                \
        return SUCCESS;                                              \
    }
RESULT(nvrtcGetPTX, sizeof image)
RESULT(nvrtcGetCUBIN, sizeof image)
RESULT(nvrtcGetProgramLog, 1) /* an empty text */

/* cuDNN looks these up before it plans, and calls none then: libcudnn_graph.so.9 of 9.20. */
#define NVRTC_REFUSED(name) REFUSED("libnvrtc", name)
EACH(NVRTC_REFUSED, __nvrtcCPEx, nvrtcGetLTOIR, nvrtcGetLTOIRSize, nvrtcGetNumSupportedArchs,
     nvrtcGetSupportedArchs)
