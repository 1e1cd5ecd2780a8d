/* Reduces any number of inputs of any type, pair by pair, in blocks that fit into the L1 cache. */
#include "runtime/train/coll/reduce.h"

#include <string.h>

enum { BLOCK_BYTES = 4096, BLOCK_FLOATS = BLOCK_BYTES / 4 };

static const struct {
    const char *name;
    size_t size;
} dtypes[RT_DTYPES] = {
    [RT_F32] = {"f32", 4},
    [RT_F64] = {"f64", 8},
    [RT_F16] = {"f16", 2},
    [RT_BF16] = {"bf16", 2},
    [RT_I64] = {"i64", 8},
    [RT_I32] = {"i32", 4},
    [RT_U8] = {"u8", 1},
};

static const char *const ops[RT_OPS] = {
    [RT_SUM] = "sum", [RT_PROD] = "prod", [RT_MAX] = "max", [RT_MIN] = "min", [RT_AVG] = "avg"};

size_t rt_dtype_size(enum rt_dtype dtype) {
    return dtype < RT_DTYPES ? dtypes[dtype].size : 0;
}

const char *rt_dtype_name(enum rt_dtype dtype) {
    return dtype < RT_DTYPES ? dtypes[dtype].name : "?";
}

const char *rt_op_name(enum rt_op op) {
    return op < RT_OPS ? ops[op] : "?";
}

/* Two inputs, the usual case, need no block.  More are reduced in a block aside, as `out` may be
 * any of the inputs. */
static void reduce_same(const struct coll_kernels *k, enum rt_dtype dtype, enum rt_op op,
    double factor, char *out, const char *const *in, uint32_t n_in, size_t n) {
    coll_pair_fn pair = k->pair[dtype][op == RT_AVG ? RT_SUM : op];
    size_t size = dtypes[dtype].size, block = BLOCK_BYTES / size;
    if (n_in == 2 && op != RT_AVG) {
        pair(out, in[0], in[1], n);
        return;
    }
    _Alignas(64) char acc[BLOCK_BYTES];
    for (size_t i = 0; i < n; i += block) {
        size_t at = i * size, m = n - i < block ? n - i : block;
        const char *a = in[0] + at;
        for (uint32_t j = 1; j + 1 < n_in; j++) {
            pair(acc, a, in[j] + at, m);
            a = acc;
        }
        if (n_in > 1) {
            pair(out + at, a, in[n_in - 1] + at, m);
        } else if (out != in[0]) {
            memcpy(out + at, a, m * size);
        }
        if (op == RT_AVG) {
            k->scale[dtype](out + at, factor, m);
        }
    }
}

static void reduce_half(const struct coll_kernels *k, enum co_half half, enum rt_op op,
    double factor, uint16_t *out, const uint16_t *const *in, uint32_t n_in, size_t n) {
    coll_pair_fn pair = k->pair[RT_F32][op == RT_AVG ? RT_SUM : op];
    _Alignas(64) float acc[BLOCK_FLOATS], next[BLOCK_FLOATS];
    for (size_t i = 0; i < n; i += BLOCK_FLOATS) {
        size_t m = n - i < BLOCK_FLOATS ? n - i : BLOCK_FLOATS;
        co_half_widen(half, acc, in[0] + i, m);
        for (uint32_t j = 1; j < n_in; j++) {
            co_half_widen(half, next, in[j] + i, m);
            pair(acc, acc, next, m);
        }
        if (op == RT_AVG) {
            k->scale[RT_F32](acc, factor, m);
        }
        co_half_narrow(half, out + i, acc, m);
    }
}

void coll_reduce_n(const struct coll_kernels *k, enum rt_dtype dtype, enum rt_op op, double factor,
    void *out, const void *const *in, uint32_t n_in, size_t n) {
    if (dtype == RT_F16 || dtype == RT_BF16) {
        reduce_half(k, coll_half(dtype), op, factor, out, (const uint16_t *const *)in, n_in, n);
    } else {
        reduce_same(k, dtype, op, factor, out, (const char *const *)in, n_in, n);
    }
}
