/* Floats that ranks have in common: are they numbers, and whose are the newest. */
#include <string.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"

/* All exponent bits set is infinity or NaN.  No early end within a block: it is vectorised. */
bool rt_finite(const float *values, size_t n) {
    enum { BLOCK = 4096 };
    for (size_t from = 0; from < n; from += BLOCK) {
        size_t to = n - from < BLOCK ? n : from + BLOCK;
        uint32_t bad = 0;
        for (size_t i = from; i < to; i++) {
            uint32_t u;
            memcpy(&u, &values[i], sizeof(u));
            bad |= (u & 0x7f800000U) == 0x7f800000U;
        }
        if (bad) {
            return false;
        }
    }
    return true;
}

int rt_all_finite(
    struct rt_group *g, const float *values, size_t n, bool *ret_finite, struct co_err *err) {
    uint8_t all = rt_finite(values, n);
    int rc = rt_all_reduce(g, &all, &all, 1, RT_U8, RT_MIN, err);
    if (rc == 0) {
        *ret_finite = all;
    }
    return rc;
}

int rt_broadcast_newest(struct rt_group *g, uint64_t *step, const struct rt_values *list,
    size_t n_list, struct co_err *err) {
    CO_AUTOFREE uint64_t *steps = co_xcalloc(rt_group_size(g), sizeof(*steps));
    int rc = rt_all_gather(g, step, steps, 1, RT_I64, err);
    uint32_t newest = 0;
    for (uint32_t i = 1; i < rt_group_size(g); i++) {
        newest = steps[i] > steps[newest] ? i : newest;
    }
    for (size_t i = 0; i < n_list && rc == 0; i++) {
        rc = list[i].n ? rt_broadcast(g, list[i].values, list[i].n, RT_F32, newest, err) : 0;
    }
    if (rc == 0) {
        *step = steps[newest];
    }
    return rc;
}
