/* Which rows a sparse table has: admission, eviction, and which rows a save mode includes.
 *
 * admit: an id without a row gets one when
 *     count:n=10               it was pushed n times
 *     probability:p=0.1        a random draw at a push succeeds
 *     show_click:threshold=10  its shows and clicks so far reach that score, computed as for ctr
 *                              (nonclk_coeff, click_coeff; a push without them is one show)
 * evict: a row is erased when
 *     ttl:seconds=86400        it was not pushed to for that long; or ttl:steps=10000
 *     lfu:capacity=1000000     the table has more rows than that, and others are pushed to more
 *                              often
 *     ctr:delete_threshold=..  rt_shrink finds that its score is too low, or that it was not pushed
 *                              to for delete_after_unseen_days; a save with RT_SAVE_DAY ends a day
 *
 * ctr keeps show, click, delta_score and unseen_days with a row.  With show s and click c of a push
 *
 *     score(s, c) = (s - c) nonclk_coeff + c click_coeff
 *     show += s; click += c; delta_score += score(s, c); unseen_days = 0
 *
 * and rt_shrink first multiplies show and click by show_click_decay_rate.  Names, defaults and
 * meaning are those of Paddle's table entries and CTR accessor.
 *
 * A policy keeps its data for a row in the row's head (table_store_head), as u32 and f32 words.
 * Pure; an admission filter belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/rt.h"
#include "runtime/train/table/budget.h"

enum table_admit_kind {
    TABLE_ADMIT_ALL,
    TABLE_ADMIT_COUNT,
    TABLE_ADMIT_PROBABILITY,
    TABLE_ADMIT_SHOW_CLICK
};
enum table_evict_kind { TABLE_EVICT_NONE, TABLE_EVICT_TTL, TABLE_EVICT_LFU, TABLE_EVICT_CTR };

/* Indexes of table_policy.p; each kind has its own, from 0 on. */
enum {
    TABLE_ADMIT_N = 0,
    TABLE_ADMIT_P = 0,
    TABLE_ADMIT_THRESHOLD = 0,
    TABLE_ADMIT_NONCLK,
    TABLE_ADMIT_CLICK,
    TABLE_EVICT_SECONDS = 0,
    TABLE_EVICT_STEPS,
    TABLE_EVICT_CAPACITY = 0,
    TABLE_EVICT_NONCLK = 0,
    TABLE_EVICT_CLICK,
    TABLE_EVICT_BASE_THRESHOLD,
    TABLE_EVICT_DELTA_THRESHOLD,
    TABLE_EVICT_DELTA_KEEP_DAYS,
    TABLE_EVICT_DECAY,
    TABLE_EVICT_DELETE_THRESHOLD,
    TABLE_EVICT_DELETE_DAYS,
    TABLE_POLICY_PARAMS,
    TABLE_POLICY_HEAD_MAX = 4, /* words */
};

struct table_policy {
    int kind;
    double p[TABLE_POLICY_PARAMS];
};

/* text NULL or "": admit all, evict none.  CO_INVALID: says what is wrong and what was expected. */
CO_MUST_CHECK int table_admit_parse(const char *text, struct table_policy *ret, struct co_err *err);
CO_MUST_CHECK int table_evict_parse(const char *text, struct table_policy *ret, struct co_err *err);
bool table_policy_equal(const struct table_policy *a, const struct table_policy *b);

/* ---- heads of rows ---- */

/* The words that the policy keeps with a row. */
size_t table_evict_words(const struct table_policy *evict);
/* What these words mean, in a word: policies with the same one read each other's.  "": no words. */
const char *table_evict_keeps(const struct table_policy *evict);
/* Whether `now` below is in steps; else it is in seconds. */
bool table_evict_by_steps(const struct table_policy *evict);

/* The row was pushed to, with these shows and clicks. */
void table_evict_seen(
    const struct table_policy *evict, void *head, uint32_t now, float show, float click);
/* lfu: halves the count.  The search for a victim calls it now and then, so that old counts fade.
 */
void table_evict_fade(const struct table_policy *evict, void *head);
/* lfu: how often the row was pushed to. */
uint32_t table_evict_count(const void *head);
/* ttl: whether the row has expired. */
bool table_evict_expired(const struct table_policy *evict, const void *head, uint32_t now);
/* What rt_shrink does to a row (ctr: decays its counts).  Returns whether to erase it. */
bool table_evict_shrink(const struct table_policy *evict, void *head, uint32_t now);

/* The head as floats of a checkpoint.  Times are saved as ages. */
void table_evict_save(
    const struct table_policy *evict, const void *head, uint32_t now, float *ret_words);
void table_evict_load(
    const struct table_policy *evict, void *head, uint32_t now, const float *words);

/* Whether a save of that mode includes the row; and the change to the head once it was saved. */
bool table_evict_saves(const struct table_policy *evict, const void *head, enum rt_save_mode mode);
void table_evict_saved(const struct table_policy *evict, void *head, enum rt_save_mode mode);

/* ---- the admission filter ---- */

/* Counts pushes to ids that have no row, approximately, in 8 MiB: a count-min sketch of two
 * generations with 2 Mi counters of 16 bits each.  An id has two counters; the smaller one is its
 * count.  When a generation has counted 512 Ki pushes, the older one is cleared.  So an id needs n
 * pushes within the last half to one million pushes of ids without a row.  An id may be admitted
 * too early when others share its counters: of ids that come once, 20 % for n=2, 1 % for n=3,
 * 0.006 % for n=4. */
struct table_admission;

/* CO_NORESOURCE: the budget.  *ret is NULL when the policy admits all ids. */
CO_MUST_CHECK int table_admission_new(const struct table_policy *admit, struct table_budget *budget,
    struct table_admission **ret, struct co_err *err);
void table_admission_free(struct table_admission *g); /* NULL allowed */
/* Counts a push of an id that has no row, and returns whether it now gets one. */
bool table_admission_ask(struct table_admission *g, uint64_t id, float show, float click);
