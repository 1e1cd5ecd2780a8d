/* CRC-32 with eight tables, for eight bytes at a time ("slicing by 8", Kounavis and Berry 2005). */
#include "common/crc.h"

#include <pthread.h>

#include "common/bytes.h"

enum { SLICES = 8 };

static const uint32_t polynomials[] = {[CO_CRC32] = 0xEDB88320U, [CO_CRC32C] = 0x82F63B78U};
static uint32_t tables[2][SLICES][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (int kind = 0; kind < 2; kind++) {
        uint32_t(*t)[256] = tables[kind];
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++) {
                c = c >> 1 ^ (c & 1 ? polynomials[kind] : 0);
            }
            t[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++) {
            for (int s = 1; s < SLICES; s++) {
                t[s][i] = t[s - 1][i] >> 8 ^ t[0][t[s - 1][i] & 255];
            }
        }
    }
}

uint32_t co_crc(enum co_crc kind, uint32_t so_far, const void *data, size_t len) {
    (void)pthread_once(&made, make_tables);
    const uint32_t(*t)[256] = (const uint32_t(*)[256])tables[kind];
    const unsigned char *p = data;
    uint32_t c = ~so_far;
    for (; len >= SLICES; len -= SLICES, p += SLICES) {
        uint32_t a = c ^ co_get_u32(p), b = co_get_u32(p + 4);
        c = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^
            t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
    }
    for (; len > 0; len--, p++) {
        c = c >> 8 ^ t[0][(c ^ *p) & 255];
    }
    return ~c;
}
