/*
 * Reads and writes little-endian numbers at any address, for frames on the wire and checkpoint
 * files.  Knows no format.  Pure.
 */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void co_put_u16(unsigned char *p, uint16_t v) {
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}
static inline void co_put_u32(unsigned char *p, uint32_t v) {
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}
static inline void co_put_u64(unsigned char *p, uint64_t v) {
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}
static inline uint16_t co_get_u16(const unsigned char *p) {
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}
static inline uint32_t co_get_u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}
static inline uint64_t co_get_u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

/* Floats to or from little-endian bytes; on a little-endian host a plain copy.  `to` may be `from`.
 */
static inline void co_copy_f32(void *to, const void *from, size_t n) {
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
