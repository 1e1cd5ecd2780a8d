/* Makes a plan: primitives, memory, and their binding.  Times in the memory plan: operator i runs
 * forward at time i and backward at time 2 * operators - 1 - i. */
#include <string.h>
#include <sys/mman.h>

#include "examples/resnet50/plan_internal.h"
#include "examples/resnet50/team.h"

enum { HUGE_PAGE = 2 << 20 };

/* ---- operators' primitives ------------------------------------------------------------------- */

static int node_init(struct rn_plan *p, struct node *n, struct co_err *err) {
    switch (n->op->kind) {
    case RN_CONV:
        return rn_conv_init(&n->conv, &p->dnn, &p->net, n->op, err);
    case RN_MAX_POOL:
        return rn_max_pool_init(&n->max_pool, &p->dnn, &p->net, n->op, err);
    case RN_LINEAR:
        return rn_linear_init(&n->linear, &p->dnn, &p->net, n->op, err);
    case RN_NORM:
    case RN_MEAN_POOL:
        break;
    }
    return 0;
}

static void node_done(struct node *n) {
    if (n->op && n->op->kind == RN_CONV) {
        rn_conv_done(&n->conv);
    } else if (n->op && n->op->kind == RN_MAX_POOL) {
        rn_max_pool_done(&n->max_pool);
    } else if (n->op && n->op->kind == RN_LINEAR) {
        rn_linear_done(&n->linear);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t tensor_bytes(const struct rn_plan *p, int tensor) {
    const struct rn_tensor *t = &p->net.tensors[tensor];
    size_t values = (size_t)p->net.config.batch * t->channels * t->height * t->width;

    /* The head is in f32. */
    return values * (tensor > p->net.n_ops - 2 ? sizeof(float) : rn_type_size(p->dnn.type));
}

static void consumer_add(struct rn_plan *p, int tensor, int op, enum place place) {
    if (tensor > 0) {
        struct node *producer = &p->nodes[tensor - 1];

        producer->consumers[producer->n_consumers] = op;
        producer->consumer_place[producer->n_consumers++] = place;
    }
}

static void span_set(struct node *n, enum place place, size_t bytes, int first, int last) {
    n->spans[place] = (struct rn_span){.bytes = bytes, .first = first, .last = last};
}

static void span_use(struct rn_plan *p, int tensor, int time) {
    struct rn_span *s = tensor > 0 ? &p->nodes[tensor - 1].spans[OUT] : NULL;

    if (s && s->last < time) {
        s->last = time;
    }
}

/* Sets the spans of operator i's own values, and extends those of values that it reads. */
static void spans_init(struct rn_plan *p, int i) {
    struct node *n = &p->nodes[i];
    const struct rn_op *op = n->op;
    int forward = i, end = 2 * p->net.n_ops - 1, backward = end - i;
    bool reads_in = op->kind == RN_CONV || op->kind == RN_NORM || op->kind == RN_LINEAR;

    span_set(n, OUT, tensor_bytes(p, i + 1), forward, op->add == RN_NONE ? forward : backward);
    span_use(p, op->in, reads_in ? backward : forward);
    span_use(p, op->add, forward);
    if (op->in > 0) {
        span_set(n, D_IN, tensor_bytes(p, op->in), backward, end - (op->in - 1));
    }
    if (op->add != RN_NONE) {
        span_set(n, D_ADD, tensor_bytes(p, op->add), backward, end - (op->add - 1));
    }
    if (op->kind == RN_MAX_POOL) {
        span_set(n, WORKSPACE, n->max_pool.workspace_bytes, forward, backward);
    }
    if (op->kind == RN_CONV) {
        span_set(n, FORWARD_COPIES, n->conv.forward_copy_bytes, forward, forward);
        span_set(n, BACKWARD_COPIES, n->conv.backward_copy_bytes, backward, backward);
    }
    consumer_add(p, op->in, i, D_IN);
    consumer_add(p, op->add, i, D_ADD);
}

/* Asks for pages of 2 MiB, as a step touches gigabytes. */
static int arena_new(size_t bytes, char **ret_arena, struct co_err *err) {
    void *memory = NULL;

    if (posix_memalign(&memory, HUGE_PAGE, bytes)) {
        return co_err_set(err, CO_NOMEMORY, "no memory for %zu MiB of activations", bytes >> 20);
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    *ret_arena = memory;
    return 0;
}

static int arena_plan(struct rn_plan *p, struct co_err *err) {
    size_t n = (size_t)p->net.n_ops * PLACES, used = 0;
    CO_AUTOFREE struct rn_span *spans = co_xcalloc(n, sizeof(*spans));

    for (int i = 0; i < p->net.n_ops; i++) {
        for (int k = 0; k < PLACES; k++) {
            spans[used] = p->nodes[i].spans[k];
            p->apart_bytes += spans[used].bytes;
            used += spans[used].bytes > 0;
        }
    }
    p->arena_bytes = rn_arena_plan(spans, used);
    used = 0;
    for (int i = 0; i < p->net.n_ops; i++) {
        for (int k = 0; k < PLACES; k++) {
            struct rn_span *s = &p->nodes[i].spans[k];

            s->offset = s->bytes ? spans[used++].offset : 0;
        }
    }
    return arena_new(p->arena_bytes, &p->arena, err);
}

static size_t floats_aligned(size_t bytes) {
    return rn_arena_aligned(bytes) / sizeof(float);
}

static void params_place(struct rn_plan *p) {
    for (int i = 0; i < p->net.n_params; i++) {
        const struct rn_param *param = &p->net.params[i];
        const struct node *n = &p->nodes[param->op];
        size_t bytes =
            n->op->kind == RN_CONV ? n->conv.weights_bytes : param->count * sizeof(float);

        p->places[i + 1] = p->places[i] + floats_aligned(bytes);
    }
}

static int floats_new(size_t n, float **ret, struct co_err *err) {
    void *memory = NULL;

    if (posix_memalign(&memory, RN_ARENA_ALIGN, n * sizeof(float))) {
        return co_err_set(err, CO_NOMEMORY, "no memory for %zu parameters", n);
    }
    memset(memory, 0, n * sizeof(float));
    *ret = memory;
    return 0;
}

static int memory_init(struct rn_plan *p, struct co_err *err) {
    const struct rn_net_config *c = &p->net.config;
    size_t widest = 0;
    const struct {
        float **memory;
        size_t n;
    } arrays[] = {
        {&p->params, rn_plan_storage(p)},
        {&p->grads, rn_plan_storage(p)},
        {&p->running_mean, p->net.running},
        {&p->running_variance, p->net.running},
        {&p->mean, p->net.running},
        {&p->inverse, p->net.running},
        {&p->images, (size_t)c->batch * 3 * c->image * c->image},
        {&p->d_logits, (size_t)c->batch * c->classes},
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < CO_ARRAY_LEN(arrays); i++) {
        rc = floats_new(arrays[i].n, arrays[i].memory, err);
    }
    for (size_t i = 0; rc == 0 && i < p->net.running; i++) {
        p->running_variance[i] = 1.0F;
    }
    for (int i = 0; i < p->net.n_ops; i++) {
        size_t channels = p->net.tensors[i + 1].channels;

        widest = channels > widest ? channels : widest;
    }
    p->sums =
        co_xcalloc(rn_norm_sums_count(p->dnn.lanes, widest, rn_team_size()), sizeof(*p->sums));
    return rc;
}

/* ---- binding --------------------------------------------------------------------------------- */

void *rn_plan_value(const struct rn_plan *p, int op, enum place place) {
    const struct rn_span *s = &p->nodes[op].spans[place];

    return s->bytes ? p->arena + s->offset : NULL;
}

static void *tensor_at(const struct rn_plan *p, int tensor) {
    return tensor == 0 ? p->images : rn_plan_value(p, tensor - 1, OUT);
}

void *rn_plan_gradient(const struct rn_plan *p, int i, int k) {
    const struct node *n = &p->nodes[i];

    if (i == p->net.n_ops - 1) {
        return k == 0 ? p->d_logits : NULL;
    }
    return k < n->n_consumers ? rn_plan_value(p, n->consumers[k], n->consumer_place[k]) : NULL;
}

static struct rn_norm norm_bind(const struct rn_plan *p, int i) {
    const struct rn_op *op = &p->net.ops[i];
    const struct rn_tensor *t = &p->net.tensors[i + 1];
    size_t gamma = p->places[op->param], beta = p->places[op->param + 1];

    return (struct rn_norm){.type = p->dnn.type,
        .lanes = p->dnn.lanes,
        .batch = p->net.config.batch,
        .channels = t->channels,
        .pixels = (size_t)t->height * t->width,
        .relu = op->relu,
        .gamma = p->params + gamma,
        .beta = p->params + beta,
        .d_gamma = p->grads + gamma,
        .d_beta = p->grads + beta,
        .running_mean = p->running_mean + op->running,
        .running_variance = p->running_variance + op->running,
        .mean = p->mean + op->running,
        .inverse = p->inverse + op->running,
        .sums = p->sums,
        .x = tensor_at(p, op->in),
        .add = op->add == RN_NONE ? NULL : tensor_at(p, op->add),
        .y = rn_plan_value(p, i, OUT),
        .d_y = rn_plan_gradient(p, i, 0),
        .d_y2 = rn_plan_gradient(p, i, 1),
        .d_add = rn_plan_value(p, i, D_ADD),
        .d_x = rn_plan_value(p, i, D_IN)};
}

static int conv_bind(struct rn_plan *p, int i, struct co_err *err) {
    const struct rn_op *op = &p->net.ops[i];
    const struct rn_conv_memory m = {.weights = p->params + p->places[op->param],
        .gradient = p->grads + p->places[op->param],
        .in = tensor_at(p, op->in),
        .out = rn_plan_value(p, i, OUT),
        .d_in = rn_plan_value(p, i, D_IN),
        .d_out = rn_plan_gradient(p, i, 0),
        .forward_copies = rn_plan_value(p, i, FORWARD_COPIES),
        .backward_copies = rn_plan_value(p, i, BACKWARD_COPIES)};

    return rn_conv_bind(&p->nodes[i].conv, &p->dnn, &m, err);
}

static int linear_bind(struct rn_plan *p, int i, struct co_err *err) {
    const struct rn_op *op = &p->net.ops[i];
    size_t w = p->places[op->param], b = p->places[op->param + 1];
    const struct rn_linear_memory m = {.x = tensor_at(p, op->in),
        .w = p->params + w,
        .b = p->params + b,
        .y = rn_plan_value(p, i, OUT),
        .d_x = rn_plan_value(p, i, D_IN),
        .d_w = p->grads + w,
        .d_b = p->grads + b,
        .d_y = rn_plan_gradient(p, i, 0)};

    return rn_linear_bind(&p->nodes[i].linear, &p->dnn, &m, err);
}

static int node_bind(struct rn_plan *p, int i, struct co_err *err) {
    const struct rn_op *op = &p->net.ops[i];
    const struct rn_tensor *in = &p->net.tensors[op->in];
    const struct rn_max_pool_memory max_pool = {.in = tensor_at(p, op->in),
        .out = rn_plan_value(p, i, OUT),
        .d_in = rn_plan_value(p, i, D_IN),
        .d_out = rn_plan_gradient(p, i, 0),
        .workspace = rn_plan_value(p, i, WORKSPACE)};

    switch (op->kind) {
    case RN_CONV:
        return conv_bind(p, i, err);
    case RN_NORM:
        p->nodes[i].norm = norm_bind(p, i);
        return 0;
    case RN_MAX_POOL:
        return rn_max_pool_bind(&p->nodes[i].max_pool, &p->dnn, &max_pool, err);
    case RN_MEAN_POOL:
        p->nodes[i].mean_pool = (struct rn_mean_pool){.type = p->dnn.type,
            .lanes = p->dnn.lanes,
            .batch = p->net.config.batch,
            .channels = in->channels,
            .pixels = (size_t)in->height * in->width,
            .x = tensor_at(p, op->in),
            .y = rn_plan_value(p, i, OUT),
            .d_x = rn_plan_value(p, i, D_IN),
            .d_y = rn_plan_gradient(p, i, 0)};
        return 0;
    case RN_LINEAR:
        return linear_bind(p, i, err);
    }
    return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static int plan_init(
    struct rn_plan *p, enum rn_type type, enum rn_order order, struct co_err *err) {
    CO_TRY(rn_dnn_open(&p->dnn, type, err));
    p->dnn.plain = order == RN_ORDER_PLAIN;
    for (int i = 0; i < p->net.n_ops; i++) {
        p->nodes[i].op = &p->net.ops[i];
        CO_TRY(node_init(p, &p->nodes[i], err));
    }
    for (int i = 0; i < p->net.n_ops; i++) {
        spans_init(p, i);
    }
    params_place(p);
    CO_TRY(arena_plan(p, err));
    CO_TRY(memory_init(p, err));
    for (int i = 0; i < p->net.n_ops; i++) {
        CO_TRY(node_bind(p, i, err));
    }
    return 0;
}

int rn_plan_new(const struct rn_net_config *config, enum rn_type type, enum rn_order order,
    struct rn_plan **ret_plan, struct co_err *err) {
    CO_CLEANUP(rn_plan_freep) struct rn_plan *p = co_xcalloc(1, sizeof(*p));

    CO_TRY(rn_net_make(config, &p->net, err));
    CO_TRY(plan_init(p, type, order, err));
    *ret_plan = co_steal_ptr(p);
    return 0;
}

/* Makes the plan of a small network, which has all that a large one has. */
int rn_plan_supported(enum rn_type type, struct co_err *err) {
    static const struct rn_net_config small = {
        .depth = 14, .batch = 1, .image = 32, .classes = 2, .width = 16};
    CO_CLEANUP(rn_plan_freep) struct rn_plan *p = NULL;
    int rc = rn_plan_new(&small, type, RN_ORDER_FAST, &p, err);

    if (rc == CO_UNSUPPORTED && type == RN_BF16) {
        return co_err_set(err, rc,
            "precision bf16: oneDNN has no bf16 convolutions for this processor (x86-64: they need "
            "AVX-512, which ONEDNN_MAX_CPU_ISA may hide); use --precision=f32, or auto, "
            "which is bf16 where all workers have it");
    }
    return rc;
}

void rn_plan_free(struct rn_plan *p) {
    if (!p) {
        return;
    }
    for (int i = 0; i < p->net.n_ops; i++) {
        node_done(&p->nodes[i]);
    }
    rn_dnn_close(&p->dnn);
    void *const arrays[] = {p->arena, p->params, p->grads, p->running_mean, p->running_variance,
        p->mean, p->inverse, p->images, p->d_logits, p->sums};
    for (size_t i = 0; i < CO_ARRAY_LEN(arrays); i++) {
        free(arrays[i]);
    }
    free(p);
}
