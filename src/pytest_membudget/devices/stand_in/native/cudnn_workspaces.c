/* Plans whose workspace a description of the card does not decide: such a plan is listed as not modelled.

   Clusters of blocks (compute capability 9.0 and later): cuDNN spreads their work over as many as the card runs
   at once, and keeps a part of the result for each in its workspace. Products of matrices by cuBLASLt: their
   workspace has what cuBLASLt's algorithm wants, of at most 4 MiB, or 128, where the plan lets it choose. On an
   H100 (torch 2.11, cuDNN 9.19) 70 of 111 convolutions of the first kind and 25 of 28 of the second took other
   workspaces than such a plan says, from 2 MiB less to 8.3 MiB more, a tile of 64 KiB for each multiprocessor;
   41 others, of which 16 are products that get no workspace, took what theirs say.

   Constants and prototypes: cudnn_graph.h of cuDNN 9.19 and 9.26. */
#include "cudnn.h"
#include "stand_in.h"

enum { KNOB_CHOICE_DESCRIPTOR = 7 }; /* cudnnBackendDescriptorType_t */
/* cudnnBackendAttributeName_t */
enum { ENGINECFG_KNOB_CHOICES = 302, KNOB_CHOICE_TYPE = 600, KNOB_CHOICE_VALUE = 601 };
/* cudnnBackendAttributeType_t */
enum { TYPE_INT64 = 3, TYPE_KNOB_TYPE = 9, TYPE_BACKEND_DESCRIPTOR = 15 };
enum { KNOB_TYPE_WORKSPACE = 25, KNOB_TYPE_TILE_CGA_M = 27 }; /* cudnnBackendKnobType_t */

enum { MOST_KNOBS = 32 };

/* What the plan's workspace depends on; NULL where the description decides it. */
static const char *unknown_workspace(void *const *choices, int64_t count) {
    for (int64_t index = 0; index < count && index < MOST_KNOBS; ++index) {
        int type = -1;
        int64_t found = 0, value = 0;
        if (cudnn_attribute(choices[index], KNOB_CHOICE_TYPE, TYPE_KNOB_TYPE, 1, &found, &type))
            continue;
        if (type == KNOB_TYPE_TILE_CGA_M)
            return "cudnnBackendFinalize "
                   "(convolution in clusters, from Hopper on: up to 9 MiB more on an H100)";
        if (type == KNOB_TYPE_WORKSPACE && count == 1 && /* the one choice of cuBLASLt's engines */
            !cudnn_attribute(choices[index], KNOB_CHOICE_VALUE, TYPE_INT64, 1, &found, &value) && value)
            return "cudnnBackendFinalize (convolution by cuBLASLt: up to 9 MiB more on an H100)";
    }
    return NULL;
}

void cudnn_note_workspace(void *config) {
    int (*create)(int, void **) = cudnn_real("cudnnBackendCreateDescriptor");
    int (*destroy)(void *) = cudnn_real("cudnnBackendDestroyDescriptor");
    void *choices[MOST_KNOBS] = {NULL};
    int made = 0;
    int64_t count = 0;
    while (made < MOST_KNOBS && !create(KNOB_CHOICE_DESCRIPTOR, &choices[made]))
        ++made;
    if (made == MOST_KNOBS && !cudnn_attribute(config, ENGINECFG_KNOB_CHOICES, TYPE_BACKEND_DESCRIPTOR,
                                               MOST_KNOBS, &count, choices)) {
        const char *unknown = unknown_workspace(choices, count);
        if (unknown)
            not_modelled(unknown);
    }
    while (made)
        destroy(choices[--made]);
}
