/* NCCL as PyTorch's ProcessGroupNCCL and torch.cuda.nccl call it: communicators are there, collectives are
   accepted and move nothing, since the other ranks are not there.

   Everything that PyTorch does around a collective, streams, flattened copies, events, is its own. What ranks
   receive from each other is written afterwards, in Python, where it is known (stand_in/ranks). What NCCL
   itself takes on a card is computed by formula (nccl.py) and is not allocated here. Prototypes and numbers:
   nccl.h and nccl_device/core.h of NVIDIA/nccl 2.30.7, nccl.h the same in 2.27 to 2.29. */
#include <stdlib.h>
#include <string.h>

#include "captures.h"
#include "errors.h"
#include "refuse.h"
#include "tables.h"

#define NO_COLOR (-1) /* NCCL_SPLIT_NOCOLOR */
#define UNKNOWN (-1)
#define FIRST_OWN_REDUCTION 5 /* ncclNumOps: where numbers of reductions that are made begin */

struct unique_id {
    char bytes[128]; /* NCCL_UNIQUE_ID_BYTES */
};

struct communicator {
    int ranks, rank; /* UNKNOWN where only the others know */
    int device;
};

static int make(struct communicator **made, int ranks, int rank, int device) {
    if (made == NULL || (ranks != UNKNOWN && (ranks < 1 || rank < 0 || rank >= ranks)))
        return NCCL_INVALID_ARGUMENT;
    *made = malloc(sizeof **made);
    if (*made == NULL)
        return NCCL_SYSTEM_ERROR;
    **made = (struct communicator){ranks, rank, device};
    return SUCCESS;
}

EXPORTED int ncclGetUniqueId(struct unique_id *id) {
    if (id == NULL)
        return NCCL_INVALID_ARGUMENT;
    memset(id, 0, sizeof *id);
    void *handle = new_handle();
    memcpy(id, &handle, sizeof handle);
    return SUCCESS;
}

EXPORTED int ncclCommGetUniqueId(struct communicator *parent, struct unique_id *id) {
    return parent == NULL ? NCCL_INVALID_ARGUMENT : ncclGetUniqueId(id);
}

EXPORTED int ncclCommInitRank(struct communicator **made, int ranks, struct unique_id id, int rank) {
    return make(made, ranks, rank, current_device());
}
ALIAS(ncclCommInitRankConfig, ncclCommInitRank) /* the configuration comes last */

EXPORTED int ncclCommInitRankScalable(struct communicator **made, int ranks, int rank, int ids,
                                      struct unique_id *all, void *config) {
    return make(made, ranks, rank, current_device());
}

/* All ranks are this process's own: torch.nn.DataParallel. */
EXPORTED int ncclCommInitAll(struct communicator **made, int devices, const int *list) {
    for (int place = 0; place < devices; place++) {
        int result = make(made + place, devices, place, list != NULL ? list[place] : place);
        if (result != SUCCESS)
            return result;
    }
    return SUCCESS;
}

/* How many ranks give the same colour only they know: whoever splits says so before, on the same thread. */
static __thread int split_ranks = UNKNOWN;

EXPORTED void stand_in_nccl_split_into(int ranks) { split_ranks = ranks; }

/* PyTorch's key is the rank in the new communicator. */
EXPORTED int ncclCommSplit(struct communicator *parent, int color, int key, struct communicator **made,
                           void *config) {
    if (parent == NULL || made == NULL)
        return NCCL_INVALID_ARGUMENT;
    *made = NULL;
    if (color == NO_COLOR)
        return SUCCESS;
    return make(made, split_ranks, split_ranks == UNKNOWN ? UNKNOWN : key, parent->device);
}

EXPORTED int ncclCommShrink(struct communicator *parent, int *excluded, int count, struct communicator **made,
                            void *config, int flags) {
    if (parent == NULL || made == NULL || (parent->ranks != UNKNOWN && count >= parent->ranks))
        return NCCL_INVALID_ARGUMENT;
    return make(made, UNKNOWN, UNKNOWN, parent->device);
}

EXPORTED int ncclCommGrow(struct communicator *parent, int ranks, const struct unique_id *id, int rank,
                          struct communicator **made, void *config) {
    if (rank < 0)
        rank = parent != NULL && parent->rank != UNKNOWN ? parent->rank : 0;
    return make(made, ranks, rank, current_device());
}

EXPORTED int ncclCommDestroy(struct communicator *own) {
    free(own);
    return SUCCESS;
}
ALIAS(ncclCommAbort, ncclCommDestroy)

/* What a communicator knows of itself. */
#define KNOWS(name, field)                                           \
    EXPORTED int name(const struct communicator *own, int *result) { \
        if (own == NULL)                                             \
            return NCCL_INVALID_ARGUMENT;                            \
        if (result == NULL)                                          \
            return NCCL_INVALID_ARGUMENT;                            \
        if (own->field == UNKNOWN)                                   \
            return (int)stand_in_refuse("libnccl", #name);           \
        *result = own->field;                                        \
        return SUCCESS;                                              \
    }
KNOWS(ncclCommCount, ranks)
KNOWS(ncclCommUserRank, rank)
KNOWS(ncclCommCuDevice, device)

EXPORTED int ncclCommGetAsyncError(struct communicator *own, int *error) {
    if (own == NULL || error == NULL)
        return NCCL_INVALID_ARGUMENT;
    *error = SUCCESS;
    return SUCCESS;
}

EXPORTED const char *ncclGetErrorString(int result) {
    switch (result) {
    case SUCCESS: return "no error";
    case NCCL_SYSTEM_ERROR: return "unhandled system error";
    case NCCL_INVALID_ARGUMENT: return "invalid argument";
    default: return "not modelled by the stand-in";
    }
}

EXPORTED const char *ncclGetLastError(struct communicator *own) { return ""; }

EXPORTED int ncclRedOpCreatePreMulSum(int *made, void *scalar, int type, int residence,
                                      struct communicator *own) {
    if (made == NULL || own == NULL)
        return NCCL_INVALID_ARGUMENT;
    *made = FIRST_OWN_REDUCTION;
    return SUCCESS;
}

EXPORTED int ncclRedOpDestroy(int reduction, struct communicator *own) {
    return reduction >= FIRST_OWN_REDUCTION ? SUCCESS : NCCL_INVALID_ARGUMENT;
}

extern int cudaMalloc(void **pointer, size_t size);
extern int cudaFree(void *pointer);

/* NCCL takes whole granules of cuMemCreate, 2 MiB, for it (src/include/alloc.h), as cudaMalloc does. */
EXPORTED int ncclMemAlloc(void **pointer, size_t size) {
    return cudaMalloc(pointer, size) == SUCCESS ? SUCCESS : NCCL_UNHANDLED_CUDA_ERROR;
}

EXPORTED int ncclMemFree(void *pointer) {
    return cudaFree(pointer) == SUCCESS ? SUCCESS : NCCL_UNHANDLED_CUDA_ERROR;
}

EXPORTED int ncclCommRegister(struct communicator *own, void *buffer, size_t size, void **handle) {
    if (handle == NULL)
        return NCCL_INVALID_ARGUMENT;
    *handle = new_handle();
    return own == NULL ? NCCL_INVALID_ARGUMENT : SUCCESS;
}

/* What is accepted where there is a communicator, and the place of that among the arguments. */
#define ACCEPTED(name, place) BY_WORDS(name, place, AT(place) ? SUCCESS : NCCL_INVALID_ARGUMENT)
/* A collective: its stream comes after the communicator. */
#define ENQUEUED(name, place) BY_WORDS(name, (place) + 1, enqueue(AT(place), AT((place) + 1)))
static int enqueue(const struct communicator *own, void *stream) {
    if (own == NULL)
        return NCCL_INVALID_ARGUMENT;
    note_work(stream);
    return SUCCESS;
}
ENQUEUED(ncclAllReduce, 6)
ENQUEUED(ncclReduce, 7)
ENQUEUED(ncclReduceScatter, 6)
ENQUEUED(ncclBroadcast, 6)
ENQUEUED(ncclBcast, 5)
ENQUEUED(ncclAllGather, 5)
ENQUEUED(ncclAlltoAll, 5)
ENQUEUED(ncclGather, 6)
ENQUEUED(ncclScatter, 6)
ENQUEUED(ncclSend, 5)
ENQUEUED(ncclRecv, 5)
ACCEPTED(ncclCommDeregister, 1)
ACCEPTED(ncclCommFinalize, 1)
EACH(SUCCEEDS, ncclGroupStart, ncclGroupEnd)
