/* NVRTC, with which PyTorch compiles kernels at run time: jiterator's, TorchScript's,
   torch.cuda._compile_kernel's (aten/src/ATen/native/cuda/jit_utils.cpp, torch/cuda/_utils.py). None runs, so
   none is compiled: a program's image is its text, which the module loader here takes, and a function is found
   under any name. A mistake in a program's text is not seen.

   Prototypes: nvrtc.h of CUDA 12.6 to 13.2. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "kernel_texts.h"
#include "refuse.h"
#include "tables.h"

/* Names that a program is asked for by expressions, "my_kernel<float>". */
struct name {
    struct name *next;
    char text[];
};
struct program {
    struct name *names;
    size_t image_bytes;
    char image[];
};

EXPORTED int nvrtcVersion(int *major, int *minor) {
    *major = cuda_version() / 1000;
    *minor = cuda_version() % 1000 / 10;
    return SUCCESS;
}

/* What the libraries of 12.6.85, 12.8.93, 12.9.86, 13.0.88, 13.1.115 and 13.2.86 compile for: from which
   release on, and before which. */
static const struct {
    int number, from, before;
} architectures[] = {
    {50, 0, 13000},        {52, 0, 13000},        {53, 0, 13000},        {60, 0, 13000},
    {61, 0, 13000},        {62, 0, 13000},        {70, 0, 13000},        {72, 0, 13000},
    {75, 0, INT_MAX},      {80, 0, INT_MAX},      {86, 0, INT_MAX},      {87, 0, INT_MAX},
    {88, 13000, INT_MAX},  {89, 0, INT_MAX},      {90, 0, INT_MAX},      {100, 12080, INT_MAX},
    {101, 12080, 13000},   {103, 12090, INT_MAX}, {110, 13000, INT_MAX}, {120, 12080, INT_MAX},
    {121, 12090, INT_MAX},
};

/* How many it compiles for; their numbers are written where there is a place for them. */
static int supported(int *numbers) {
    int count = 0;
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        if (cuda_version() < architectures[i].from || cuda_version() >= architectures[i].before)
            continue;
        if (numbers)
            numbers[count] = architectures[i].number;
        count++;
    }
    return count;
}

EXPORTED int nvrtcGetNumSupportedArchs(int *count) {
    *count = supported(NULL);
    return SUCCESS;
}

EXPORTED int nvrtcGetSupportedArchs(int *numbers) {
    supported(numbers);
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
    size_t bytes = strlen(PROGRAM_TEXT) + strlen(source) + 1;
    *program = calloc(1, sizeof **program + bytes);
    if (!*program)
        return NVRTC_OUT_OF_MEMORY;
    (*program)->image_bytes = bytes;
    strcat(strcpy((*program)->image, PROGRAM_TEXT), source);
    return SUCCESS;
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

#define RESULT(name, from, bytes)                                    \
    EXPORTED int name##Size(struct program *program, size_t *size) { \
        *size = bytes;                                               \
        return SUCCESS;                                              \
    }                                                                \
    EXPORTED int name(struct program *program, char *result) {       \
        memcpy(result, from, bytes);                                 \
        return SUCCESS;                                              \
    }
RESULT(nvrtcGetPTX, program->image, program->image_bytes)
RESULT(nvrtcGetCUBIN, program->image, program->image_bytes)
RESULT(nvrtcGetProgramLog, "", 1)

/* cuDNN looks these up before it plans, and calls none then: libcudnn_graph.so.9 of 9.20. */
#define NVRTC_REFUSED(name) REFUSED("libnvrtc", name)
EACH(NVRTC_REFUSED, __nvrtcCPEx, nvrtcGetLTOIR, nvrtcGetLTOIRSize)
