/* Bulk arrays of floats and ids in frames, little-endian.  Pure. */
#pragma once

#include <stddef.h>

#include "common/bytes.h"

/* Works in both directions. On a little-endian host it is a plain copy. */
static inline void rpc_copy_f32(void *to, const void *from, size_t n) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (to != from) {
        memcpy(to, from, n * 4);
    }
#else
    for (size_t i = 0; i < n; i++) {
        co_put_u32((unsigned char *)to + i * 4, *(const uint32_t *)((const char *)from + i * 4));
    }
#endif
}
