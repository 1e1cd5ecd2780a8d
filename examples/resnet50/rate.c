#include "examples/resnet50/rate.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/parse.h"
#include "runtime/rt.h"

static int boundaries_init(
    const char *text, uint64_t steps_per_epoch, struct rn_rate *r, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrdup(text);
    char *rest = copy, *word;
    int64_t epoch = 0;

    while ((word = strsep(&rest, ","))) {
        if (r->n_boundaries == RN_BOUNDARIES_MAX) {
            return co_err_set(err, CO_INVALID, "--boundaries: more than %d", RN_BOUNDARIES_MAX);
        }
        int rc = co_parse_i64("--boundaries", word, epoch + 1, 1000000, &epoch, err);
        if (rc < 0) {
            return rc;
        }
        r->boundaries[r->n_boundaries++] = (uint64_t)epoch * steps_per_epoch;
    }
    for (uint64_t i = 0; i <= r->n_boundaries; i++) {
        r->values[i] = i == 0 ? r->lr : r->values[i - 1] / 10.0;
    }
    return 0;
}

int rn_rate_init(
    const struct rn_options *o, uint64_t steps_per_epoch, struct rn_rate *ret, struct co_err *err) {
    struct rn_rate r = {.lr = o->lr,
        .warmup = (uint64_t)o->warmup_epochs * steps_per_epoch,
        .steps = (uint64_t)o->epochs * steps_per_epoch};
    int rc = 0;

    if (strcmp(o->schedule, "piecewise") == 0) {
        r.kind = RN_RATE_PIECEWISE;
        rc = boundaries_init(o->boundaries, steps_per_epoch, &r, err);
    } else if (strcmp(o->schedule, "cosine") == 0) {
        r.kind = RN_RATE_COSINE;
    } else if (strcmp(o->schedule, "constant") != 0) {
        rc = co_err_set(err, CO_INVALID,
            "--schedule is \"%s\", expected constant, piecewise or cosine", o->schedule);
    }
    if (rc == 0) {
        *ret = r;
    }
    return rc;
}

double rn_rate_at(const struct rn_rate *r, uint64_t step) {
    uint64_t t = step > r->warmup ? step - r->warmup : 0;
    double after = r->lr;

    if (r->kind == RN_RATE_PIECEWISE) {
        after = rt_lr_piecewise(r->boundaries, r->values, r->n_boundaries, t);
    } else if (r->kind == RN_RATE_COSINE) {
        uint64_t all = r->steps > r->warmup ? r->steps - r->warmup : 1;

        after = rt_lr_cosine(r->lr, 0.0, all, t);
    }
    return r->warmup ? rt_lr_warmup(0.0, r->lr, r->warmup, step, after) : after;
}
