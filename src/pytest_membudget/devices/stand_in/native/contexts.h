/* The primary contexts of the cards, and which one a thread uses. */
#ifndef MEMBUDGET_STAND_IN_CONTEXTS_H
#define MEMBUDGET_STAND_IN_CONTEXTS_H

/* Makes the thread's device's context current, as every function of the runtime does that needs one. */
void use_runtime(void);
/* The context of a device, which is then active; NULL where there is no such device. */
void *primary_context(int device);
/* The device of a context; -1 if it is none. */
int device_of_context(const void *context);

#endif
