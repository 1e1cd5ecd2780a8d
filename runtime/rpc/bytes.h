/* Little-endian numbers at any address; bulk arrays of floats and ids.  Pure. */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void rt_put_u16(unsigned char *p, uint16_t v) {
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}
static inline void rt_put_u32(unsigned char *p, uint32_t v) {
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}
static inline void rt_put_u64(unsigned char *p, uint64_t v) {
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}
static inline uint16_t rt_get_u16(const unsigned char *p) {
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}
static inline uint32_t rt_get_u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}
static inline uint64_t rt_get_u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

/* Arrays in both directions: on a little-endian host nothing but a copy. */
static inline void rt_copy_f32(void *to, const void *from, size_t n) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(to, from, n * 4);
#else
    for (size_t i = 0; i < n; i++) {
        rt_put_u32((unsigned char *)to + i * 4, *(const uint32_t *)((const char *)from + i * 4));
    }
#endif
}
