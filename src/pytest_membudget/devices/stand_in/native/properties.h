#ifndef MEMBUDGET_STAND_IN_PROPERTIES_H
#define MEMBUDGET_STAND_IN_PROPERTIES_H
#include "stand_in.h"

/* An attribute of a card by the number that the runtime (cudaDeviceAttr) and the driver (CUdevice_attribute)
   both give it. */
int device_attribute(const struct card *card, int device, int attribute);
/* "0000:01:00.0" */
void bus_id(char *text, int length, int device);
/* 16 bytes */
void device_uuid(unsigned char *uuid, int device);
#endif
