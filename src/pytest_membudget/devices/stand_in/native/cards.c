/* The cards of this process: from MEMBUDGET_STAND_IN_CARDS, or set before CUDA is first used.

   One line a card: "name=NVIDIA A100-SXM4-80GB;total_bytes=85899345920;major=8;...", every field of
   struct card. Without the variable there is no card. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "stand_in.h"

static struct card cards[MOST_CARDS];
static int count;

enum field_kind { TEXT, WHOLE, BYTES };

#define FIELD(name, kind) {#name, offsetof(struct card, name), kind}
static const struct field {
    const char *key;
    size_t offset;
    enum field_kind kind;
} fields[] = {
    FIELD(name, TEXT),
    FIELD(total_bytes, BYTES),
    FIELD(major, WHOLE),
    FIELD(minor, WHOLE),
    FIELD(multiprocessors, WHOLE),
    FIELD(shared_bytes_per_block_optin, BYTES),
    FIELD(shared_bytes_per_multiprocessor, BYTES),
    FIELD(l2_bytes, BYTES),
    FIELD(threads_per_multiprocessor, WHOLE),
    FIELD(blocks_per_multiprocessor, WHOLE),
    FIELD(clock_khz, WHOLE),
    FIELD(memory_clock_khz, WHOLE),
    FIELD(memory_bus_bits, WHOLE),
    FIELD(peers, WHOLE),
    FIELD(context_bytes, BYTES),
    FIELD(capacity_bytes, BYTES),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int read_value(const struct field *field, const char *text, struct card *card) {
    char *place = (char *)card + field->offset, *end;
    if (field->kind == TEXT) {
        if (strlen(text) >= sizeof card->name)
            return 0;
        strcpy(place, text);
        return 1;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || strchr(text, '-') || (field->kind == WHOLE && value > 0x7fffffff))
        return 0;
    if (field->kind == WHOLE)
        *(int *)place = (int)value;
    else
        *(size_t *)place = (size_t)value;
    return 1;
}

/* Whether `line` has every field once, and nothing else. It is written to. */
static int read_card(char *line, struct card *card) {
    unsigned seen = 0;
    char *rest = NULL;
    memset(card, 0, sizeof *card);
    for (char *pair = strtok_r(line, ";", &rest); pair; pair = strtok_r(NULL, ";", &rest)) {
        char *value = strchr(pair, '=');
        unsigned index = 0;
        if (!value)
            return 0;
        *value++ = 0;
        while (index < FIELDS && strcmp(fields[index].key, pair) != 0)
            index++;
        if (index == FIELDS || seen & 1u << index || !read_value(&fields[index], value, card))
            return 0;
        seen |= 1u << index;
    }
    return seen == (1u << FIELDS) - 1;
}

static int read_cards(char *text, struct card *read) {
    int found = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (found == MOST_CARDS || !read_card(line, &read[found]))
            return -1;
        found++;
    }
    return found;
}

/* 0, or another value and no change where the text is wrong. */
static int set_cards(const char *text) {
    char *copy = strdup(text);
    struct card *read = calloc(MOST_CARDS, sizeof *read);
    int found = copy && read ? read_cards(copy, read) : -1;
    if (found >= 0) {
        lock_state();
        memcpy(cards, read, sizeof cards);
        count = found;
        unlock_state();
    }
    free(read);
    free(copy);
    return found >= 0 ? SUCCESS : INVALID_VALUE;
}

__attribute__((constructor)) static void cards_of_environment(void) {
    const char *text = getenv("MEMBUDGET_STAND_IN_CARDS");
    if (text)
        set_cards(text);
}

/* The cards from now on; 0, or another value and no change where the text is wrong. To be called before
   anything in the process has asked for CUDA. */
EXPORTED int stand_in_set_cards(const char *text) { return set_cards(text); }

int card_count(void) { return count; }

const struct card *card_at(int device) { return device >= 0 && device < count ? &cards[device] : NULL; }
