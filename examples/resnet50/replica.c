/* A rank's copy of the model: averaging gradients during backward, then the optimizer's step. */
#include "examples/resnet50/replica.h"

#include <stdio.h>
#include <string.h>

#include "common/limits.h"
#include "common/log.h"
#include "examples/nn/engine.h"
#include "examples/resnet50/dnn.h"
#include "examples/resnet50/team.h"

/* ---- beginning ------------------------------------------------------------------------------- */

/* By default the ranks of a machine share its cores evenly, as far as this one may use them. */
static void threads_choose(const struct rn_replica *r, int64_t wanted) {
    size_t share = co_limit_cpus("", NULL) / rt_group_local_size(r->group);
    size_t given = nn_engine_threads();

    if (wanted > 0) {
        rn_team_set((size_t)wanted);
    } else if (!getenv("OMP_NUM_THREADS")) {
        rn_team_set(given ? given : share ? share : 1);
    }
}

/* All ranks compute in bf16 if all want to, else in f32, which every processor can. */
static int type_agree(
    const struct rn_replica *r, const char *precision, enum rn_type *ret, struct co_err *err) {
    const enum rn_type own = rn_type_of(precision);
    int64_t wants = own == RN_BF16, all = 0;

    CO_TRY(rt_all_reduce(r->group, &wants, &all, 1, RT_I64, RT_MIN, err));
    *ret = all ? RN_BF16 : RN_F32;
    if (*ret != own) {
        co_log_info("computing in f32, as other workers do", CO_S("precision", precision));
    }
    return 0;
}

/* *ret_other: the first rank whose plan has another layout than that of rank 0; 0: none. */
static int layouts_compare(const struct rn_replica *r, uint32_t *ret_other, struct co_err *err) {
    uint32_t size = rt_group_size(r->group), other = 0;
    CO_AUTOFREE uint64_t *all = co_xcalloc(size, sizeof(*all));
    uint64_t own = rn_plan_layout(r->plan);

    CO_TRY(rt_all_gather(r->group, &own, all, 1, RT_I64, err));
    for (uint32_t i = size - 1; i > 0; i--) {
        other = all[i] != all[0] ? i : other;
    }
    *ret_other = other;
    return 0;
}

/* Ranks sum each other's arrays value by value.  If oneDNN prefers other layouts on some of their
 * processors, all take the plain order, which costs copies in each step. */
static int plan_agree(struct rn_replica *r, const struct rn_net_config *config, enum rn_type type,
    struct co_err *err) {
    uint32_t other = 0;

    CO_TRY(rn_plan_new(config, type, RN_ORDER_FAST, &r->plan, err));
    CO_TRY(layouts_compare(r, &other, err));
    if (other == 0) {
        return 0;
    }
    rn_plan_free(r->plan);
    r->plan = NULL;
    CO_TRY(rn_plan_new(config, type, RN_ORDER_PLAIN, &r->plan, err));
    CO_TRY(layouts_compare(r, &other, err));
    if (other) {
        return co_err_set(err, CO_INVALID,
            "rank %u trains another network than rank 0: --depth, --width and --class-dim must be "
            "the same for all",
            other);
    }
    if (rt_group_rank(r->group) == 0) {
        co_log_info("workers have processors of several kinds, weights are in plain order");
    }
    return 0;
}

static int plan_open(struct rn_replica *r, const struct rn_options *o, struct co_err *err) {
    const struct rn_net_config config = {.depth = (int)o->depth,
        .batch = (uint32_t)o->batch_size,
        .image = (uint32_t)o->image_size,
        .classes = (uint32_t)o->class_dim,
        .width = (uint32_t)o->width};
    enum rn_type type = RN_F32;

    CO_TRY(type_agree(r, o->precision, &type, err));
    CO_TRY(plan_agree(r, &config, type, err));
    const struct rn_net *net = rn_plan_net(r->plan);
    CO_AUTOFREE float *values = co_xcalloc(net->parameters, sizeof(*values));
    for (int i = 0; i < net->n_params; i++) {
        rn_net_init_param(net, i, (uint64_t)o->seed, values);
        CO_TRY(rn_plan_import(r->plan, i, values, rn_plan_params(r->plan), err));
    }
    r->labels = co_xcalloc(config.batch, sizeof(*r->labels));
    return 0;
}

/* The reducer's index of a parameter: backward completes the last layer first. */
static size_t order_of(const struct rn_replica *r, int param) {
    return (size_t)(rn_plan_net(r->plan)->n_params - 1 - param);
}

static float *gradient_of(const struct rn_replica *r, int param) {
    return rt_reducer_values(r->reducer, order_of(r, param));
}

/* Sums the values of a norm over all ranks (rn_share_fn). */
static int norms_sum(void *arg, double *values, size_t n, struct co_err *err) {
    return rt_all_reduce(arg, values, values, n, RT_F64, RT_SUM, err);
}

static int norms_share(struct rn_replica *r, struct co_err *err) {
    CO_TRY(rt_group_split(r->group, 0, (int32_t)rt_group_rank(r->group), &r->norms, err));
    const struct rn_share share = {norms_sum, r->norms, rt_group_size(r->norms)};

    rn_plan_share(r->plan, &share);
    return 0;
}

/* Paddle's sentence, which its document shows. */
static void fused_note(const struct rn_replica *r, int gradients) {
    char text[256];

    (void)snprintf(text, sizeof(text),
        "Find all_reduce operators: %d. To make the speed faster, some all_reduce ops are fused "
        "during training, after fusion, the number of all_reduce ops is %u.",
        gradients, rt_reducer_buckets(r->reducer));
    if (rt_group_size(r->group) > 1 && rt_group_rank(r->group) == 0) {
        co_log_info(text);
    }
}

/* Backward writes gradients into the reducer's own buffers, so none is copied. */
static int reducer_open(struct rn_replica *r, struct co_err *err) {
    const struct rn_net *net = rn_plan_net(r->plan);
    struct rt_gradient gradients[RN_PARAMS_MAX];

    for (int i = 0; i < net->n_params; i++) {
        struct rt_gradient *g = &gradients[net->n_params - 1 - i];

        *g = (struct rt_gradient){.name = net->params[i].name};
        (void)rn_plan_place(r->plan, i, &g->n);
    }
    CO_TRY(rt_reducer_open(r->group, gradients, (size_t)net->n_params, NULL, &r->reducer, err));
    fused_note(r, net->n_params);
    for (int i = 0; i < net->n_params; i++) {
        CO_TRY(rn_plan_move_grad(r->plan, i, gradient_of(r, i), err));
    }
    return 0;
}

static int optimizers_open(struct rn_replica *r, const struct rn_options *o, struct co_err *err) {
    int n = rn_plan_net(r->plan)->n_params, rc = 0;
    char rule[96];

    (void)snprintf(rule, sizeof(rule), "momentum:mu=%.9g,l2=%.9g", o->momentum, o->l2_decay);
    r->optimizers = co_xcalloc((size_t)n, sizeof(struct rt_optimizer *));
    for (int i = 0; rc == 0 && i < n; i++) {
        size_t count = 0;

        (void)rn_plan_place(r->plan, i, &count);
        rc = rt_optimizer_new(rule, count, &r->optimizers[i], err);
    }
    return rc;
}

int rn_replica_open(struct rn_replica *r, const struct rt_job *job, const struct rn_options *o,
    struct co_err *err) {
    memset(r, 0, sizeof(*r));
    r->smoothing = o->label_smoothing;
    CO_TRY(rt_group_open(job, NULL, &r->group, err));
    threads_choose(r, o->threads);
    CO_TRY(plan_open(r, o, err));
    CO_TRY(optimizers_open(r, o, err));
    if (o->sync_bn && rt_group_size(r->group) > 1) {
        CO_TRY(norms_share(r, err));
    }
    return reducer_open(r, err);
}

void rn_replica_close(struct rn_replica *r) {
    rt_reducer_close(r->reducer);
    for (int i = 0; r->optimizers && i < rn_plan_net(r->plan)->n_params; i++) {
        rt_optimizer_free(r->optimizers[i]);
    }
    free(r->optimizers);
    rn_plan_free(r->plan);
    rt_group_close(r->norms);
    rt_group_close(r->group);
    free(r->labels);
    memset(r, 0, sizeof(*r));
}

/* ---- what ranks have in common --------------------------------------------------------------- */

void rn_replica_velocity_get(const struct rn_replica *r, float *ret_velocity) {
    for (int i = 0; i < rn_plan_net(r->plan)->n_params; i++) {
        const struct rt_values v = rt_optimizer_state(r->optimizers[i]);
        size_t count, place = rn_plan_place(r->plan, i, &count);

        memcpy(ret_velocity + place, v.values, v.n * sizeof(*v.values));
    }
}

void rn_replica_velocity_set(struct rn_replica *r, const float *velocity) {
    for (int i = 0; i < rn_plan_net(r->plan)->n_params; i++) {
        const struct rt_values v = rt_optimizer_state(r->optimizers[i]);
        size_t count, place = rn_plan_place(r->plan, i, &count);

        memcpy(v.values, velocity + place, v.n * sizeof(*v.values));
    }
}

int rn_replica_spread(
    struct rn_replica *r, uint64_t *step, const struct rt_values *more, struct co_err *err) {
    const struct rn_net *net = rn_plan_net(r->plan);
    struct rt_values values[RN_PARAMS_MAX + 4] = {
        {rn_plan_params(r->plan), rn_plan_storage(r->plan)},
        {rn_plan_running_mean(r->plan), net->running},
        {rn_plan_running_variance(r->plan), net->running},
        *more,
    };

    for (int i = 0; i < net->n_params; i++) {
        values[4 + i] = rt_optimizer_state(r->optimizers[i]);
    }
    return rt_broadcast_newest(r->group, step, values, 4 + (size_t)net->n_params, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int gradient_ready(void *arg, int param, struct co_err *err) {
    struct rn_replica *r = arg;

    return rt_reducer_ready(r->reducer, order_of(r, param), err);
}

struct update {
    const struct rn_replica *r;
    double lr;
};

/* A thread updates the parameters that begin in its part of the storage. */
static void team_update(void *arg, size_t index, size_t count) {
    const struct update *u = arg;
    const struct rn_replica *r = u->r;
    size_t first, end = rn_team_part(rn_plan_storage(r->plan), index, count, &first);

    for (int i = 0; i < rn_plan_net(r->plan)->n_params; i++) {
        size_t n, place = rn_plan_place(r->plan, i, &n);

        if (place >= first && place < end) {
            rt_optimizer_step(
                r->optimizers[i], u->lr, rn_plan_params(r->plan) + place, gradient_of(r, i));
        }
    }
}

int rn_replica_step(struct rn_replica *r, double lr, struct rn_loss *sum, struct co_err *err) {
    const struct rn_net_config *c = &rn_plan_net(r->plan)->config;
    struct update update = {r, lr};
    CO_TRY(rn_plan_forward(r->plan, true, err));
    rn_loss_add(sum, c->batch, c->classes, r->smoothing, rn_plan_logits(r->plan), r->labels,
        rn_plan_d_logits(r->plan));
    CO_TRY(rn_plan_backward(r->plan, gradient_ready, r, err));
    CO_TRY(rt_reducer_wait(r->reducer, NULL, err));
    rn_team_run(team_update, &update);
    return 0;
}

int rn_replica_test(struct rn_replica *r, size_t n, struct rn_loss *sum, struct co_err *err) {
    const struct rn_net_config *c = &rn_plan_net(r->plan)->config;

    CO_TRY(rn_plan_forward(r->plan, false, err));
    rn_loss_add(sum, n, c->classes, 0.0, rn_plan_logits(r->plan), r->labels, NULL);
    return 0;
}
