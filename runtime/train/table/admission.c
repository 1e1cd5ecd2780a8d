/* The admission filter decides which ids get a row.  It keeps approximate counts of pushes to ids
 * without one (policy.h), so that rare ids take no memory in the table. */
#include <string.h>

#include "common/mem.h"
#include "runtime/train/table/index.h"
#include "runtime/train/table/policy.h"

enum {
    COUNTERS = 2 << 20,
    GENERATION = COUNTERS / 4, /* pushes */
    UNITS = 1024,              /* show_click: the counters count scores in threshold / UNITS */
};

struct table_admission {
    struct table_policy admit;
    struct table_budget *budget;
    uint64_t random;
    uint32_t young;   /* the generation whose counters grow */
    uint32_t counted; /* pushes that it has counted */
    uint16_t counters[2][COUNTERS];
};

int table_admission_new(const struct table_policy *admit, struct table_budget *budget,
    struct table_admission **ret, struct co_err *err) {
    *ret = NULL;
    if (admit->kind == TABLE_ADMIT_ALL) {
        return 0;
    }
    CO_TRY(table_budget_take(budget, sizeof(struct table_admission), err));
    *ret = co_xcalloc(1, sizeof(struct table_admission));
    (*ret)->admit = *admit;
    (*ret)->budget = budget;
    return 0;
}

void table_admission_free(struct table_admission *g) {
    if (g) {
        table_budget_give(g->budget, sizeof(*g));
        free(g);
    }
}

/* Uniform in [0, 1). */
static double draw(struct table_admission *g) {
    g->random += 0x9e3779b97f4a7c15ULL;
    return (double)(table_index_hash(g->random) >> 11) * 0x1p-53;
}

/* Adds units to the id's count, which saturates at 65535, and returns the count. */
static uint32_t count(struct table_admission *g, uint64_t id, uint32_t units) {
    if (g->counted++ == GENERATION) {
        g->young ^= 1;
        g->counted = 0;
        memset(g->counters[g->young], 0, sizeof(g->counters[0]));
    }
    uint64_t h = table_index_hash(id);
    uint32_t at[2] = {(uint32_t)h % COUNTERS, (uint32_t)(h >> 32) % COUNTERS}, sum = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint16_t *c = g->counters[g->young ^ i];
        uint32_t least = c[at[0]] < c[at[1]] ? c[at[0]] : c[at[1]];
        if (i == 0) {
            least = least + units < UINT16_MAX ? least + units : UINT16_MAX;
            for (int k = 0; k < 2; k++) {
                c[at[k]] = c[at[k]] > least ? c[at[k]] : (uint16_t)least;
            }
        }
        sum += least;
    }
    return sum;
}

bool table_admission_ask(struct table_admission *g, uint64_t id, float show, float click) {
    const double *p = g->admit.p;
    if (g->admit.kind == TABLE_ADMIT_PROBABILITY) {
        return draw(g) < p[TABLE_ADMIT_P];
    }
    if (g->admit.kind == TABLE_ADMIT_COUNT) {
        return count(g, id, 1) >= (uint32_t)p[TABLE_ADMIT_N];
    }
    double score =
        (double)(show - click) * p[TABLE_ADMIT_NONCLK] + (double)click * p[TABLE_ADMIT_CLICK];
    double units = score / p[TABLE_ADMIT_THRESHOLD] * UNITS;
    /* A fraction of a unit is rounded up at random, with the fraction as probability. */
    return count(g, id, units > 0 ? (uint32_t)(units < UNITS ? units + draw(g) : UNITS) : 0) >=
           UNITS;
}
