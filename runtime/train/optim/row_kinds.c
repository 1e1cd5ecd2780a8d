/* Which rows a sparse table has: the kinds of admission and eviction, for who reads and who prints
 * them. */
#include "runtime/train/optim/row_kinds.h"

#include "common/mem.h"

#define LARGE 1e18
#define NONCLK "what a show without a click adds to the score"
#define CLICK "what a click adds to the score"

static const struct optim_row_kind admits[] = {
    {"all", 0, {{NULL}}, "an id has a row from its first push on"},
    {"count", 0, {{"n", 10, 1, 65535, "pushes before the row", .whole = true}},
        "an id gets a row with its n-th push"},
    {"probability", 0, {{"p", 0.1, 0, 1, "probability of a row with each push"}},
        "an id gets a row with a push at random"},
    {"show_click", 0,
        {{"threshold", 10, 1e-6, 1e9, "the score for a row"}, {"nonclk_coeff", 0.1, 0, 1e6, NONCLK},
            {"click_coeff", 1, 0, 1e6, CLICK}},
        "an id gets a row when its shows and clicks reach a score"},
};

static const struct optim_row_kind evicts[] = {
    {"none", 0, {{NULL}}, "rows stay"},
    {"ttl", 1,
        {{"seconds", 0, 0, 4e9, "time without a push; either this"},
            {"steps", 0, 0, 4e9, "or this, the same in steps", .whole = true}},
        "rows that were not pushed to for long are erased"},
    {"lfu", 1,
        {{"capacity", 0, 1, LARGE, "rows of the whole table, all servers together", .whole = true}},
        "beyond its capacity a table loses rows that are pushed to least often"},
    {"ctr", 4,
        {{"nonclk_coeff", 0.1, 0, 1e6, NONCLK}, {"click_coeff", 1, 0, 1e6, CLICK},
            {"base_threshold", 1.5, 0, LARGE, "least score of rows that a BASE or DELTA save has"},
            {"delta_threshold", 0.25, 0, LARGE,
                "least score since the last save, of rows that a DELTA save has"},
            {"delta_keep_days", 16, 0, 1e6,
                "days without a push, at most, of rows that such saves have"},
            {"show_click_decay_rate", 0.98, 0, 1, "each rt_shrink multiplies counts by it"},
            {"delete_threshold", 0.8, 0, LARGE, "rows of a lower score are erased"},
            {"delete_after_unseen_days", 30, 0, 1e6, "rows without a push for longer are erased"}},
        "rt_shrink erases rows by shows, clicks and age: Paddle's CtrCommonAccessor"},
};

const struct optim_row_kind *optim_admit_kinds(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(admits);
    return admits;
}

const struct optim_row_kind *optim_evict_kinds(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(evicts);
    return evicts;
}
