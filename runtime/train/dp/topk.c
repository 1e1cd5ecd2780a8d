/* The largest entries of a vector.  A sample gives a threshold that somewhat more than k entries
 * pass; k of these are chosen exactly. */
#include <string.h>

#include "runtime/train/dp/dp.h"

/* The top k of all correspond to the top SAMPLED of the sample; WANTED of those are to pass. */
enum { SAMPLED = 64, WANTED = 96 };

/* An integer with the order of magnitudes; NaN is above infinity. */
static uint32_t key_of(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof(u));
    return u & 0x7fffffffU;
}

/* The k-th largest key, 1 <= k <= n: radix selection, byte by byte from the top. */
static uint32_t kth_largest(const uint32_t *key, size_t n, size_t k) {
    uint32_t found = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t count[256] = {0};
        for (size_t i = 0; i < n; i++) {
            if ((key[i] & mask) == found) {
                count[key[i] >> shift & 0xff]++;
            }
        }
        uint32_t byte = 255;
        while (count[byte] < k) {
            k -= count[byte--];
        }
        found |= byte << shift;
        mask |= 0xffU << shift;
    }
    return found;
}

/* Keeps k of the candidates in `at`: those above the k-th key, then the first ones equal to it. */
static size_t choose(uint32_t *at, const uint32_t *key, size_t n, size_t k) {
    uint32_t least = kth_largest(key, n, k);
    size_t above = 0, chosen = 0;
    for (size_t i = 0; i < n; i++) {
        above += key[i] > least;
    }
    size_t equals = k - above;
    for (size_t i = 0; i < n; i++) {
        bool equal = key[i] == least && equals > 0;
        if (key[i] > least || equal) {
            equals -= equal;
            at[chosen++] = at[i];
        }
    }
    return chosen;
}

size_t dp_top_k(const float *v, size_t n, size_t k, uint32_t *ret_at, uint32_t *scratch) {
    uint32_t *at = scratch, *key = scratch + n;
    if (k >= n) {
        for (size_t i = 0; i < n; i++) {
            ret_at[i] = (uint32_t)i;
        }
        return n;
    }
    uint32_t least = 0;
    size_t stride = k / SAMPLED;
    if (stride > 1) {
        stride |= 1; /* odd, so that it is no multiple of the width of a matrix */
        size_t sampled = 0;
        for (size_t i = 0; i < n; i += stride) {
            key[sampled++] = key_of(v[i]);
        }
        size_t wanted = k * WANTED / SAMPLED / stride;
        least = kth_largest(key, sampled, wanted < sampled ? wanted : sampled);
    }
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t own = key_of(v[i]);
        at[found] = (uint32_t)i;
        key[found] = own;
        found += own >= least;
    }
    found = found > k ? choose(at, key, found, k) : found;
    memcpy(ret_at, at, found * sizeof(*at));
    return found;
}
