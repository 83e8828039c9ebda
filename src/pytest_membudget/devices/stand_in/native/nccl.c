/* NCCL as PyTorch's ProcessGroupNCCL and torch.cuda.nccl call it: communicators are there, collectives are
   accepted and move nothing, since the other ranks are not there.

   Everything that PyTorch does around a collective, streams, flattened copies, events, is its own. What NCCL
   itself takes on a card is computed by formula (nccl.py) and is not allocated here. Prototypes and numbers:
   nccl.h of NVIDIA/nccl 2.30.7, the same in 2.27 to 2.29. */
#include "stand_in.h"

#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 }; /* ncclResult_t */
#define NO_COLOR (-1)   /* NCCL_SPLIT_NOCOLOR */
#define UNKNOWN (-1)
#define FIRST_OWN_REDUCTION 5 /* ncclNumOps: where numbers of reductions that are made begin */

struct unique_id {
    char bytes[128]; /* NCCL_UNIQUE_ID_BYTES */
};

struct communicator {
    int ranks, rank; /* UNKNOWN where only the others know */
    int device;
};

static int make(struct communicator **made, int ranks, int rank, int device)
{
    if (made == NULL || (ranks != UNKNOWN && (ranks < 1 || rank < 0 || rank >= ranks)))
        return INVALID_ARGUMENT;
    *made = malloc(sizeof **made);
    if (*made == NULL)
        return SYSTEM_ERROR;
    **made = (struct communicator){ranks, rank, device};
    return SUCCESS;
}

static int refuse(const char *function)
{
    not_modelled(function);
    return INVALID_USAGE;
}

static int known(int number, int *result)
{
    if (number == UNKNOWN || result == NULL)
        return INVALID_USAGE;
    *result = number;
    return SUCCESS;
}

EXPORTED int ncclGetUniqueId(struct unique_id *id)
{
    if (id == NULL)
        return INVALID_ARGUMENT;
    memset(id, 0, sizeof *id);
    void *handle = new_handle();
    memcpy(id, &handle, sizeof handle);
    return SUCCESS;
}

EXPORTED int ncclCommGetUniqueId(struct communicator *parent, struct unique_id *id)
{
    return parent == NULL ? INVALID_ARGUMENT : ncclGetUniqueId(id);
}

EXPORTED int ncclCommInitRank(struct communicator **made, int ranks, struct unique_id id, int rank)
{
    (void)id;
    return make(made, ranks, rank, current_device());
}

EXPORTED int ncclCommInitRankConfig(struct communicator **made, int ranks, struct unique_id id, int rank,
                                    void *config)
{
    (void)config;
    return ncclCommInitRank(made, ranks, id, rank);
}

EXPORTED int ncclCommInitRankScalable(struct communicator **made, int ranks, int rank, int ids,
                                      struct unique_id *all, void *config)
{
    (void)ids, (void)all, (void)config;
    return make(made, ranks, rank, current_device());
}

/* All ranks are this process's own: torch.nn.DataParallel. */
EXPORTED int ncclCommInitAll(struct communicator **made, int devices, const int *list)
{
    for (int place = 0; place < devices; place++) {
        int result = make(made + place, devices, place, list != NULL ? list[place] : place);
        if (result != SUCCESS)
            return result;
    }
    return SUCCESS;
}

/* How many ranks give the same colour only they know: whoever splits says so before, on the same thread. */
static __thread int split_ranks = UNKNOWN;

EXPORTED void stand_in_nccl_split_into(int ranks)
{
    split_ranks = ranks;
}

/* PyTorch's key is the rank in the new communicator. */
EXPORTED int ncclCommSplit(struct communicator *parent, int color, int key, struct communicator **made,
                           void *config)
{
    (void)config;
    if (parent == NULL || made == NULL)
        return INVALID_ARGUMENT;
    *made = NULL;
    if (color == NO_COLOR)
        return SUCCESS;
    return make(made, split_ranks, split_ranks == UNKNOWN ? UNKNOWN : key, parent->device);
}

EXPORTED int ncclCommShrink(struct communicator *parent, int *excluded, int count,
                            struct communicator **made, void *config, int flags)
{
    (void)excluded, (void)config, (void)flags;
    if (parent == NULL || made == NULL || (parent->ranks != UNKNOWN && count >= parent->ranks))
        return INVALID_ARGUMENT;
    return make(made, UNKNOWN, UNKNOWN, parent->device);
}

EXPORTED int ncclCommGrow(struct communicator *parent, int ranks, const struct unique_id *id, int rank,
                          struct communicator **made, void *config)
{
    (void)id, (void)config;
    if (rank >= 0)
        return make(made, ranks, rank, current_device());
    return make(made, ranks, parent != NULL && parent->rank != UNKNOWN ? parent->rank : 0, current_device());
}

EXPORTED int ncclCommFinalize(struct communicator *own)
{
    return own == NULL ? INVALID_ARGUMENT : SUCCESS;
}

EXPORTED int ncclCommDestroy(struct communicator *own)
{
    free(own);
    return SUCCESS;
}

EXPORTED int ncclCommAbort(struct communicator *own)
{
    return ncclCommDestroy(own);
}

EXPORTED int ncclCommRevoke(struct communicator *own, int flags)
{
    (void)own, (void)flags;
    return refuse("ncclCommRevoke");
}

EXPORTED int ncclCommSuspend(struct communicator *own, int flags)
{
    (void)own, (void)flags;
    return refuse("ncclCommSuspend");
}

EXPORTED int ncclCommResume(struct communicator *own)
{
    (void)own;
    return refuse("ncclCommResume");
}

EXPORTED int ncclCommMemStats(struct communicator *own, int statistic, uint64_t *value)
{
    (void)own, (void)statistic, (void)value;
    return refuse("ncclCommMemStats");
}

EXPORTED int ncclCommCount(const struct communicator *own, int *count)
{
    return own == NULL ? INVALID_ARGUMENT : known(own->ranks, count);
}

EXPORTED int ncclCommUserRank(const struct communicator *own, int *rank)
{
    return own == NULL ? INVALID_ARGUMENT : known(own->rank, rank);
}

EXPORTED int ncclCommCuDevice(const struct communicator *own, int *device)
{
    return own == NULL ? INVALID_ARGUMENT : known(own->device, device);
}

EXPORTED int ncclCommGetAsyncError(struct communicator *own, int *error)
{
    if (own == NULL || error == NULL)
        return INVALID_ARGUMENT;
    *error = SUCCESS;
    return SUCCESS;
}

EXPORTED const char *ncclGetErrorString(int result)
{
    switch (result) {
    case SUCCESS:
        return "no error";
    case SYSTEM_ERROR:
        return "unhandled system error";
    case INVALID_ARGUMENT:
        return "invalid argument";
    case INVALID_USAGE:
        return "invalid usage, or not modelled by the stand-in";
    default:
        return "unknown result code";
    }
}

EXPORTED const char *ncclGetLastError(struct communicator *own)
{
    (void)own;
    return "";
}

EXPORTED int ncclGroupStart(void)
{
    return SUCCESS;
}

EXPORTED int ncclGroupEnd(void)
{
    return SUCCESS;
}

EXPORTED int ncclGroupSimulateEnd(void *estimate)
{
    (void)estimate;
    return refuse("ncclGroupSimulateEnd");
}

EXPORTED int ncclRedOpCreatePreMulSum(int *made, void *scalar, int type, int residence,
                                      struct communicator *own)
{
    (void)scalar, (void)type, (void)residence;
    if (made == NULL || own == NULL)
        return INVALID_ARGUMENT;
    *made = FIRST_OWN_REDUCTION;
    return SUCCESS;
}

EXPORTED int ncclRedOpDestroy(int reduction, struct communicator *own)
{
    (void)own;
    return reduction >= FIRST_OWN_REDUCTION ? SUCCESS : INVALID_ARGUMENT;
}
