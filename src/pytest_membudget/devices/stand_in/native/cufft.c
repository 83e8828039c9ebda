/* cuFFT: plans and their work areas.

   PyTorch plans with cufftXtMakePlanMany after cufftSetAutoAllocation(plan, 0), allocates the returned work
   size with its own caching allocator at each call and passes it with cufftSetWorkArea
   (aten/src/ATen/native/cuda/ CuFFTPlanCache.h and SpectralOps.cpp, torch 2.11 to 2.15). The work size is
   the one figure that matters here, and the vendor publishes no rule for it (see work_bytes), so every plan
   is recorded as not modelled. Prototypes: cufft.h and cufftXt.h of CUDA 12.6 to 13.2. */
#include <pthread.h>
#include <stdlib.h>

#include "errors.h"
#include "libraries.h"

/* A cufftHandle is an int: an index of this table, whose entry is the plan's work size. Handles are not
   used again, as PyTorch's plan cache keeps a plan until the process ends or the cache is full (4,095
   plans). */
static size_t *plan_work_bytes;
static int plan_count, plan_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORTED int cufftCreate(int *plan) {
    int result = CUFFT_ALLOC_FAILED;
    pthread_mutex_lock(&lock);
    if (plan_count == plan_room) {
        int room = plan_room ? 2 * plan_room : 64;
        size_t *grown = realloc(plan_work_bytes, (size_t)room * sizeof *grown);
        if (grown)
            plan_work_bytes = grown, plan_room = room;
    }
    if (plan_count < plan_room) {
        plan_work_bytes[plan_count] = 0;
        *plan = plan_count++;
        result = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int keep_work_bytes(int plan, size_t bytes) {
    int result = CUFFT_INVALID_PLAN;
    pthread_mutex_lock(&lock);
    if (plan >= 0 && plan < plan_count)
        plan_work_bytes[plan] = bytes, result = SUCCESS;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORTED int cufftGetSize(int plan, size_t *work_size) {
    int result = CUFFT_INVALID_PLAN;
    pthread_mutex_lock(&lock);
    if (plan >= 0 && plan < plan_count)
        *work_size = plan_work_bytes[plan], result = SUCCESS;
    pthread_mutex_unlock(&lock);
    return result;
}

/* One copy of the signals in complex numbers, what is stored of them: n/2 + 1 of the last dimension where
   one side is real. It fits what is recorded in public:
   - complex64, 100 x 100 to 100 x 1500: 80,000 to 1,200,000 B (arrayfire, issue 1443, CUDA 7.5);
   - complex64, 512 x 512: 2 MiB; 32 of them: 64 MiB (CUDA.jl, issue 894, CUDA 11);
   - float64 to complex128, 10 of 100,000,000: 8,000,000,160 B (exojax, issue 277, CUDA 11).
   Short signals of one dimension, which fit into shared memory, may take none, and lengths with large prime
   factors take more; neither is published. The documentation (cuFFT 13.2) bounds all by 8 complex elements
   for each of the signal's. */
static size_t work_bytes(int rank, const long long *sizes, size_t complex_bytes, int half_is_stored,
                         long long batch) {
    size_t elements = (size_t)batch;
    for (int dimension = 0; dimension < rank; ++dimension) {
        int halved = half_is_stored && dimension == rank - 1;
        elements *= (size_t)(halved ? sizes[dimension] / 2 + 1 : sizes[dimension]);
    }
    return elements * complex_bytes;
}

/* cudaDataType, library_types.h. */
static int is_complex(int type) { return type == 4 || type == 5 || type == 6 || type == 15; }

EXPORTED int cufftXtGetSizeMany(int plan, int rank, long long *sizes, long long *inembed, long long istride,
                                long long idist, int input_type, long long *onembed, long long ostride,
                                long long odist, int output_type, long long batch, size_t *work_size,
                                int execution_type) {
    if (!is_complex(execution_type))
        return CUFFT_INVALID_TYPE;
    not_modelled("cufftXtMakePlanMany");
    int half_is_stored = !is_complex(input_type) || !is_complex(output_type);
    *work_size = work_bytes(rank, sizes, data_type_bytes(execution_type), half_is_stored, batch);
    return SUCCESS;
}

EXPORTED int cufftXtMakePlanMany(int plan, int rank, long long *sizes, long long *inembed, long long istride,
                                 long long idist, int input_type, long long *onembed, long long ostride,
                                 long long odist, int output_type, long long batch, size_t *work_size,
                                 int execution_type) {
    int result = cufftXtGetSizeMany(plan, rank, sizes, inembed, istride, idist, input_type, onembed, ostride,
                                    odist, output_type, batch, work_size, execution_type);
    return result == SUCCESS ? keep_work_bytes(plan, *work_size) : result;
}

/* A plan's settings and execution: the work area and the output are the caller's allocations. */
EACH(SUCCEEDS, cufftDestroy, cufftSetAutoAllocation, cufftSetStream, cufftSetWorkArea, cufftXtExec,
     cufftExecC2C, cufftExecR2C, cufftExecC2R, cufftExecZ2Z, cufftExecD2Z, cufftExecZ2D)
