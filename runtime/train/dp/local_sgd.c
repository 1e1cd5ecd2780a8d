/* Local SGD: which steps average, by the rules of Paddle's LocalSGDOptimizer and
 * AdaptiveLocalSGDOptimizer (python/paddle/distributed/fleet/meta_optimizers, 3.3.1). */
#include <math.h>

#include "runtime/train/dp/dp.h"

enum { K_MAX = 16 };

static int mean(struct rt_group *g, double *value, struct co_err *err) {
    return rt_all_reduce(g, value, value, 1, RT_F64, RT_AVG, err);
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
