/* Makes a schedule of the runtime from the program's options, and asks it for each step's rate. */
#include "examples/resnet50/rate.h"

#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "common/parse.h"

enum { TEXT_MAX = 1024 };

/* Converts a list of epochs, "30,60", to steps separated by ":". */
static int boundaries_add(
    const char *epochs, uint64_t steps_per_epoch, struct co_buf *text, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrdup(epochs);
    char *rest = copy, *word;
    int64_t epoch = 0;

    for (int i = 0; (word = strsep(&rest, ",")); i++) {
        CO_TRY(co_parse_i64("--boundaries", word, epoch + 1, 1000000, &epoch, err));
        CO_TRY(co_buf_addf(
            text, err, "%s%llu", i ? ":" : "", (unsigned long long)epoch * steps_per_epoch));
    }
    return 0;
}

/* Writes the schedule in the text form of the runtime. */
static int schedule_text(
    const struct rn_options *o, uint64_t steps_per_epoch, struct co_buf *text, struct co_err *err) {
    unsigned long long warmup = (uint64_t)o->warmup_epochs * steps_per_epoch;
    unsigned long long all = (uint64_t)o->epochs * steps_per_epoch;

    if (strcmp(o->schedule, "piecewise") == 0) {
        CO_TRY(co_buf_addf(text, err, "multi_step:warmup=%llu,gamma=0.1,at=", warmup));
        return boundaries_add(o->boundaries, steps_per_epoch, text, err);
    }
    if (strcmp(o->schedule, "cosine") == 0) {
        return co_buf_addf(
            text, err, "cosine:warmup=%llu,steps=%llu", warmup, all > warmup ? all - warmup : 1);
    }
    if (strcmp(o->schedule, "constant") == 0) {
        return co_buf_addf(text, err, "constant:warmup=%llu", warmup);
    }
    return co_err_set(err, CO_INVALID,
        "--schedule is \"%s\", expected constant, piecewise or cosine", o->schedule);
}

int rn_rate_init(
    const struct rn_options *o, uint64_t steps_per_epoch, struct rn_rate *ret, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(TEXT_MAX);
    struct rn_rate r = {.lr = o->lr};
    int rc = schedule_text(o, steps_per_epoch, &text, err);

    if (rc == 0) {
        rc = rt_schedule_new(text.data, &r.schedule, err);
        rc = rc < 0 ? co_err_wrap(err, "--schedule") : 0;
    }
    if (rc == 0) {
        *ret = r;
    }
    return rc;
}

void rn_rate_done(struct rn_rate *r) {
    rt_schedule_free(r->schedule);
}

double rn_rate_at(const struct rn_rate *r, uint64_t step) {
    return rt_schedule_at(r->schedule, r->lr, step);
}
