/* Whether the values of all ranks are finite, and which rank has the newest ones. */
#include <string.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"

/* All exponent bits set: infinity or NaN.  Has no early exit, so that it is vectorised. */
static bool block_finite(const float *values, size_t n) {
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &values[i], sizeof(u));
        bad |= (u & 0x7f800000U) == 0x7f800000U;
    }
    return !bad;
}

int dp_finite(
    struct rt_group *g, const float *values, size_t n, bool *ret_finite, struct co_err *err) {
    enum { BLOCK = 4096, COPIED = 256 * 1024 };
    bool finite = true, gpu = dp_group_on_gpu(g);
    size_t block = gpu ? COPIED : BLOCK;
    CO_AUTOFREE float *copy = gpu ? co_xcalloc(block, sizeof(*copy)) : NULL;
    for (size_t from = 0; from < n && finite; from += block) {
        size_t some = n - from < block ? n - from : block;
        if (gpu) {
            CO_TRY(rt_group_copy(g, copy, values + from, some * sizeof(*copy), err));
        }
        finite = block_finite(gpu ? copy : values + from, some);
    }
    *ret_finite = finite;
    return 0;
}

int rt_all_finite(
    struct rt_group *g, const float *values, size_t n, bool *ret_finite, struct co_err *err) {
    bool finite = false;
    int own = dp_finite(g, values, n, &finite, err); /* also after an error: the others wait */
    uint8_t all = finite;
    int rc = rt_all_reduce(g, &all, &all, 1, RT_U8, RT_MIN, own < 0 ? NULL : err);
    if (rc == 0 && own == 0) {
        *ret_finite = all;
    }
    return own < 0 ? own : rc;
}

int rt_broadcast_newest(struct rt_group *g, uint64_t *step, const struct rt_values *list,
    size_t n_list, struct co_err *err) {
    CO_AUTOFREE uint64_t *steps = co_xcalloc(rt_group_size(g), sizeof(*steps));
    int rc = coll_use_run(g, COLL_USE_NEWEST, step, steps, 1, RT_I64, err);
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
