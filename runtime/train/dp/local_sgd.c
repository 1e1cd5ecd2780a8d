/* Local SGD: which steps average, by the rules of Paddle's LocalSGDOptimizer and
 * AdaptiveLocalSGDOptimizer (python/paddle/distributed/fleet/meta_optimizers, 3.3.1). */
#include <math.h>

#include "runtime/train/dp/dp.h"

enum { K_MAX = 16 };

static int mean(struct rt_group *g, double *value, struct co_err *err) {
    return rt_all_reduce(g, value, value, 1, RT_F64, RT_AVG, err);
}

static uint32_t or_one(uint32_t n) {
    return n ? n : 1;
}

/* After a reducer was opened or rebuilt, ranks compare their options, and may be at different
 * steps: an average that failed on some may have ended on others.  The state of the rank that is
 * furthest is everybody's, as its parameters are (rt_broadcast_newest). */
static int catch_up(struct rt_local_sgd *s, struct rt_reducer *parameters, struct co_err *err) {
    struct state {
        uint64_t step, last, k;
        double loss0, lr0;
        uint64_t k_steps, begin_step, adaptive;
    } own = {s->step, s->last, s->k, s->loss0, s->lr0, or_one(s->k_steps), or_one(s->begin_step),
        s->adaptive};
    uint32_t size = rt_group_size(parameters->g), newest = 0;
    CO_AUTOFREE struct state *all = co_xcalloc(size, sizeof(*all));
    CO_TRY(coll_use_run(
        parameters->g, COLL_USE_LOCAL_SGD, &own, all, sizeof(own) / sizeof(uint64_t), RT_I64, err));
    for (uint32_t i = 1; i < size; i++) {
        const char *other = all[i].k_steps != all[0].k_steps         ? "k_steps"
                            : all[i].begin_step != all[0].begin_step ? "begin_step"
                            : all[i].adaptive != all[0].adaptive     ? "adaptive"
                                                                     : NULL;
        if (other) {
            return co_err_set(
                err, CO_INVALID, "local SGD: rank %u has another %s than rank 0", i, other);
        }
        newest = all[i].step > all[newest].step ? i : newest;
    }
    s->step = all[newest].step;
    s->last = all[newest].last;
    s->k = (uint32_t)all[newest].k;
    s->loss0 = all[newest].loss0;
    s->lr0 = all[newest].lr0;
    parameters->moved = false;
    return 0;
}

/* Steps until the next average: fewer as the loss falls; 1 if the loss is NaN. */
static uint32_t next_steps(const struct rt_local_sgd *s, double loss, double lr) {
    double k = ceil(sqrt(s->lr0 * loss / (lr * s->loss0) * (s->k_steps ? s->k_steps : 1)));
    return k >= K_MAX ? K_MAX : k > 1 ? (uint32_t)k : 1;
}

static int average(struct rt_local_sgd *s, struct rt_reducer *parameters, double loss, double lr,
    bool adapt, struct co_err *err) {
    int rc = rt_reducer_run(parameters, NULL, err);
    if (rc == 0 && adapt) {
        rc = mean(parameters->g, &loss, err);
        s->k = next_steps(s, loss, lr);
    }
    s->last = s->step;
    return rc;
}

int rt_local_sgd_step(struct rt_local_sgd *s, struct rt_reducer *parameters, double loss, double lr,
    bool *ret_averaged, struct co_err *err) {
    struct rt_local_sgd now = *s;
    if (parameters->moved) {
        CO_TRY(catch_up(&now, parameters, err));
        *s = now;
    }
    uint64_t begin = s->begin_step ? s->begin_step : 1;
    now.step++;
    if (now.step == 1) {
        now.k = s->k_steps ? s->k_steps : 1;
        now.last = s->adaptive ? 0 : begin;
        now.lr0 = lr;
        now.loss0 = loss;
        if (s->adaptive) {
            CO_TRY(mean(parameters->g, &now.loss0, err));
        }
    }
    bool local = now.step > begin, due = !local || now.step - now.last == now.k;
    if (due) {
        CO_TRY(average(&now, parameters, loss, lr, local && s->adaptive, err));
    }
    *s = now;
    if (ret_averaged) {
        *ret_averaged = due;
    }
    return 0;
}
