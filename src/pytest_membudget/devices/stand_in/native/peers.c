/* Cards that reach each other's memory: PyTorch then copies without temporaries (copy_requires_temporaries,
   aten/src/ATen/native/cuda/Copy.cu) and maps expandable segments on both.

   Source of prototypes and constants: CUDA Runtime API and CUDA Driver API 13.2, "Peer Device Memory Access".
   Which cards do: devices/stand_in/card_figures.py. */
#include "peers.h"

#include "contexts.h"
#include "errors.h"
#include "tables.h"
#include "unknown.h"

/* struct card's `peers` */
enum { NONE, ALL, BY_MACHINE };
/* cudaDeviceP2PAttr: rank of the link's performance, access, atomics, arrays */
enum { PERFORMANCE_RANK = 1, ARRAYS = 4 };

static unsigned char enabled[MOST_CARDS][MOST_CARDS];

int reaches(int device, int peer) {
    const struct card *card = card_at(device);
    if (!card || !card_at(peer) || device == peer)
        return 0;
    return card->peers == BY_MACHINE ? other_answer(PEERS) : card->peers == ALL;
}

EXPORTED int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = reaches(device, peer);
    return card_at(device) && card_at(peer) ? SUCCESS : INVALID_DEVICE;
}
RUNTIME(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *can, int device, int peer), can, device, peer)

EXPORTED int cuDeviceGetP2PAttribute(int *value, int attribute, int device, int peer) {
    if (attribute < PERFORMANCE_RANK || attribute > ARRAYS)
        return INVALID_VALUE;
    if (!card_at(device) || !card_at(peer) || device == peer)
        return INVALID_DEVICE;
    *value = attribute != PERFORMANCE_RANK && reaches(device, peer);
    return SUCCESS;
}
RUNTIME(cudaDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, (int *value, int attribute, int device, int peer),
        value, attribute, device, peer)

static int change_access(int peer, int on, int error_if_so) {
    int device = current_device();
    if (!reaches(device, peer))
        return INVALID_DEVICE;
    if (enabled[device][peer] == on)
        return error_if_so;
    enabled[device][peer] = (unsigned char)on;
    return SUCCESS;
}

EXPORTED int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    use_runtime();
    return runtime_result(change_access(peer, 1, PEER_ACCESS_ALREADY_ENABLED));
}

EXPORTED int cudaDeviceDisablePeerAccess(int peer) {
    use_runtime();
    return runtime_result(change_access(peer, 0, PEER_ACCESS_NOT_ENABLED));
}

EXPORTED int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    int peer = device_of_context(context);
    return peer < 0 ? INVALID_CONTEXT : change_access(peer, 1, PEER_ACCESS_ALREADY_ENABLED);
}
