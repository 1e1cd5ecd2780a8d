/* What all ranks must have alike: the options of rt.h, field by field, and the gradients. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/map.h"
#include "common/mem.h"
#include "runtime/train/dp/dp.h"

/* SAME: the field's value.  SET: whether it is set.  APART: ranks may differ, or the field is in
 * one of the sums below. */
enum how { SAME, SET, APART };

/* Each field of both structs has a row: the assertions count their bytes. */
#define OPTIONS(X)                                                                                 \
    X(rt_reducer_options, bucket_bytes, APART)      /* SUM_BUCKETS */                              \
    X(rt_reducer_options, last_bucket_bytes, APART) /* SUM_BUCKETS */                              \
    X(rt_reducer_options, wire, SAME)                                                              \
    X(rt_reducer_options, merge_steps, SAME)                                                       \
    X(rt_reducer_options, merge_sum, SAME)                                                         \
    X(rt_reducer_options, dgc, SET)                                                                \
    X(rt_reducer_options, error_feedback, SAME)                                                    \
    X(rt_reducer_options, spare, APART) /* zero */
#define DGC(X)                                                                                     \
    X(rt_dgc, momentum, SAME)                                                                      \
    X(rt_dgc, nesterov, SAME)                                                                      \
    X(rt_dgc, l2, SAME)                                                                            \
    X(rt_dgc, clip_norm, SAME)                                                                     \
    X(rt_dgc, rampup_begin_step, SAME)                                                             \
    X(rt_dgc, rampup_step, SAME)                                                                   \
    X(rt_dgc, sparsity, APART) /* SUM_SPARSITY */                                                  \
    X(rt_dgc, n_sparsity, SAME)

#define BYTES(of, field, how) +sizeof(((struct of *)NULL)->field)
enum { OPTIONS_GAPS = 14, DGC_GAPS = 3 }; /* behind fields of one byte */
_Static_assert(
    0 OPTIONS(BYTES) + OPTIONS_GAPS == sizeof(struct rt_reducer_options), "a row for each field");
_Static_assert(0 DGC(BYTES) + DGC_GAPS == sizeof(struct rt_dgc), "a row for each field");

#define ROW(of, field, how)                                                                        \
    {#of "." #field, offsetof(struct of, field), sizeof(((struct of *)NULL)->field), how},
struct dp_field {
    const char *name;
    size_t at, bytes;
    enum how how;
};
static const struct dp_field options[] = {OPTIONS(ROW)};
static const struct dp_field dgc[] = {DGC(ROW)};

enum sum { SUM_NUMBER, SUM_SIZES, SUM_BUCKETS, SUM_NAMES, SUM_PARAMETERS, SUM_SPARSITY, SUMS };
static const char *const sum_names[SUMS] = {
    [SUM_NUMBER] = "number of gradients",
    [SUM_SIZES] = "sizes of gradients",
    [SUM_BUCKETS] = "bucket_bytes or last_bucket_bytes",
    [SUM_NAMES] = "names of gradients",
    [SUM_PARAMETERS] = "parameters for rt_dgc.l2",
    [SUM_SPARSITY] = "rt_dgc.sparsity",
};

/*     options | dgc | sums: what names the cause is first */
enum { OF_DGC = CO_ARRAY_LEN(options), OF_SUMS = OF_DGC + CO_ARRAY_LEN(dgc) };
_Static_assert((int)DP_ALIKE == (int)OF_SUMS + (int)SUMS, "a place for each");

static uint64_t more(uint64_t h, uint64_t value) {
    uint64_t pair[2] = {h, value};
    return co_hash(pair, sizeof(pair));
}

static void fields(const struct dp_field *rows, size_t n, const void *from, uint64_t *ret) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char *at = (const unsigned char *)from + rows[i].at;
        const void *pointer = NULL;
        if (rows[i].how == SAME) {
            ret[i] = co_hash(at, rows[i].bytes);
        } else if (rows[i].how == SET) {
            memcpy(&pointer, at, sizeof(pointer));
            ret[i] = pointer != NULL;
        }
    }
}

void dp_alike_fill(
    const struct rt_reducer *r, const struct rt_reducer_options *o, uint64_t ret[DP_ALIKE]) {
    memset(ret, 0, DP_ALIKE * sizeof(*ret));
    fields(options, CO_ARRAY_LEN(options), o, ret);
    fields(dgc, CO_ARRAY_LEN(dgc), &r->dgc, ret + OF_DGC);
    uint64_t *sums = ret + OF_SUMS;
    sums[SUM_NUMBER] = r->n;
    for (size_t i = 0; i < r->n; i++) {
        const struct dp_slot *s = &r->slots[i];
        bool decays = r->dgc.l2 != 0 && s->parameter;
        sums[SUM_SIZES] = more(sums[SUM_SIZES], s->n);
        sums[SUM_BUCKETS] = more(sums[SUM_BUCKETS], s->bucket);
        sums[SUM_NAMES] = more(sums[SUM_NAMES], co_hash_str(s->name));
        sums[SUM_PARAMETERS] = more(sums[SUM_PARAMETERS], decays);
    }
    sums[SUM_SPARSITY] = co_hash(r->dgc.sparsity, r->dgc.n_sparsity * sizeof(*r->dgc.sparsity));
}

const char *dp_alike_differs(const uint64_t a[DP_ALIKE], const uint64_t b[DP_ALIKE]) {
    for (size_t i = 0; i < DP_ALIKE; i++) {
        if (a[i] != b[i]) {
            return i < OF_DGC    ? options[i].name
                   : i < OF_SUMS ? dgc[i - OF_DGC].name
                                 : sum_names[i - OF_SUMS];
        }
    }
    return NULL;
}
