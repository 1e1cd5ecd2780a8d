/* Builds the table of tensors, operators and parameters for a depth. */
#include "examples/resnet50/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "examples/nn/rng.h"

enum { STAGES = 4, CHANNELS_STEP = 16 };

static const struct form {
    int depth;
    bool bottleneck; /* 1x1, 3x3, 1x1 with four times the channels; else 3x3, 3x3 */
    int blocks[STAGES];
} forms[] = {
    {10, false, {1, 1, 1, 1}},
    {14, true, {1, 1, 1, 1}},
    {18, false, {2, 2, 2, 2}},
    {34, false, {3, 4, 6, 3}},
    {50, true, {3, 4, 6, 3}},
    {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},
};

const char *rn_net_depths(void) {
    return "10, 14, 18, 34, 50, 101, 152";
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void param_add(struct rn_net *net, const char *suffix, int n_dims, const uint32_t *dims) {
    struct rn_param *p = &net->params[net->n_params++];
    const struct rn_op op = net->ops[net->n_ops];

    p->op = net->n_ops;
    p->n_dims = n_dims;
    p->count = 1;
    for (int i = 0; i < n_dims; i++) {
        p->dims[i] = dims[i];
        p->count *= dims[i];
    }
    (void)snprintf(p->name, sizeof(p->name), "%s.%s", op.name, suffix);
    net->parameters += p->count;
}

void rn_net_init_param(const struct rn_net *net, int i, uint64_t seed, float *ret_values) {
    const struct rn_param *p = &net->params[i];
    bool weight = strcmp(strrchr(p->name, '.'), ".weight") == 0;
    struct nn_rng r;

    nn_rng_init(&r, seed, (uint64_t)i); /* own streams: a new layer does not change the others */
    if (p->n_dims == 4) {
        double fan_in = (double)p->dims[1] * p->dims[2] * p->dims[3];

        nn_rng_fill_normal(&r, 0.0F, (float)sqrt(2.0 / fan_in), p->count, ret_values);
    } else if (p->n_dims == 2) {
        float bound = 1.0F / sqrtf((float)p->dims[0]);

        nn_rng_fill_uniform(&r, -bound, bound, p->count, ret_values);
    } else {
        bool scale = weight && net->ops[p->op].kind == RN_NORM;

        for (size_t k = 0; k < p->count; k++) {
            ret_values[k] = scale ? 1.0F : 0.0F;
        }
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Begins the next operator and names it.  Its parameters are added between this and plan_end, which
 * counts it. */
static struct rn_op *op_begin(
    struct rn_net *net, enum rn_kind kind, int in, const char *prefix, const char *name) {
    struct rn_op *op = &net->ops[net->n_ops];

    *op = (struct rn_op){.kind = kind, .in = in, .add = RN_NONE, .param = net->n_params};
    (void)snprintf(op->name, sizeof(op->name), "%s%s", prefix, name);
    return op;
}

/* Ends the operator; returns the tensor that it writes. */
static int plan_end(struct rn_net *net, struct rn_tensor out) {
    if (net->n_params == net->ops[net->n_ops].param) {
        net->ops[net->n_ops].param = RN_NONE;
    }
    net->tensors[++net->n_ops] = out;
    return net->n_ops;
}

static uint32_t pixels_after(uint32_t pixels, uint32_t kernel, uint32_t stride, uint32_t pad) {
    return (pixels + 2 * pad - kernel) / stride + 1;
}

static int conv_add(struct rn_net *net, int in, uint32_t channels, uint32_t kernel, uint32_t stride,
    const char *prefix, const char *name) {
    const struct rn_tensor *from = &net->tensors[in];
    struct rn_op *op = op_begin(net, RN_CONV, in, prefix, name);

    op->kernel = kernel;
    op->stride = stride;
    op->pad = kernel / 2;
    param_add(net, "weight", 4, (const uint32_t[]){channels, from->channels, kernel, kernel});
    return plan_end(net, (struct rn_tensor){.channels = channels,
                             .height = pixels_after(from->height, kernel, stride, op->pad),
                             .width = pixels_after(from->width, kernel, stride, op->pad)});
}

static int norm_add(
    struct rn_net *net, int in, int add, bool relu, const char *prefix, const char *name) {
    const struct rn_tensor out = net->tensors[in];
    struct rn_op *op = op_begin(net, RN_NORM, in, prefix, name);

    op->add = add;
    op->relu = relu;
    op->running = net->running;
    net->running += out.channels;
    param_add(net, "weight", 1, &out.channels);
    param_add(net, "bias", 1, &out.channels);
    return plan_end(net, out);
}

static int max_pool_add(struct rn_net *net, int in) {
    const struct rn_tensor *from = &net->tensors[in];
    struct rn_op *op = op_begin(net, RN_MAX_POOL, in, "", "maxpool");

    op->kernel = 3;
    op->stride = 2;
    op->pad = 1;
    return plan_end(net, (struct rn_tensor){.channels = from->channels,
                             .height = pixels_after(from->height, 3, 2, 1),
                             .width = pixels_after(from->width, 3, 2, 1)});
}

static void head_add(struct rn_net *net, int in) {
    uint32_t channels = net->tensors[in].channels, classes = net->config.classes;

    (void)op_begin(net, RN_MEAN_POOL, in, "", "avgpool");
    in = plan_end(net, (struct rn_tensor){.channels = channels, .height = 1, .width = 1});
    (void)op_begin(net, RN_LINEAR, in, "", "fc");
    param_add(net, "weight", 2, (const uint32_t[]){channels, classes});
    param_add(net, "bias", 1, &classes);
    (void)plan_end(net, (struct rn_tensor){.channels = classes, .height = 1, .width = 1});
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int block_add(
    struct rn_net *net, const struct form *form, int in, int stage, int block, uint32_t planes) {
    uint32_t stride = stage > 0 && block == 0 ? 2 : 1, out = form->bottleneck ? 4 * planes : planes;
    char prefix[32];
    int x, shortcut = in;

    (void)snprintf(prefix, sizeof(prefix), "layer%d.%d.", stage + 1, block);
    if (stride != 1 || net->tensors[in].channels != out) {
        shortcut = conv_add(net, in, out, 1, stride, prefix, "downsample.0");
        shortcut = norm_add(net, shortcut, RN_NONE, false, prefix, "downsample.1");
    }
    x = conv_add(
        net, in, planes, form->bottleneck ? 1 : 3, form->bottleneck ? 1 : stride, prefix, "conv1");
    x = norm_add(net, x, RN_NONE, true, prefix, "bn1");
    x = conv_add(net, x, planes, 3, form->bottleneck ? stride : 1, prefix, "conv2");
    if (form->bottleneck) {
        x = norm_add(net, x, RN_NONE, true, prefix, "bn2");
        x = conv_add(net, x, out, 1, 1, prefix, "conv3");
    }
    return norm_add(net, x, shortcut, true, prefix, form->bottleneck ? "bn3" : "bn2");
}

static void blocks_add(struct rn_net *net, const struct form *form) {
    int x = conv_add(net, 0, net->config.width, 7, 2, "", "conv1");

    x = norm_add(net, x, RN_NONE, true, "", "bn1");
    x = max_pool_add(net, x);
    for (int stage = 0; stage < STAGES; stage++) {
        for (int block = 0; block < form->blocks[stage]; block++) {
            x = block_add(net, form, x, stage, block, net->config.width << stage);
        }
    }
    head_add(net, x);
}

static int config_check(const struct rn_net_config *c, struct co_err *err) {
    if (c->batch < 1 || c->batch > RN_BATCH_MAX) {
        return co_err_set(
            err, CO_INVALID, "batch size %u, expected 1 to %d", c->batch, RN_BATCH_MAX);
    }
    if (c->image < 32 || c->image > RN_IMAGE_MAX) {
        return co_err_set(
            err, CO_INVALID, "image size %u, expected 32 to %d", c->image, RN_IMAGE_MAX);
    }
    if (c->classes < 2 || c->classes > RN_CLASSES_MAX) {
        return co_err_set(
            err, CO_INVALID, "%u classes, expected 2 to %d", c->classes, RN_CLASSES_MAX);
    }
    if (c->width < CHANNELS_STEP || c->width > 256 || c->width % CHANNELS_STEP) {
        return co_err_set(err, CO_INVALID, "width %u, expected a multiple of %d, 256 at most",
            c->width, CHANNELS_STEP);
    }
    return 0;
}

int rn_net_make(const struct rn_net_config *config, struct rn_net *ret_net, struct co_err *err) {
    CO_TRY(config_check(config, err));
    for (size_t i = 0; i < CO_ARRAY_LEN(forms); i++) {
        if (forms[i].depth == config->depth) {
            memset(ret_net, 0, sizeof(*ret_net));
            ret_net->config = *config;
            ret_net->tensors[0] = (struct rn_tensor){3, config->image, config->image};
            blocks_add(ret_net, &forms[i]);
            return 0;
        }
    }
    return co_err_set(
        err, CO_INVALID, "depth %d, expected one of %s", config->depth, rn_net_depths());
}
