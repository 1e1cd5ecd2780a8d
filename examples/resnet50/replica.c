#include "examples/resnet50/replica.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "examples/resnet50/team.h"

/* ---- beginning ------------------------------------------------------------------------------- */

/* Cores of this machine over the ranks on it, unless somebody says how many. */
static void threads_choose(const struct rn_replica *r, int64_t wanted) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t share = cores > 0 ? (size_t)cores / rt_group_local_size(r->group) : 1;

    if (wanted > 0) {
        rn_team_set((size_t)wanted);
    } else if (!getenv("OMP_NUM_THREADS")) {
        rn_team_set(share ? share : 1);
    }
}

static int plan_open(struct rn_replica *r, const struct rn_options *o, struct co_err *err) {
    const struct rn_net_config config = {.depth = (int)o->depth,
        .batch = (uint32_t)o->batch_size,
        .image = (uint32_t)o->image_size,
        .classes = (uint32_t)o->class_dim,
        .width = (uint32_t)o->width};
    int rc =
        rn_plan_new(&config, strcmp(o->precision, "bf16") == 0 ? RN_BF16 : RN_F32, &r->plan, err);

    if (rc < 0 || !r->plan) {
        return rc;
    }
    const struct rn_net *net = rn_plan_net(r->plan);
    CO_AUTOFREE float *values = co_xcalloc(net->parameters, sizeof(*values));
    for (int i = 0; rc == 0 && i < net->n_params; i++) {
        rn_net_init_param(net, i, (uint64_t)o->seed, values);
        rc = rn_plan_import(r->plan, i, values, rn_plan_params(r->plan), err);
    }
    r->labels = co_xcalloc(config.batch, sizeof(*r->labels));
    return rc;
}

/* Ranks add up each other's arrays as they lie in memory. */
static int layouts_compare(struct rn_replica *r, struct co_err *err) {
    uint32_t size = rt_group_size(r->group);
    CO_AUTOFREE uint64_t *all = co_xcalloc(size, sizeof(*all));
    uint64_t own = rn_plan_layout(r->plan);
    int rc = rt_all_gather(r->group, &own, all, 1, RT_I64, err);

    for (uint32_t i = 0; rc == 0 && i < size; i++) {
        if (all[i] != all[0]) {
            rc = co_err_set(err, CO_INVALID,
                "rank %u keeps its weights in another layout than rank 0: another network, or a "
                "processor of another kind; the latter goes with DNNL_MAX_CPU_ISA=avx2 everywhere",
                i);
        }
    }
    return rc;
}

/* Sums of a norm over all ranks. */
static int norms_sum(void *arg, double *values, size_t n, struct co_err *err) {
    return rt_all_reduce(arg, values, values, n, RT_F64, RT_SUM, err);
}

static int norms_share(struct rn_replica *r, struct co_err *err) {
    int rc = rt_group_split(r->group, 0, (int32_t)rt_group_rank(r->group), &r->norms, err);

    if (rc == 0) {
        const struct rn_share share = {norms_sum, r->norms, rt_group_size(r->norms)};

        rn_plan_share(r->plan, &share);
    }
    return rc;
}

static int reducer_open(struct rn_replica *r, struct co_err *err) {
    const struct rn_net *net = rn_plan_net(r->plan);
    struct rt_gradient gradients[RN_PARAMS_MAX];

    for (int i = 0; i < net->n_params; i++) {
        struct rt_gradient *g = &gradients[net->n_params - 1 - i];
        size_t count = 0, place = rn_plan_place(r->plan, i, &count);

        *g = (struct rt_gradient){net->params[i].name, count, rn_plan_grads(r->plan) + place};
    }
    return rt_reducer_open(r->group, gradients, (size_t)net->n_params, NULL, &r->reducer, err);
}

int rn_replica_open(struct rn_replica *r, const struct rt_job *job, const struct rn_options *o,
    struct co_err *err) {
    char rule[96];

    memset(r, 0, sizeof(*r));
    r->smoothing = o->label_smoothing;
    (void)snprintf(rule, sizeof(rule), "momentum:mu=%.9g,l2=%.9g", o->momentum, o->l2_decay);
    int rc = rt_group_open(job, NULL, &r->group, err);
    if (rc < 0) {
        return rc;
    }
    threads_choose(r, o->threads);
    rc = plan_open(r, o, err);
    if (rc == 0) {
        rc = layouts_compare(r, err);
    }
    if (rc == 0) {
        rc = rt_optimizer_new(rule, rn_plan_storage(r->plan), &r->optimizer, err);
    }
    if (rc == 0 && o->sync_bn && rt_group_size(r->group) > 1) {
        rc = norms_share(r, err);
    }
    return rc == 0 ? reducer_open(r, err) : rc;
}

void rn_replica_close(struct rn_replica *r) {
    rt_reducer_close(r->reducer);
    rt_optimizer_free(r->optimizer);
    rn_plan_free(r->plan);
    rt_group_close(r->norms);
    rt_group_close(r->group);
    free(r->labels);
    memset(r, 0, sizeof(*r));
}

float *rn_replica_velocity(struct rn_replica *r) {
    return rt_optimizer_state(r->optimizer).values;
}

int rn_replica_spread(
    struct rn_replica *r, uint64_t *step, const struct rt_values *more, struct co_err *err) {
    size_t storage = rn_plan_storage(r->plan), running = rn_plan_net(r->plan)->running;
    const struct rt_values values[] = {
        {rn_plan_params(r->plan), storage},
        {rn_replica_velocity(r), storage},
        {rn_plan_running_mean(r->plan), running},
        {rn_plan_running_variance(r->plan), running},
        *more,
    };

    return rt_broadcast_newest(r->group, step, values, CO_ARRAY_LEN(values), err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int gradient_ready(void *arg, int param, struct co_err *err) {
    struct rn_replica *r = arg;

    return rt_reducer_ready(r->reducer, (size_t)(rn_plan_net(r->plan)->n_params - 1 - param), err);
}

int rn_replica_step(struct rn_replica *r, double lr, struct rn_loss *sum, struct co_err *err) {
    const struct rn_net_config *c = &rn_plan_net(r->plan)->config;
    int rc = rn_plan_forward(r->plan, true, err);

    if (rc < 0) {
        return rc;
    }
    rn_loss_add(sum, c->batch, c->classes, r->smoothing, rn_plan_logits(r->plan), r->labels,
        rn_plan_d_logits(r->plan));
    rc = rn_plan_backward(r->plan, gradient_ready, r, err);
    if (rc == 0) {
        rc = rt_reducer_wait(r->reducer, NULL, err);
    }
    if (rc == 0) {
        rt_optimizer_step(r->optimizer, lr, rn_plan_params(r->plan), rn_plan_grads(r->plan));
    }
    return rc;
}

int rn_replica_test(struct rn_replica *r, size_t n, struct rn_loss *sum, struct co_err *err) {
    const struct rn_net_config *c = &rn_plan_net(r->plan)->config;
    int rc = rn_plan_forward(r->plan, false, err);

    if (rc == 0) {
        rn_loss_add(sum, n, c->classes, 0.0, rn_plan_logits(r->plan), r->labels, NULL);
    }
    return rc;
}
