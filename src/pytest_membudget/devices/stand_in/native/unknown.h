/* What nobody knows of a machine on which nothing runs, and which is therefore varied. */
#ifndef MEMBUDGET_UNKNOWN_H
#define MEMBUDGET_UNKNOWN_H

enum unknown {
    BEHIND = 1, /* whether work that nobody has waited for is done */
    PEERS = 2,  /* whether cards reach each other's memory */
    BLOCKS = 4, /* how many blocks of a kernel run at once on a multiprocessor */
};

/* It is noted that code has asked. Returns 0 for the plausible answer, 1 for the other one. */
int other_answer(enum unknown what);

#endif
