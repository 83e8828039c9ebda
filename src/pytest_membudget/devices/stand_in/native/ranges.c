/* Sets of address ranges: a sorted array. */
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

/* The index of the first range that ends after `address`. */
static size_t index_after(const struct ranges *ranges, uintptr_t address) {
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->sorted[middle].start + ranges->sorted[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int add_range(struct ranges *ranges, struct range range) {
    size_t index = index_after(ranges, range.start);
    if (ranges->count == ranges->room) {
        size_t room = ranges->room ? 2 * ranges->room : 256;
        struct range *longer = realloc(ranges->sorted, room * sizeof *longer);
        if (!longer)
            return 0;
        ranges->sorted = longer;
        ranges->room = room;
    }
    memmove(ranges->sorted + index + 1, ranges->sorted + index, (ranges->count - index) * sizeof range);
    ranges->sorted[index] = range;
    ranges->count++;
    return 1;
}

struct range *range_after(const struct ranges *ranges, uintptr_t address) {
    size_t index = index_after(ranges, address);
    return index < ranges->count ? &ranges->sorted[index] : NULL;
}

struct range *find_range(const struct ranges *ranges, uintptr_t address) {
    struct range *range = range_after(ranges, address);
    return range && range->start <= address ? range : NULL;
}

void remove_range(struct ranges *ranges, struct range *range) {
    size_t index = (size_t)(range - ranges->sorted);
    ranges->count--;
    memmove(range, range + 1, (ranges->count - index) * sizeof *range);
}
