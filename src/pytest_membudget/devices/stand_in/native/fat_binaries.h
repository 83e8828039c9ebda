#ifndef MEMBUDGET_STAND_IN_FAT_BINARIES_H
#define MEMBUDGET_STAND_IN_FAT_BINARIES_H
#include "stand_in.h"

/* What a kernel was compiled for, as of the code that `card` loads: 86 for one of compute capability 8.9
   where there is code for 8.6 and none for 8.9. */
struct code_versions {
    int ptx, binary;
};

struct code_versions versions_on(const struct card *card, const void *function);

#endif
