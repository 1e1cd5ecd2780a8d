/* Rules of runtime/train/optim on this rank's parameters. */
#include "common/mem.h"
#include "runtime/train/dp/dp.h"
#include "runtime/train/optim/optim.h"

struct rt_optimizer {
    struct optim rule;
    size_t n, state_floats;
    float *state; /* owned */
};

int rt_optimizer_new(
    const char *rule, size_t n, struct rt_optimizer **ret_optimizer, struct co_err *err) {
    struct rt_optimizer o = {.n = n};
    CO_TRY(optim_parse(rule, &o.rule, err));
    o.state_floats = optim_state_floats(&o.rule, n);
    void *state = NULL;
    CO_TRY(co_try_alloc(o.state_floats, sizeof(float), PTRDIFF_MAX, rule, &state, err));
    o.state = state;
    optim_state_init(&o.rule, n, o.state);
    *ret_optimizer = co_xmalloc(sizeof(o));
    **ret_optimizer = o;
    return 0;
}

void rt_optimizer_free(struct rt_optimizer *o) {
    if (o) {
        free(o->state);
        free(o);
    }
}

void rt_optimizer_step(struct rt_optimizer *o, double lr, float *w, const float *gradient) {
    o->rule.hyper[OPTIM_LR] = (float)lr;
    optim_apply(&o->rule, o->n, w, gradient, o->state);
}

void rt_optimizer_step_sgd(struct rt_optimizer *o, double lr, float *w, const float *gradient) {
    for (size_t i = 0; i < o->n; i++) {
        w[i] -= (float)lr * gradient[i];
    }
}

struct rt_values rt_optimizer_state(struct rt_optimizer *o) {
    return (struct rt_values){.values = o->state, .n = o->state_floats};
}
