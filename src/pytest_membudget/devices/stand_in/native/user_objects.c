/* Objects that a graph keeps alive: PyTorch ties host memory to a graph by them.

   They live as long as the process: nothing that they hold is on a card. Source: CUDA Runtime API 13.2,
   "Graph Management", cudaUserObjectCreate. */
#include "errors.h"
#include "stand_in.h"

EXPORTED int cudaUserObjectCreate(void **object, void *pointer, void (*destroy)(void *), unsigned count,
                                  unsigned flags)
{
    *object = new_handle();
    return SUCCESS;
}

EXPORTED int cudaUserObjectRetain(void *object, unsigned count)
{
    return SUCCESS;
}

EXPORTED int cudaUserObjectRelease(void *object, unsigned count)
{
    return SUCCESS;
}

EXPORTED int cudaGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags)
{
    return SUCCESS;
}

EXPORTED int cudaGraphReleaseUserObject(void *graph, void *object, unsigned count)
{
    return SUCCESS;
}
