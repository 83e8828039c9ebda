/* What the cudnn*.c share: the real cuDNN, and what a handle is here. */
#ifndef MEMBUDGET_CUDNN_H
#define MEMBUDGET_CUDNN_H

#include <stdbool.h>

#include "errors.h"
#include "libraries.h"

/* What the real size functions are passed in place of a handle; beyond what
   cudnn_description.c puts there it is zeros, in which they find no pointer. */
enum { CUDNN_DESCRIPTION_BYTES = 1 << 16 };

struct cudnn_handle {
    unsigned char description[CUDNN_DESCRIPTION_BYTES];
    bool is_described;
    void *stream;
};

/* A function of the cuDNN that this process loaded; it refuses where there is none. The caller says with a
   cast what it takes: an empty parameter list would promote float to double. */
void *cudnn_real(const char *name);

/* cudnnBackendGetAttribute of the real library. */
int cudnn_attribute(void *descriptor, int name, int type, int64_t most, int64_t *count, void *values);

/* The real library is about to be asked for memory: the report names its version. */
void cudnn_was_asked(void);

/* Put the card where the real size functions look for it. */
void cudnn_describe(struct cudnn_handle *handle, const struct card *card);

/* As above, for a size that may depend on the card: one that this cuDNN does not find in the handle is
   reported. */
void cudnn_was_asked_with(const struct cudnn_handle *handle);

/* What the real library answers to `words`, of which the first is a handle. */
int cudnn_size(const char *name, const uintptr_t *words, size_t count);

/* A size that may depend on the card, by the number of the function's arguments: 11 at most. */
#define CUDNN_SIZE(name, count) BY_WORDS(name, count, cudnn_size(#name, words, count))

/* The device-properties descriptor of a card, which the real library plans for; NULL where it takes none. */
void *cudnn_device_properties(int device);

/* Lists a plan of `config` as not modelled where the card decides its workspace. */
void cudnn_note_workspace(void *config);

/* Whether `plan`, whose engine `config` describes, is left as it is: its kernels would be compiled, and its
   workspace is known without that. */
bool cudnn_plan_waits(void *plan, void *config);

/* The plan is gone, or is finalized now; false where it does not wait. */
bool cudnn_forget_plan(void *plan);

/* What the states of dropout's generator take. */
size_t cudnn_dropout_states_bytes(const struct card *card);

#endif
