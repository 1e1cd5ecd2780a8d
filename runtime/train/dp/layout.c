/* Assigns gradients to buckets, from the end of the list, which is the beginning of the model.  The
 * gradient that is ready last cannot overlap with computation any more, so its bucket is small. */
#include "runtime/train/dp/dp.h"

struct open_bucket {
    bool is;
    uint32_t id; /* counted from the end */
    size_t floats, limit;
};

static size_t aligned(size_t floats) {
    return (floats + DP_ALIGN - 1) / DP_ALIGN * DP_ALIGN;
}

uint32_t dp_layout(
    struct dp_layout_item *items, size_t n, size_t bucket_floats, size_t last_floats) {
    struct open_bucket open[2] = {0};
    uint32_t made = 0;
    for (size_t i = n; i-- > 0;) {
        struct open_bucket *b = &open[items[i].sparse];
        size_t floats = aligned(items[i].floats);
        if (!b->is || floats > b->limit - b->floats) {
            size_t limit = made == 0 ? last_floats : bucket_floats;
            *b = (struct open_bucket){
                .is = true, .id = made++, .limit = limit > floats ? limit : floats};
        }
        b->floats += floats;
        items[i].bucket = b->id;
        items[i].at = b->floats; /* from the bucket's end */
    }
    /* Items become ready from first to last, so a bucket is complete with the item that opened it:
     * buckets that were opened later are complete earlier. */
    size_t end[2] = {0};
    uint32_t in[2] = {made, made};
    for (size_t i = 0; i < n; i++) {
        int kind = items[i].sparse;
        if (items[i].bucket != in[kind]) { /* the first item of a bucket is furthest from its end */
            in[kind] = items[i].bucket;
            end[kind] = items[i].at;
        }
        items[i].at = end[kind] - items[i].at;
        items[i].bucket = made - 1 - items[i].bucket;
    }
    return made;
}
