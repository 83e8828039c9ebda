/* Libraries that were written to take the places of NVIDIA's. */
#ifndef MEMBUDGET_REFUSE_H
#define MEMBUDGET_REFUSE_H

/* Whether this loaded library is one of them: it is not to be asked for what the real one says. */
int is_written_library(void *library);

#endif
