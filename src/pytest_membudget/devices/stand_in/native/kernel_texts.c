/* What a kernel takes that is compiled at run time, by its text: TorchScript's fused kernels have pointers and
   numbers alone (torch/csrc/jit/tensorexpr/cuda_codegen.cpp, 2.13), and so may a user's own. A template, or a
   structure, may hold anything. */
#include "kernel_texts.h"

#include <ctype.h>
#include <string.h>

/* Of the types of numbers, and of pointers to them. */
static const char *const words[] = {
    "const",   "volatile", "__restrict__",  "__restrict", "unsigned", "signed",  "bool",
    "char",    "short",    "int",           "long",       "float",    "double",  "half",
    "__half",  "size_t",   "__nv_bfloat16", "int8_t",     "uint8_t",  "int16_t", "uint16_t",
    "int32_t", "uint32_t", "int64_t",       "uint64_t",
};

static int is_of_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static int is_word(const char *at, size_t length) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && !strncmp(words[i], at, length))
            return 1;
    return 0;
}

static int follows_void(const char *text, const char *at) {
    while (at > text && isspace((unsigned char)at[-1]))
        at--;
    return at - text >= 4 && !strncmp(at - 4, "void", 4);
}

/* Behind the parenthesis after `name`, where it is declared: a kernel gives nothing. */
static const char *parameters_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; length && (at = strstr(at, name)); at += length)
        if (at[length] == '(' && at > text && isspace((unsigned char)at[-1]) && follows_void(text, at))
            return at + length + 1;
    return NULL;
}

/* The end of the parameter at `*at`, and its size: its type is of `words`, and its name is the last one. */
static int size_of(const char **at) {
    int stars = 0, others = 0, is_type = 0;
    while (**at && !strchr(",)", **at)) {
        size_t length = 0;
        while (is_of_name((*at)[length]))
            length++;
        if (length) {
            is_word(*at, length) ? (is_type = 1) : others++;
            if (others > 1 || (others && !is_type))
                return -1;
            *at += length;
        } else if (**at == '*' || isspace((unsigned char)**at)) {
            stars += *(*at)++ == '*';
        } else
            return -1;
    }
    return !**at || !is_type || stars > 1 ? -1 : stars ? (int)sizeof(void *) : 1;
}

int sizes_of_parameters(const char *text, const char *name, unsigned short *sizes, int most) {
    const char *at = parameters_of(text, name);
    if (!at)
        return -1;
    at += strspn(at, " \n");
    for (int count = 0; count < most; at++) {
        if (*at == ')' && !count)
            return 0;
        int size = size_of(&at);
        if (size < 0)
            return -1;
        sizes[count++] = (unsigned short)size;
        if (*at == ')')
            return count;
    }
    return -1;
}
