/* numpy's Mersenne Twister and its shuffle, so that both see the same samples in the same
 * order. */
#include "examples/resnet50/sampler.h"

#include <string.h>

#include "common/mem.h"

/* ---- numpy.random.RandomState: the Mersenne Twister of Matsumoto and Nishimura (1998) -----------
 */

enum { WORDS = 624, MIDDLE = 397 };

struct twister {
    uint32_t words[WORDS];
    size_t at;
};

static void twister_init(struct twister *t, uint32_t seed) {
    t->words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        t->words[i] = 1812433253U * (t->words[i - 1] ^ (t->words[i - 1] >> 30)) + i;
    }
    t->at = WORDS;
}

static void twister_turn(struct twister *t) {
    for (size_t i = 0; i < WORDS; i++) {
        uint32_t y = (t->words[i] & 0x80000000U) | (t->words[(i + 1) % WORDS] & 0x7fffffffU);

        t->words[i] = t->words[(i + MIDDLE) % WORDS] ^ (y >> 1) ^ (y & 1U ? 0x9908b0dfU : 0U);
    }
    t->at = 0;
}

static uint32_t twister_next(struct twister *t) {
    if (t->at == WORDS) {
        twister_turn(t);
    }
    uint32_t y = t->words[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

/* A number from 0 to most: draws again while it is too large, like numpy. */
static uint32_t twister_below(struct twister *t, uint32_t most) {
    uint32_t mask = most, value;

    for (unsigned shift = 1; shift < 32; shift *= 2) {
        mask |= mask >> shift;
    }
    do {
        value = twister_next(t) & mask;
    } while (value > most);
    return value;
}

static void shuffle(uint32_t *values, size_t n, uint32_t seed) {
    struct twister t;

    twister_init(&t, seed);
    for (size_t i = n; i-- > 1;) {
        uint32_t k = twister_below(&t, (uint32_t)i), kept = values[i];

        values[i] = values[k];
        values[k] = kept;
    }
}

/* ---- shares ---------------------------------------------------------------------------------- */

size_t rn_sampler_count(const struct rn_sampler *s) {
    return (s->samples + s->ranks - 1) / s->ranks;
}

void rn_sampler_epoch(const struct rn_sampler *s, uint32_t epoch, uint32_t *ret) {
    size_t total = rn_sampler_count(s) * s->ranks, used = 0;
    size_t last = total % (s->batch * s->ranks), last_share = last / s->ranks;
    CO_AUTOFREE uint32_t *all = co_xcalloc(total + 1, sizeof(*all));

    for (size_t i = 0; i < total; i++) {
        all[i] = (uint32_t)(i % s->samples);
    }
    shuffle(all, total, epoch);
    for (size_t i = s->rank * s->batch; i < total - last; i += s->batch * s->ranks) {
        memcpy(ret + used, all + i, s->batch * sizeof(*ret));
        used += s->batch;
    }
    memcpy(ret + used, all + total - last + s->rank * last_share, last_share * sizeof(*ret));
}
