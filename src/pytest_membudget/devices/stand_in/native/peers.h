/* Cards of one node that reach each other's memory. */
#ifndef MEMBUDGET_STAND_IN_PEERS_H
#define MEMBUDGET_STAND_IN_PEERS_H

/* Whether one card reaches the other's memory. */
int reaches(int device, int peer);

#endif
