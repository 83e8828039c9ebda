/* NCCL's collectives, which move nothing, and the memory that is registered with it.

   What ranks receive from each other is written afterwards, in Python, where it is known (stand_in/ranks).
   Prototypes: nccl.h and nccl_device/core.h of NVIDIA/nccl 2.30.7. */
#include "stand_in.h"

enum { SUCCESS = 0, UNHANDLED_CUDA_ERROR = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 }; /* ncclResult_t */

struct communicator;

extern int cudaMalloc(void **pointer, size_t size);
extern int cudaFree(void *pointer);

static int accept(const struct communicator *own)
{
    return own == NULL ? INVALID_ARGUMENT : SUCCESS;
}

static int refuse(const char *function)
{
    not_modelled(function);
    return INVALID_USAGE;
}

EXPORTED int ncclAllReduce(const void *sent, void *received, size_t count, int type, int reduction,
                           struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)reduction, (void)stream;
    return accept(own);
}

EXPORTED int ncclReduce(const void *sent, void *received, size_t count, int type, int reduction, int root,
                        struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)reduction, (void)root, (void)stream;
    return accept(own);
}

EXPORTED int ncclReduceScatter(const void *sent, void *received, size_t count, int type, int reduction,
                               struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)reduction, (void)stream;
    return accept(own);
}

EXPORTED int ncclBroadcast(const void *sent, void *received, size_t count, int type, int root,
                           struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)root, (void)stream;
    return accept(own);
}

EXPORTED int ncclBcast(void *buffer, size_t count, int type, int root, struct communicator *own, void *stream)
{
    (void)buffer, (void)count, (void)type, (void)root, (void)stream;
    return accept(own);
}

EXPORTED int ncclAllGather(const void *sent, void *received, size_t count, int type,
                           struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)stream;
    return accept(own);
}

EXPORTED int ncclAlltoAll(const void *sent, void *received, size_t count, int type,
                          struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)stream;
    return accept(own);
}

EXPORTED int ncclGather(const void *sent, void *received, size_t count, int type, int root,
                        struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)root, (void)stream;
    return accept(own);
}

EXPORTED int ncclScatter(const void *sent, void *received, size_t count, int type, int root,
                         struct communicator *own, void *stream)
{
    (void)sent, (void)received, (void)count, (void)type, (void)root, (void)stream;
    return accept(own);
}

EXPORTED int ncclSend(const void *sent, size_t count, int type, int peer, struct communicator *own,
                      void *stream)
{
    (void)sent, (void)count, (void)type, (void)peer, (void)stream;
    return accept(own);
}

EXPORTED int ncclRecv(void *received, size_t count, int type, int peer, struct communicator *own,
                      void *stream)
{
    (void)received, (void)count, (void)type, (void)peer, (void)stream;
    return accept(own);
}

/* NCCL takes whole granules of cuMemCreate, 2 MiB, for it (src/include/alloc.h), as cudaMalloc does. */
EXPORTED int ncclMemAlloc(void **pointer, size_t size)
{
    return cudaMalloc(pointer, size) == 0 ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

EXPORTED int ncclMemFree(void *pointer)
{
    return cudaFree(pointer) == 0 ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

EXPORTED int ncclCommRegister(struct communicator *own, void *buffer, size_t size, void **handle)
{
    (void)buffer, (void)size;
    if (handle == NULL)
        return INVALID_ARGUMENT;
    *handle = new_handle();
    return accept(own);
}

EXPORTED int ncclCommDeregister(struct communicator *own, void *handle)
{
    (void)handle;
    return accept(own);
}

/* Windows, signals and communication from inside a kernel take memory of other ranks': not modelled. */
#define REFUSED(name) \
    EXPORTED int name(void) { return refuse(#name); }

REFUSED(ncclCommWindowRegister)
REFUSED(ncclCommWindowDeregister)
REFUSED(ncclWinGetUserPtr)
REFUSED(ncclPutSignal)
REFUSED(ncclSignal)
REFUSED(ncclWaitSignal)
REFUSED(ncclDevCommCreate)
REFUSED(ncclDevCommDestroy)
REFUSED(ncclGetLsaMultimemDevicePointer)
REFUSED(ncclGetPeerDevicePointer)
