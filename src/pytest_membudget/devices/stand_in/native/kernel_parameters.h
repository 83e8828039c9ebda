#ifndef MEMBUDGET_STAND_IN_KERNEL_PARAMETERS_H
#define MEMBUDGET_STAND_IN_KERNEL_PARAMETERS_H

/* A module's code was loaded, and a kernel of it was asked for by name. */
void module_loaded(void *module, const void *image);
void kernel_found(void *kernel, void *module, const char *name);
/* A kernel is launched with `arguments`, a pointer to each. Whether all memory that it may write to is known;
   what is followed of that is not true any more. */
int kernel_writes(void *kernel, void *const *arguments);

#endif
