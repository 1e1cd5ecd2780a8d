/* An update of a row: what every rule has in common around what the rule does.
 *
 *     gradient --clip_value, clip_norm, l2, l1--> g --rule--> values --min, max--> values
 *
 * When none of that is set the rule works on the caller's memory.  Otherwise the row goes through
 * in pieces that stay in the first cache, so that g needs no memory of the row's size. */
#include <math.h>

#include "runtime/train/optim/optim.h"

enum { PIECE = 256 };

/* Clipping and decay. A field at its neutral value has no effect. */
struct adjustment {
    float limit, scale, l2, l1;
};

static float within(float x, float min, float max) {
    x = x < min ? min : x;
    return x > max ? max : x;
}

/* A loop for each field, because usually only l2 is set. */
static void make_gradient(const struct adjustment *s, size_t n, const float *restrict w,
    const float *restrict g, float *restrict ret) {
    float limit = s->limit, scale = s->scale, l2 = s->l2, l1 = s->l1;
    if (isinf(limit) && scale == 1.0F) {
        for (size_t i = 0; i < n; i++) {
            ret[i] = g[i] + l2 * w[i];
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            ret[i] = within(g[i], -limit, limit) * scale + l2 * w[i];
        }
    }
    for (size_t i = 0; l1 > 0.0F && i < n; i++) {
        ret[i] += (w[i] > 0.0F ? l1 : 0.0F) - (w[i] < 0.0F ? l1 : 0.0F);
    }
}

static void keep_within(size_t n, float *w, float min, float max) {
    for (size_t i = 0; i < n; i++) {
        w[i] = within(w[i], min, max);
    }
}

/* Several partial sums, so that the compiler can use vectors: it may not reorder one float sum. */
static void add_sums(size_t n, const float *g, struct optim_sums *sums) {
    enum { LANES = 8 };
    float sum[LANES] = {0}, squares[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            sum[k] += g[i + k];
            squares[k] += g[i + k] * g[i + k];
        }
    }
    for (; i < n; i++) {
        sum[0] += g[i];
        squares[0] += g[i] * g[i];
    }
    for (size_t k = 0; k < LANES; k++) {
        sums->g += (double)sum[k];
        sums->squares += (double)squares[k];
    }
}

/* Sums of the gradient that s makes of g. */
static struct optim_sums sums_of(
    const struct adjustment *s, bool shaped, size_t n, const float *w, const float *g) {
    struct optim_sums sums = {.n = n};
    float made[PIECE];
    for (size_t at = 0; at < n; at += PIECE) {
        size_t k = n - at < PIECE ? n - at : PIECE;
        if (shaped) {
            make_gradient(s, k, w + at, g + at, made);
        }
        add_sums(k, shaped ? made : g + at, &sums);
    }
    return sums;
}

/* The same sum of squares where floats have no room for it. */
static double squares_of(const struct adjustment *s, size_t n, const float *w, const float *g) {
    double squares = 0;
    float made;
    for (size_t i = 0; i < n; i++) {
        make_gradient(s, 1, w + i, g + i, &made);
        squares += (double)made * (double)made;
    }
    return squares;
}

static struct adjustment shape_of(const struct optim *o, size_t n, const float *w, const float *g) {
    const float *h = o->hyper;
    struct adjustment s = {
        .limit = h[OPTIM_CLIP_VALUE] > 0.0F ? h[OPTIM_CLIP_VALUE] : INFINITY, .scale = 1.0F};
    if (h[OPTIM_CLIP_NORM] > 0.0F) {
        struct optim_sums sums = sums_of(&s, true, n, w, g);
        /* squares of floats above 1.8e19 are no floats */
        double norm = sqrt(isinf(sums.squares) ? squares_of(&s, n, w, g) : sums.squares);
        double most = (double)h[OPTIM_CLIP_NORM];
        s.scale = norm > most ? (float)(most / norm) : 1.0F;
    }
    s.l2 = o->rule->decays ? 0.0F : h[OPTIM_L2];
    s.l1 = o->rule->decays ? 0.0F : h[OPTIM_L1];
    return s;
}

static void apply_shaped(const struct optim_part *whole, const struct adjustment *s) {
    const struct optim *o = whole->o;
    bool bounded = o->set & (1U << OPTIM_MIN | 1U << OPTIM_MAX);
    float made[PIECE];
    struct optim_part p = *whole;
    p.g = made;
    for (size_t at = 0; at < whole->n; at += PIECE) {
        p.n = whole->n - at < PIECE ? whole->n - at : PIECE;
        p.w = whole->w + at;
        p.state = whole->state ? whole->state + at : NULL;
        make_gradient(s, p.n, p.w, whole->g + at, made);
        o->rule->apply(&p);
        if (bounded) {
            keep_within(p.n, p.w, o->hyper[OPTIM_MIN], o->hyper[OPTIM_MAX]);
        }
    }
}

void optim_apply(const struct optim *o, size_t n, float *w, const float *g, float *state) {
    const struct optim_rule *rule = o->rule;
    struct optim_part p = {
        .o = o, .k = {o->hyper[OPTIM_LR]}, .n = n, .stride = n, .w = w, .g = g, .state = state};
    struct adjustment s = {0};
    if (o->set) {
        s = shape_of(o, n, w, g);
    }
    if (rule->begin) {
        struct optim_sums sums = {.n = n};
        if (rule->whole) {
            sums = sums_of(&s, o->set != 0, n, w, g);
        }
        rule->begin(o, &sums, state ? state + rule->planes * n : NULL, p.k);
    }
    if (o->set) {
        apply_shaped(&p, &s);
    } else {
        rule->apply(&p);
    }
}
