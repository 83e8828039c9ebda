#ifndef MEMBUDGET_STAND_IN_KERNEL_TEXTS_H
#define MEMBUDGET_STAND_IN_KERNEL_TEXTS_H

/* How the image of a program begins that nobody has compiled (nvrtc.c); its text follows. */
#define PROGRAM_TEXT "// CUDA C++ of pytest-membudget's stand-in\n"

/* How many parameters the kernel `name` of a program's `text` has, and of how many bytes each is, if all are
   numbers, whose `sizes` are 1, or pointers to numbers; -1 if one is anything else, or there are over `most`. */
int sizes_of_parameters(const char *text, const char *name, unsigned short *sizes, int most);

#endif
