/* Access of one card to another's memory: there is none, so that copies go through the runtime. */
#include "errors.h"
#include "stand_in.h"

EXPORTED int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    return runtime_result(card_at(device) && card_at(peer) ? SUCCESS : INVALID_DEVICE);
}

EXPORTED int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return runtime_result(NOT_SUPPORTED);
}

EXPORTED int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    return card_at(device) && card_at(peer) ? SUCCESS : INVALID_DEVICE;
}

EXPORTED int cudaProfilerStart(void)
{
    return SUCCESS;
}

EXPORTED int cudaProfilerStop(void)
{
    return SUCCESS;
}
