/* Threads share the work by blocks of channels: a thread sums a block and applies the result while
 * the block is still in its cache.  If there are more threads than blocks, or if other ranks' sums
 * are needed, the work takes two rounds over parts of the batch: all parts are summed, then the
 * result is applied to all.
 *
 * With M values in a channel, g = dy where ReLU was active, z = x - mean, i = inverse:
 *     d_beta = sum g, d_gamma = i sum(g z)
 *     d_x = gamma i (g - d_beta / M - z i^2 sum(g z) / M) */
#include "examples/resnet50/norm.h"

#include <math.h>
#include <string.h>

#include "examples/resnet50/team.h"

struct pass {
    const struct rn_norm *o;
    const struct rn_lane_kernels *kernels;
    size_t blocks, parts; /* parts: how many parts the batch is divided into, in each block */
    double count;         /* M */
    bool backward;
};

/* Part `part` of block `block`: images first to end - 1. */
struct unit {
    size_t block, part, first, end;
};

static size_t parts_for(size_t blocks, size_t threads) {
    return threads > blocks ? (threads + blocks - 1) / blocks : 1;
}

/* Of the blocks, and the channels' own as other ranks get them. */
size_t rn_norm_sums_count(size_t lanes, size_t channels, size_t threads) {
    return channels / lanes + threads + /* parts_for rounds up by less than a block's worth */
           (channels + RN_LANES_MAX - 1) / RN_LANES_MAX;
}

static struct unit unit_get(const struct pass *p, size_t i) {
    struct unit u = {.block = i / p->parts, .part = i % p->parts};

    u.end = rn_team_part(p->o->batch, u.part, p->parts, &u.first);
    return u;
}

static const char *at(const struct rn_norm *o, const void *values, size_t image, size_t block) {
    size_t index = (image * o->channels + block * o->lanes) * o->pixels;

    return values ? (const char *)values + index * (o->type == RN_BF16 ? 2 : 4) : NULL;
}

static void copy_lanes(
    float *ret_lanes, const float *channels, const struct rn_norm *o, size_t block) {
    memcpy(ret_lanes, channels + block * o->lanes, o->lanes * sizeof(float));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Sums x minus the running mean: with values far from zero a sum of squares would lose digits. */
static void sums_unit(const struct pass *p, const struct unit *u, struct rn_lane_sums *ret_sums) {
    const struct rn_norm *o = p->o;
    struct rn_lane_values v;

    memset(ret_sums, 0, sizeof(*ret_sums));
    copy_lanes(v.mean, o->running_mean, o, u->block);
    for (size_t i = u->first; i < u->end; i++) {
        const struct rn_lane_rows r = {.n = o->pixels * o->lanes, .x = at(o, o->x, i, u->block)};

        p->kernels->sums(&r, &v, ret_sums);
    }
}

static void sums_finish(const struct pass *p, size_t block, const struct rn_lane_sums *sums) {
    const struct rn_norm *o = p->o;

    for (size_t lane = 0; lane < o->lanes; lane++) {
        size_t c = block * o->lanes + lane;
        double moved = sums->sum[lane] / p->count;
        double variance = sums->square[lane] / p->count - moved * moved;
        double mean = moved + (double)o->running_mean[c];

        variance = variance > 0.0 ? variance : 0.0;
        o->mean[c] = (float)mean;
        o->inverse[c] = (float)(1.0 / sqrt(variance + RN_NORM_EPSILON));
        o->running_mean[c] =
            RN_NORM_KEEP * o->running_mean[c] + (1.0F - RN_NORM_KEEP) * (float)mean;
        o->running_variance[c] =
            RN_NORM_KEEP * o->running_variance[c] + (1.0F - RN_NORM_KEEP) * (float)variance;
    }
}

static void values_init(const struct rn_norm *o, size_t block, struct rn_lane_values *ret) {
    copy_lanes(ret->mean, o->mean, o, block);
    copy_lanes(ret->bias, o->beta, o, block);
    for (size_t lane = 0; lane < o->lanes; lane++) {
        size_t c = block * o->lanes + lane;

        ret->scale[lane] = o->gamma[c] * o->inverse[c];
    }
}

static void apply_unit(const struct pass *p, const struct unit *u) {
    const struct rn_norm *o = p->o;
    struct rn_lane_values v;

    values_init(o, u->block, &v);
    for (size_t i = u->first; i < u->end; i++) {
        const struct rn_lane_rows r = {.n = o->pixels * o->lanes,
            .x = at(o, o->x, i, u->block),
            .add = at(o, o->add, i, u->block),
            .out = (void *)at(o, o->y, i, u->block),
            .relu = o->relu};

        p->kernels->apply(&r, &v);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* With an addition, g is also the gradient of `add`, so it is stored there and read again. */
static void back_sums_unit(
    const struct pass *p, const struct unit *u, struct rn_lane_sums *ret_sums) {
    const struct rn_norm *o = p->o;
    struct rn_lane_values v;

    memset(ret_sums, 0, sizeof(*ret_sums));
    values_init(o, u->block, &v);
    for (size_t i = u->first; i < u->end; i++) {
        const struct rn_lane_rows r = {.n = o->pixels * o->lanes,
            .x = at(o, o->x, i, u->block),
            .y = o->add ? at(o, o->y, i, u->block) : NULL,
            .dy = at(o, o->d_y, i, u->block),
            .dy2 = at(o, o->d_y2, i, u->block),
            .out = o->add ? (void *)at(o, o->d_add, i, u->block) : NULL,
            .relu = o->relu};

        p->kernels->back_sums(&r, &v, ret_sums);
    }
}

/* local: the sums of this rank alone.  The gradients of gamma and beta are made of these, as the
 * optimizer averages gradients over the ranks later. */
static void gradients_finish(const struct pass *p, size_t block, const struct rn_lane_sums *local) {
    const struct rn_norm *o = p->o;

    for (size_t lane = 0; lane < o->lanes; lane++) {
        size_t c = block * o->lanes + lane;

        o->d_beta[c] = (float)local->sum[lane];
        o->d_gamma[c] = (float)(local->square[lane] * (double)o->inverse[c]);
    }
}

static void back_values_init(
    const struct pass *p, size_t block, const struct rn_lane_sums *sums, struct rn_lane_values *v) {
    const struct rn_norm *o = p->o;

    values_init(o, block, v);
    for (size_t lane = 0; lane < o->lanes; lane++) {
        double scale = (double)v->scale[lane];
        double inverse = (double)o->inverse[block * o->lanes + lane];

        v->level[lane] = (float)(-scale * sums->sum[lane] / p->count);
        v->slope[lane] = (float)(-scale * inverse * inverse * sums->square[lane] / p->count);
    }
}

static void back_apply_unit(
    const struct pass *p, const struct unit *u, const struct rn_lane_sums *sums) {
    const struct rn_norm *o = p->o;
    struct rn_lane_values v;

    back_values_init(p, u->block, sums, &v);
    for (size_t i = u->first; i < u->end; i++) {
        const struct rn_lane_rows r = {.n = o->pixels * o->lanes,
            .x = at(o, o->x, i, u->block),
            .dy = at(o, o->add ? o->d_add : o->d_y, i, u->block),
            .dy2 = o->add ? NULL : at(o, o->d_y2, i, u->block),
            .out = (void *)at(o, o->d_x, i, u->block),
            .relu = o->relu && !o->add};

        p->kernels->back_apply(&r, &v);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void unit_sum(const struct pass *p, const struct unit *u, struct rn_lane_sums *ret_sums) {
    if (p->backward) {
        back_sums_unit(p, u, ret_sums);
    } else {
        sums_unit(p, u, ret_sums);
    }
}

/* Processes whole blocks, each by one thread. */
static void team_blocks(void *arg, size_t index, size_t count) {
    const struct pass *p = arg;
    size_t block, end = rn_team_part(p->blocks, index, count, &block);

    for (; block < end; block++) {
        const struct unit u = {.block = block, .end = p->o->batch};
        struct rn_lane_sums sums;

        unit_sum(p, &u, &sums);
        if (p->backward) {
            gradients_finish(p, block, &sums);
            back_apply_unit(p, &u, &sums);
        } else {
            sums_finish(p, block, &sums);
            apply_unit(p, &u);
        }
    }
}

static void team_sums(void *arg, size_t index, size_t count) {
    const struct pass *p = arg;
    size_t i, end = rn_team_part(p->blocks * p->parts, index, count, &i);

    for (; i < end; i++) {
        const struct unit u = unit_get(p, i);

        unit_sum(p, &u, &p->o->sums[u.part * p->blocks + u.block]);
    }
}

static void team_apply(void *arg, size_t index, size_t count) {
    const struct pass *p = arg;
    size_t i, end = rn_team_part(p->blocks * p->parts, index, count, &i);

    for (; i < end; i++) {
        const struct unit u = unit_get(p, i);

        if (p->backward) {
            back_apply_unit(p, &u, &p->o->sums[u.block]);
        } else {
            apply_unit(p, &u);
        }
    }
}

/* Adds the sums of all parts to the first part's, always in the same order for the same bits. */
static void parts_add(const struct pass *p) {
    for (size_t i = p->blocks; i < p->blocks * p->parts; i++) {
        struct rn_lane_sums *to = &p->o->sums[i % p->blocks];

        for (size_t lane = 0; lane < p->o->lanes; lane++) {
            to->sum[lane] += p->o->sums[i].sum[lane];
            to->square[lane] += p->o->sums[i].square[lane];
        }
    }
}

/* Other ranks may have blocks of another width: sums travel by channel. */
static int sums_share(const struct pass *p, const struct rn_share *share, struct co_err *err) {
    const size_t lanes = p->o->lanes, n = p->o->channels;
    struct rn_lane_sums *sums = p->o->sums;
    double *all = (double *)&sums[p->blocks * p->parts];

    for (size_t c = 0; c < n; c++) {
        all[c] = sums[c / lanes].sum[c % lanes];
        all[n + c] = sums[c / lanes].square[c % lanes];
    }
    CO_TRY(share->sum(share->arg, all, 2 * n, err));
    for (size_t c = 0; c < n; c++) {
        sums[c / lanes].sum[c % lanes] = all[c];
        sums[c / lanes].square[c % lanes] = all[n + c];
    }
    return 0;
}

static int pass_in_rounds(struct pass *p, const struct rn_share *share, struct co_err *err) {
    struct rn_lane_sums *sums = p->o->sums;

    rn_team_run(team_sums, p);
    parts_add(p);
    for (size_t block = 0; p->backward && block < p->blocks; block++) {
        gradients_finish(p, block, &sums[block]);
    }
    if (share->sum) {
        CO_TRY(sums_share(p, share, err));
    }
    for (size_t block = 0; !p->backward && block < p->blocks; block++) {
        sums_finish(p, block, &sums[block]);
    }
    rn_team_run(team_apply, p);
    return 0;
}

static struct pass pass_make(const struct rn_norm *o, const struct rn_share *share, bool backward) {
    size_t ranks = share && share->sum ? share->ranks : 1, blocks = o->channels / o->lanes;

    return (struct pass){.o = o,
        .kernels = rn_lane_kernels_get(o->type, o->lanes, 0),
        .blocks = blocks,
        .parts = parts_for(blocks, rn_team_size()),
        .count = (double)(o->batch * o->pixels * ranks),
        .backward = backward};
}

static int pass_run(struct pass *p, const struct rn_share *share, struct co_err *err) {
    if (p->parts > 1 || share->sum) {
        return pass_in_rounds(p, share, err);
    }
    rn_team_run(team_blocks, p);
    return 0;
}

int rn_norm_forward(const struct rn_norm *o, const struct rn_share *share, struct co_err *err) {
    struct pass p = pass_make(o, share, false);

    return pass_run(&p, share, err);
}

int rn_norm_backward(const struct rn_norm *o, const struct rn_share *share, struct co_err *err) {
    struct pass p = pass_make(o, share, true);

    return pass_run(&p, share, err);
}

void rn_norm_evaluate(const struct rn_norm *o) {
    struct pass p = pass_make(o, NULL, false);

    for (size_t c = 0; c < o->channels; c++) {
        o->mean[c] = o->running_mean[c];
        o->inverse[c] = (float)(1.0 / sqrt((double)o->running_variance[c] + RN_NORM_EPSILON));
    }
    rn_team_run(team_apply, &p);
}
