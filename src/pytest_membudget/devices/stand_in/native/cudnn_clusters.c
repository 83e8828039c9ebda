/* Plans whose blocks run in clusters (compute capability 9.0 and later): cuDNN spreads their work over as many
   clusters as the card runs at once, and keeps a part of the result for each in its workspace. A plan that is made
   from a card's description does not know that number. On an H200 (torch 2.11, cuDNN 9.19) its workspaces were
   from 131 bytes smaller to 9 MiB larger than such a plan says, so that it is listed as not modelled.

   Constants and prototypes: cudnn_graph.h of cuDNN 9.19 and 9.26. */
#include "cudnn.h"
#include "stand_in.h"

enum { KNOB_CHOICE_DESCRIPTOR = 7 };                           /* cudnnBackendDescriptorType_t */
enum { ENGINECFG_KNOB_CHOICES = 302, KNOB_CHOICE_TYPE = 600 }; /* cudnnBackendAttributeName_t */
enum { TYPE_KNOB_TYPE = 9, TYPE_BACKEND_DESCRIPTOR = 15 };     /* cudnnBackendAttributeType_t */
enum { KNOB_TYPE_TILE_CGA_M = 27 };                            /* cudnnBackendKnobType_t */

enum { MOST_KNOBS = 32 };

/* Whether one of `count` choices is the size of a cluster. */
static bool choose_clusters(void *const *choices, int64_t count) {
    for (int64_t index = 0; index < count && index < MOST_KNOBS; ++index) {
        int type = -1;
        int64_t types = 0;
        if (!cudnn_attribute(choices[index], KNOB_CHOICE_TYPE, TYPE_KNOB_TYPE, 1, &types, &type) &&
            type == KNOB_TYPE_TILE_CGA_M)
            return true;
    }
    return false;
}

void cudnn_note_clusters(void *config) {
    int (*create)(int, void **) = cudnn_real("cudnnBackendCreateDescriptor");
    int (*destroy)(void *) = cudnn_real("cudnnBackendDestroyDescriptor");
    void *choices[MOST_KNOBS] = {NULL};
    int made = 0;
    int64_t count = 0;
    while (made < MOST_KNOBS && !create(KNOB_CHOICE_DESCRIPTOR, &choices[made]))
        ++made;
    if (made == MOST_KNOBS &&
        !cudnn_attribute(config, ENGINECFG_KNOB_CHOICES, TYPE_BACKEND_DESCRIPTOR, MOST_KNOBS, &count,
                         choices) &&
        choose_clusters(choices, count))
        not_modelled("cudnnBackendFinalize (convolution in clusters: up to 9 MiB more on an H200)");
    while (made)
        destroy(choices[--made]);
}
