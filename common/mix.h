/* Scatters numbers: what differs in one bit looks unlike another.  Pure. */
#pragma once

#include <stdint.h>

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t co_mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}
