/* Refusing, and libraries that were written to take the places of NVIDIA's and do nothing else. */
#ifndef MEMBUDGET_REFUSE_H
#define MEMBUDGET_REFUSE_H

#include "stand_in.h"

/* The one way to refuse what a card would do: the function is noted, and the test that called it fails,
   whatever it makes of the error. Returns what its library says where something is not supported. What a
   card refuses too is returned as any other error. */
long stand_in_refuse(const char *library, const char *function);

/* A function that refuses although a library that does not refuse is installed, or nobody would refuse for
   it. */
#define REFUSED(library, name) \
    EXPORTED int name(void) { return (int)stand_in_refuse(library, #name); }

/* Whether this loaded library is one of them: it is not to be asked for what the real one says. */
int is_written_library(void *library);

#endif
