/* Variables in device code.

   Source of prototypes: CUDA Runtime API 13.2 ("Memory Management": symbols); those with two underscores are
   what nvcc's host code calls (nvcc --keep shows it). */
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "memory.h"

/* A variable of device code, by the address of its shadow on the host. Its own memory is in the code that is
   loaded, which is part of the context. */
struct symbol {
    const void *shadow;
    size_t bytes;
    void *memory;
    struct symbol *next;
};
static struct symbol *symbols;

EXPORTED void __cudaRegisterVar(void **handle, char *shadow, char *device, const char *name, int external,
                                size_t bytes, int constant, int global) {
    struct symbol *symbol = calloc(1, sizeof *symbol);
    if (!symbol)
        return; /* cudaGetSymbolAddress will refuse it */
    symbol->shadow = shadow;
    symbol->bytes = bytes;
    lock_state();
    symbol->next = symbols;
    symbols = symbol;
    unlock_state();
}

static int find_symbol(const void *shadow, void **memory, size_t *bytes) {
    struct symbol *symbol;
    lock_state();
    for (symbol = symbols; symbol && symbol->shadow != shadow; symbol = symbol->next)
        ;
    if (symbol && !symbol->memory)
        symbol->memory = calloc(1, symbol->bytes ? symbol->bytes : 1);
    if (symbol) {
        *memory = symbol->memory;
        *bytes = symbol->bytes;
    }
    unlock_state();
    return symbol && *memory ? SUCCESS : INVALID_SYMBOL;
}

EXPORTED int cudaGetSymbolAddress(void **address, const void *shadow) {
    size_t bytes;
    return runtime_result(find_symbol(shadow, address, &bytes));
}

EXPORTED int cudaGetSymbolSize(size_t *bytes, const void *shadow) {
    void *memory;
    return runtime_result(find_symbol(shadow, &memory, bytes));
}

static int copy_symbol(const void *shadow, void *to, const void *from, size_t bytes, size_t offset) {
    size_t whole;
    void *memory;
    int error = find_symbol(shadow, &memory, &whole);
    if (error)
        return error;
    if (offset > whole || bytes > whole - offset)
        return INVALID_VALUE;
    return to ? copy_memory(to, (char *)memory + offset, bytes)
              : copy_memory((char *)memory + offset, from, bytes);
}

EXPORTED int cudaMemcpyToSymbolAsync(const void *shadow, const void *from, size_t bytes, size_t offset,
                                     int kind, void *stream) {
    return runtime_result(copy_symbol(shadow, NULL, from, bytes, offset));
}

EXPORTED int cudaMemcpyToSymbol(const void *shadow, const void *from, size_t bytes, size_t offset, int kind) {
    return cudaMemcpyToSymbolAsync(shadow, from, bytes, offset, kind, NULL);
}

EXPORTED int cudaMemcpyFromSymbolAsync(void *to, const void *shadow, size_t bytes, size_t offset, int kind,
                                       void *stream) {
    return runtime_result(copy_symbol(shadow, to, NULL, bytes, offset));
}

EXPORTED int cudaMemcpyFromSymbol(void *to, const void *shadow, size_t bytes, size_t offset, int kind) {
    return cudaMemcpyFromSymbolAsync(to, shadow, bytes, offset, kind, NULL);
}
