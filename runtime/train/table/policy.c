/* Parses admission and eviction policies, and applies eviction policies to the head of a row. */
#include "runtime/train/table/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/pairs.h"
#include "common/parse.h"
#include "runtime/train/optim/row_kinds.h"

_Static_assert((int)TABLE_POLICY_PARAMS == (int)OPTIM_ROW_PARAMS, "a place for each parameter");

static int set_param(const char *what, const struct optim_row_kind *k, const char *item, size_t len,
    struct table_policy *ret, struct co_err *err) {
    char text[96];
    (void)snprintf(text, sizeof(text), "%.*s", (int)len, item);
    char *eq = strchr(text, '=');
    if (!eq || len >= sizeof(text)) {
        return co_err_set(
            err, CO_INVALID, "%s \"%s\": \"%s\" is not key=value", what, k->name, text);
    }
    *eq = '\0';
    for (size_t i = 0; i < TABLE_POLICY_PARAMS && k->params[i].name; i++) {
        const struct optim_row_param *p = &k->params[i];
        if (strcmp(text, p->name) == 0) {
            CO_TRY(co_parse_f64(text, eq + 1, p->min, p->max, &ret->p[i], err));
            return p->whole && ret->p[i] != floor(ret->p[i])
                       ? co_err_set(err, CO_INVALID, "%s \"%s\": %s %g is not a whole number", what,
                             k->name, text, ret->p[i])
                       : 0;
        }
    }
    return co_err_set(err, CO_INVALID, "%s \"%s\" has no parameter \"%s\"", what, k->name, text);
}

static int parse(const char *what, const struct optim_row_kind *kinds, size_t n, const char *text,
    struct table_policy *ret, struct co_err *err) {
    text = text && *text ? text : kinds[0].name;
    size_t len = strcspn(text, ":"), k = 0;
    while (k < n && (strlen(kinds[k].name) != len || strncmp(kinds[k].name, text, len) != 0)) {
        k++;
    }
    if (k == n) {
        return co_err_set(err, CO_INVALID, "%s \"%.40s\" is not %s, %s, %s or %s", what, text,
            kinds[0].name, kinds[1].name, kinds[2].name, kinds[3].name);
    }
    struct table_policy policy = {.kind = (int)k};
    for (size_t i = 0; i < TABLE_POLICY_PARAMS; i++) {
        policy.p[i] = kinds[k].params[i].initial;
    }
    if (text[len] && co_pairs_once(text + len + 1, err) < 0) {
        return co_err_wrap(err, "%s \"%s\"", what, kinds[k].name);
    }
    for (const char *p = text + len; *p;) {
        p++; /* the colon or comma */
        size_t item = strcspn(p, ",");
        CO_TRY(set_param(what, &kinds[k], p, item, &policy, err));
        p += item;
    }
    *ret = policy;
    return 0;
}

int table_admit_parse(const char *text, struct table_policy *ret, struct co_err *err) {
    struct table_policy p = {0};
    size_t n;
    const struct optim_row_kind *kinds = optim_admit_kinds(&n);
    int rc = parse("admit", kinds, n, text, &p, err);
    *ret = p;
    return rc;
}

int table_evict_parse(const char *text, struct table_policy *ret, struct co_err *err) {
    struct table_policy p = {0};
    size_t n;
    const struct optim_row_kind *kinds = optim_evict_kinds(&n);
    int rc = parse("evict", kinds, n, text, &p, err);
    if (rc == 0 && p.kind == TABLE_EVICT_TTL &&
        (p.p[TABLE_EVICT_SECONDS] > 0) == (p.p[TABLE_EVICT_STEPS] > 0)) {
        return co_err_set(err, CO_INVALID, "evict \"ttl\" needs seconds or steps, one of them");
    }
    if (rc == 0 && p.kind == TABLE_EVICT_LFU && p.p[TABLE_EVICT_CAPACITY] < 1) {
        return co_err_set(err, CO_INVALID, "evict \"lfu\" needs a capacity");
    }
    *ret = p;
    return rc;
}

bool table_policy_equal(const struct table_policy *a, const struct table_policy *b) {
    bool equal = a->kind == b->kind;
    for (size_t i = 0; i < TABLE_POLICY_PARAMS; i++) {
        equal = equal && a->p[i] == b->p[i];
    }
    return equal;
}

/* ---- heads ---- */

/* The head of a row with ctr. */
struct ctr {
    float show, click, delta_score, unseen_days;
};

size_t table_evict_words(const struct table_policy *evict) {
    size_t n;
    return optim_evict_kinds(&n)[evict->kind].words;
}

const char *table_evict_keeps(const struct table_policy *evict) {
    static const char *const words[] = {[TABLE_EVICT_NONE] = "",
        [TABLE_EVICT_TTL] = "seconds",
        [TABLE_EVICT_LFU] = "pushes",
        [TABLE_EVICT_CTR] = "ctr"};
    return table_evict_by_steps(evict) ? "steps" : words[evict->kind];
}

bool table_evict_by_steps(const struct table_policy *evict) {
    return evict->kind == TABLE_EVICT_TTL && evict->p[TABLE_EVICT_STEPS] > 0;
}

static double score(const struct table_policy *evict, double show, double click) {
    return (show - click) * evict->p[TABLE_EVICT_NONCLK] + click * evict->p[TABLE_EVICT_CLICK];
}

void table_evict_seen(
    const struct table_policy *evict, void *head, uint32_t now, float show, float click) {
    uint32_t *word = head;
    struct ctr *ctr = head;
    switch (evict->kind) {
    case TABLE_EVICT_TTL:
        *word = now;
        break;
    case TABLE_EVICT_LFU:
        *word += *word < UINT32_MAX;
        break;
    case TABLE_EVICT_CTR:
        ctr->show += show;
        ctr->click += click;
        ctr->delta_score += (float)score(evict, (double)show, (double)click);
        ctr->unseen_days = 0;
        break;
    default:
        break;
    }
}

void table_evict_fade(const struct table_policy *evict, void *head) {
    uint32_t *count = head;
    if (evict->kind == TABLE_EVICT_LFU) {
        *count /= 2;
    }
}

uint32_t table_evict_count(const void *head) {
    const uint32_t *count = head;
    return *count;
}

bool table_evict_expired(const struct table_policy *evict, const void *head, uint32_t now) {
    const uint32_t *seen = head;
    double limit =
        table_evict_by_steps(evict) ? evict->p[TABLE_EVICT_STEPS] : evict->p[TABLE_EVICT_SECONDS];
    return evict->kind == TABLE_EVICT_TTL && now > *seen && (double)(now - *seen) > limit;
}

bool table_evict_shrink(const struct table_policy *evict, void *head, uint32_t now) {
    if (evict->kind != TABLE_EVICT_CTR) {
        return table_evict_expired(evict, head, now);
    }
    struct ctr *ctr = head;
    ctr->show *= (float)evict->p[TABLE_EVICT_DECAY];
    ctr->click *= (float)evict->p[TABLE_EVICT_DECAY];
    return score(evict, (double)ctr->show, (double)ctr->click) <
               evict->p[TABLE_EVICT_DELETE_THRESHOLD] ||
           (double)ctr->unseen_days > evict->p[TABLE_EVICT_DELETE_DAYS];
}

/* ---- checkpoints ---- */

void table_evict_save(
    const struct table_policy *evict, const void *head, uint32_t now, float *ret_words) {
    const uint32_t *word = head;
    if (evict->kind == TABLE_EVICT_TTL) {
        ret_words[0] = now > *word ? (float)(now - *word) : 0;
    } else if (evict->kind == TABLE_EVICT_LFU) {
        ret_words[0] = (float)*word;
    } else if (evict->kind == TABLE_EVICT_CTR) {
        memcpy(ret_words, head, sizeof(struct ctr));
    }
}

/* UINT32_MAX as a float is above what fits. */
static uint32_t whole(float x) {
    return x >= 0x1p32F ? UINT32_MAX : x > 0 ? (uint32_t)x : 0;
}

void table_evict_load(
    const struct table_policy *evict, void *head, uint32_t now, const float *words) {
    uint32_t *word = head;
    if (evict->kind == TABLE_EVICT_TTL) {
        uint32_t age = whole(words[0]);
        *word = now > age ? now - age : 0;
    } else if (evict->kind == TABLE_EVICT_LFU) {
        *word = whole(words[0]);
    } else if (evict->kind == TABLE_EVICT_CTR) {
        memcpy(head, words, sizeof(struct ctr));
    }
}

bool table_evict_saves(const struct table_policy *evict, const void *head, enum rt_save_mode mode) {
    const struct ctr *ctr = head;
    if (evict->kind != TABLE_EVICT_CTR || mode == RT_SAVE_ALL || mode == RT_SAVE_DAY) {
        return true;
    }
    double delta = mode == RT_SAVE_DELTA ? evict->p[TABLE_EVICT_DELTA_THRESHOLD] : 0;
    return score(evict, (double)ctr->show, (double)ctr->click) >=
               evict->p[TABLE_EVICT_BASE_THRESHOLD] &&
           (double)ctr->delta_score >= delta &&
           (double)ctr->unseen_days <= evict->p[TABLE_EVICT_DELTA_KEEP_DAYS];
}

void table_evict_saved(const struct table_policy *evict, void *head, enum rt_save_mode mode) {
    struct ctr *ctr = head;
    if (evict->kind == TABLE_EVICT_CTR && mode == RT_SAVE_DAY) {
        ctr->unseen_days++;
    } else if (evict->kind == TABLE_EVICT_CTR && mode != RT_SAVE_ALL) {
        ctr->delta_score = 0;
    }
}
