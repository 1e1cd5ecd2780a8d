/* Computes the recommender's layers, forward and backward. */
#include "examples/recommendation/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/nn/layers.h"

#define SCRATCH_MAX ((size_t)4 << 30)
#define SCALE 5.0F

enum { LONG_MAX_EACH = 2 + RC_GENRES_MAX + RC_WORDS_MAX, SHORT_EACH = 3, WINDOW = 3 };

/* The linear layers, each with weights and bias in this order in the parameters. */
enum layer { USR, GENDER, AGE, JOB, USER, MOV, TITLE, MOVIE, LAYERS };
static const char *const names[LAYERS] = {
    "usr_fc", "gender_fc", "age_fc", "job_fc", "user", "mov_fc", "title_conv", "movie"};

struct rc_net {
    struct rc_shape shape;
    size_t batch_max;
    struct nn_engine *engine;
    /* Inputs and outputs of the layers: (B, .), but (T, .) for TITLE. */
    float *x[LAYERS], *y[LAYERS], *dx[LAYERS], *dy[LAYERS];
    float *cosine, *prediction; /* (B) */
};

static size_t layer_in(const struct rc_shape *s, enum layer l) {
    size_t wide = s->width[RC_LONG], narrow = s->width[RC_SHORT];
    const size_t in[LAYERS] = {
        wide, narrow, narrow, narrow, wide + 3 * narrow, wide, WINDOW * wide, 3 * wide};

    return in[l];
}

static size_t layer_out(const struct rc_shape *s, enum layer l) {
    size_t wide = s->width[RC_LONG], narrow = s->width[RC_SHORT];
    const size_t out[LAYERS] = {wide, narrow, narrow, narrow, s->features, wide, wide, s->features};

    return out[l];
}

int rc_net_new(
    const struct rc_shape *s, size_t batch_max, struct rc_net **ret_n, struct co_err *err) {
    CO_CLEANUP(rc_net_freep) struct rc_net *n = co_xcalloc(1, sizeof(*n));
    int rc = nn_engine_new(&n->engine, err);

    n->shape = *s;
    n->batch_max = batch_max;
    for (size_t i = 0; rc == 0 && i < 4 * (size_t)LAYERS; i++) {
        enum layer l = (enum layer)(i / 4);
        float **const at[] = {&n->x[l], &n->dx[l], &n->y[l], &n->dy[l]};
        size_t cols = i % 4 < 2 ? layer_in(s, l) : layer_out(s, l);
        void *memory = NULL;

        rc = co_try_alloc(batch_max * (l == TITLE ? RC_WORDS_MAX : 1), cols * sizeof(float),
            SCRATCH_MAX, "batch memory", &memory, err);
        *at[i % 4] = memory;
    }
    if (rc < 0) {
        return rc;
    }
    n->cosine = co_xcalloc(batch_max, sizeof(float));
    n->prediction = co_xcalloc(batch_max, sizeof(float));
    *ret_n = co_steal_ptr(n);
    return 0;
}

void rc_net_free(struct rc_net *n) {
    if (!n) {
        return;
    }
    nn_engine_free(n->engine);
    for (size_t l = 0; l < LAYERS; l++) {
        free(n->x[l]);
        free(n->y[l]);
        free(n->dx[l]);
        free(n->dy[l]);
    }
    free(n->cosine);
    free(n->prediction);
    free(n);
}

int rc_net_params(
    const struct rc_shape *s, uint64_t seed, struct rt_params **ret_params, struct co_err *err) {
    struct rt_param list[2 * LAYERS];
    char text[2 * LAYERS][32], first[LAYERS][32];

    for (size_t i = 0; i < LAYERS; i++) {
        size_t in = layer_in(s, (enum layer)i), out = layer_out(s, (enum layer)i);

        (void)snprintf(text[2 * i], sizeof(text[0]), "%s_w", names[i]);
        (void)snprintf(text[2 * i + 1], sizeof(text[0]), "%s_b", names[i]);
        (void)snprintf(first[i], sizeof(first[0]), "normal:std=%.6f", 1.0 / sqrt((double)in));
        list[2 * i] = (struct rt_param){text[2 * i], in * out, first[i]};
        list[2 * i + 1] = (struct rt_param){text[2 * i + 1], out, NULL};
    }
    return rt_params_new(list, 2 * (size_t)LAYERS, seed, ret_params, err);
}

const float *rc_net_prediction(const struct rc_net *n) {
    return n->prediction;
}

/* ---- batches -------------------------------------------------------------------------------- */

void rc_batch_init(struct rc_batch *b, size_t batch_max) {
    static const size_t each[RC_TABLES] = {LONG_MAX_EACH, SHORT_EACH};

    memset(b, 0, sizeof(*b));
    b->target = co_xcalloc(batch_max, sizeof(*b->target));
    b->genres = co_xcalloc(batch_max + 1, sizeof(*b->genres));
    b->words = co_xcalloc(batch_max + 1, sizeof(*b->words));
    for (size_t t = 0; t < RC_TABLES; t++) {
        b->ids[t] = co_xcalloc(batch_max * each[t], sizeof(*b->ids[t]));
        b->index[t] = co_xcalloc(batch_max * each[t], sizeof(*b->index[t]));
    }
}

void rc_batch_done(struct rc_batch *b) {
    free(b->target);
    free(b->genres);
    free(b->words);
    for (size_t t = 0; t < RC_TABLES; t++) {
        free(b->ids[t]);
        free(b->index[t]);
    }
    memset(b, 0, sizeof(*b));
}

void rc_batch_clear(struct rc_batch *b) {
    b->n = 0;
    memset(b->n_ids, 0, sizeof(b->n_ids));
}

uint64_t rc_id(enum rc_field field, uint64_t thing) {
    return (uint64_t)field << 56 | (thing & (UINT64_MAX >> 8));
}

static void id_add(struct rc_batch *b, enum rc_field field, uint64_t thing) {
    size_t t = field <= RC_TITLE ? RC_LONG : RC_SHORT;

    b->ids[t][b->n_ids[t]++] = rc_id(field, thing);
}

void rc_batch_add(struct rc_batch *b, const struct rc_library *l, const struct rc_rating *r) {
    const struct rc_user *u = &l->users[r->user];
    const struct rc_movie *m = &l->movies[r->movie];

    id_add(b, RC_USER, r->user);
    id_add(b, RC_MOVIE, r->movie);
    for (size_t i = 0; i < m->n_genres; i++) {
        id_add(b, RC_GENRE, l->hashes[m->at + i]);
    }
    for (size_t i = 0; i < m->n_words; i++) {
        id_add(b, RC_TITLE, l->hashes[m->at + m->n_genres + i]);
    }
    id_add(b, RC_GENDER, u->gender);
    id_add(b, RC_AGE, u->age);
    id_add(b, RC_JOB, u->job);
    b->genres[b->n + 1] = b->genres[b->n] + m->n_genres;
    b->words[b->n + 1] = b->words[b->n] + m->n_words;
    b->target[b->n++] = r->stars * 2.0F - 5.0F; /* like paddle.dataset.movielens */
}

/* Where sample i begins in index[RC_LONG]: its user, movie, genres and words. */
static size_t long_at(const struct rc_batch *b, size_t i) {
    return 2 * i + b->genres[i] + b->words[i];
}

static size_t genres_of(const struct rc_batch *b, size_t i) {
    return b->genres[i + 1] - b->genres[i];
}

static size_t words_of(const struct rc_batch *b, size_t i) {
    return b->words[i + 1] - b->words[i];
}

/* ---- rows in, gradients of rows out --------------------------------------------------------- */

/* A row, and `width` floats of an input to which it goes.  Forward, with gradients NULL, the row is
 * copied to the input, or added if `sums` is set.  Backward, the input's gradient is added to the
 * row's. */
struct place {
    size_t width;
    float *input, *row;
    bool sums;
};

static void place_copy(const struct place *p) {
    for (size_t k = 0; k < p->width; k++) {
        p->input[k] = p->sums ? p->input[k] + p->row[k] : p->row[k];
    }
}

static void place_add(const struct place *p) {
    for (size_t k = 0; k < p->width; k++) {
        p->row[k] += p->input[k];
    }
}

typedef void place_fn(const struct place *p);

/* Visits all places of sample i.  `inputs` is x forward and dx backward. */
static void sample_places(struct rc_net *n, const struct rc_batch *b, size_t i,
    float *const inputs[LAYERS], float *const rows[RC_TABLES], place_fn *fn) {
    size_t wide = n->shape.width[RC_LONG], narrow = n->shape.width[RC_SHORT];
    size_t at = long_at(b, i), genres = genres_of(b, i), words = words_of(b, i);
    const uint32_t *index = b->index[RC_LONG] + at, *brief = b->index[RC_SHORT] + SHORT_EACH * i;
    const enum layer layers[SHORT_EACH] = {GENDER, AGE, JOB};

    fn(&(struct place){wide, inputs[USR] + i * wide, rows[RC_LONG] + index[0] * wide, false});
    fn(&(struct place){wide, inputs[MOV] + i * wide, rows[RC_LONG] + index[1] * wide, false});
    for (size_t g = 0; g < genres; g++) {
        fn(&(struct place){
            wide, inputs[MOVIE] + i * 3 * wide + wide, rows[RC_LONG] + index[2 + g] * wide, true});
    }
    /* Word w is the third word of window w - 1, the second of window w, the first of window w + 1.
     */
    for (size_t w = 0; w < words; w++) {
        for (size_t k = 0; k < WINDOW; k++) {
            if (w + k >= 1 && w + k - 1 < words) {
                fn(&(struct place){wide,
                    inputs[TITLE] + ((b->words[i] + w + k - 1) * WINDOW + (WINDOW - 1 - k)) * wide,
                    rows[RC_LONG] + index[2 + genres + w] * wide, false});
            }
        }
    }
    for (size_t k = 0; k < SHORT_EACH; k++) {
        fn(&(struct place){
            narrow, inputs[layers[k]] + i * narrow, rows[RC_SHORT] + brief[k] * narrow, false});
    }
}

/* ---- layers --------------------------------------------------------------------------------- */

static struct nn_linear sizes(const struct rc_net *n, enum layer l, const struct rc_batch *b) {
    return (struct nn_linear){.batch = l == TITLE ? b->words[b->n] : b->n,
        .in = layer_in(&n->shape, l),
        .out = layer_out(&n->shape, l)};
}

static int layer_forward(struct rc_net *n, enum layer l, const struct rc_batch *b,
    struct rt_params *p, struct co_err *err) {
    struct nn_linear s = sizes(n, l, b);

    return s.batch == 0 ? 0
                        : nn_linear_forward(n->engine, &s, n->x[l], rt_params_value(p, 2 * l),
                              rt_params_value(p, 2 * l + 1), n->y[l], err);
}

static int layer_backward(struct rc_net *n, enum layer l, const struct rc_batch *b,
    struct rt_params *p, struct co_err *err) {
    struct nn_linear s = sizes(n, l, b);

    if (s.batch == 0) { /* no title has any word */
        memset(rt_params_gradient(p, 2 * l), 0, (s.in + 1) * s.out * sizeof(float));
        return 0;
    }
    int rc = nn_linear_backward_weights(n->engine, &s, n->x[l], n->dy[l],
        rt_params_gradient(p, 2 * l), rt_params_gradient(p, 2 * l + 1), err);
    return rc == 0 ? nn_linear_backward_input(
                         n->engine, &s, rt_params_value(p, 2 * l), n->dy[l], n->dx[l], err)
                   : rc;
}

static void tanh_forward(size_t n, float *y) {
    for (size_t i = 0; i < n; i++) {
        y[i] = tanhf(y[i]);
    }
}

static void tanh_backward(size_t n, const float *y, float *dy) {
    for (size_t i = 0; i < n; i++) {
        dy[i] *= 1.0F - y[i] * y[i];
    }
}

/* Copies between all columns of `from` (n, width) and as many of `to` (n, stride) from column `at`.
 */
static void columns_put(
    size_t n, size_t width, const float *from, size_t stride, size_t at, float *to) {
    for (size_t i = 0; i < n; i++) {
        memcpy(to + i * stride + at, from + i * width, width * sizeof(*to));
    }
}

static void columns_get(
    size_t n, size_t width, float *to, size_t stride, size_t at, const float *from) {
    for (size_t i = 0; i < n; i++) {
        memcpy(to + i * width, from + i * stride + at, width * sizeof(*to));
    }
}

/* Sums a title's windows into the third part of the movie's input. */
static void title_sum(struct rc_net *n, const struct rc_batch *b) {
    size_t wide = n->shape.width[RC_LONG];

    for (size_t i = 0; i < b->n; i++) {
        float *sum = n->x[MOVIE] + (3 * i + 2) * wide;

        for (size_t t = b->words[i]; t < b->words[i + 1]; t++) {
            for (size_t k = 0; k < wide; k++) {
                sum[k] += n->y[TITLE][t * wide + k];
            }
        }
    }
}

static void title_spread(struct rc_net *n, const struct rc_batch *b) {
    size_t wide = n->shape.width[RC_LONG];

    for (size_t i = 0; i < b->n; i++) {
        for (size_t t = b->words[i]; t < b->words[i + 1]; t++) {
            memcpy(
                n->dy[TITLE] + t * wide, n->dx[MOVIE] + (3 * i + 2) * wide, wide * sizeof(float));
        }
    }
}

static void lengths(const struct rc_net *n, size_t i, float *ret_dot, float *ret_u, float *ret_m) {
    size_t f = n->shape.features;
    const float *u = n->y[USER] + i * f, *m = n->y[MOVIE] + i * f;
    float dot = 0.0F, uu = 1e-12F, mm = 1e-12F;

    for (size_t k = 0; k < f; k++) {
        dot += u[k] * m[k];
        uu += u[k] * u[k];
        mm += m[k] * m[k];
    }
    *ret_dot = dot;
    *ret_u = sqrtf(uu);
    *ret_m = sqrtf(mm);
}

static double loss_forward(struct rc_net *n, const struct rc_batch *b) {
    double loss = 0.0;

    for (size_t i = 0; i < b->n; i++) {
        float dot, u, m;

        lengths(n, i, &dot, &u, &m);
        n->cosine[i] = dot / (u * m);
        n->prediction[i] = SCALE * n->cosine[i];
        double away = (double)(n->prediction[i] - b->target[i]);
        loss += away * away;
    }
    return loss / (double)b->n;
}

/* With c = <u, m> / (|u| |m|): dc/du = m / (|u| |m|) - c u / |u|^2, and likewise for m. */
static void loss_backward(struct rc_net *n, const struct rc_batch *b) {
    size_t f = n->shape.features;

    for (size_t i = 0; i < b->n; i++) {
        const float *u = n->y[USER] + i * f, *m = n->y[MOVIE] + i * f;
        float dot, lu, lm, c = n->cosine[i];
        float dc = SCALE * 2.0F * (n->prediction[i] - b->target[i]) / (float)b->n;

        lengths(n, i, &dot, &lu, &lm);
        for (size_t k = 0; k < f; k++) {
            n->dy[USER][i * f + k] = dc * (m[k] / (lu * lm) - c * u[k] / (lu * lu));
            n->dy[MOVIE][i * f + k] = dc * (u[k] / (lu * lm) - c * m[k] / (lm * lm));
        }
    }
}

/* The column of the user's input at which a layer's output begins. */
static size_t user_column(const struct rc_net *n, enum layer l) {
    return l == USR ? 0 : n->shape.width[RC_LONG] + (size_t)(l - GENDER) * n->shape.width[RC_SHORT];
}

int rc_net_forward(struct rc_net *n, const struct rc_batch *b, struct rt_params *p,
    double *ret_loss, struct co_err *err) {
    size_t wide = n->shape.width[RC_LONG], f = n->shape.features;
    int rc = 0;

    memset(n->x[MOVIE], 0, b->n * 3 * wide * sizeof(float));
    memset(n->x[TITLE], 0, b->words[b->n] * WINDOW * wide * sizeof(float));
    for (size_t i = 0; i < b->n; i++) {
        sample_places(n, b, i, n->x, b->rows, place_copy);
    }
    for (enum layer l = USR; rc == 0 && l <= JOB; l++) {
        rc = layer_forward(n, l, b, p, err);
        columns_put(b->n, layer_out(&n->shape, l), n->y[l], layer_in(&n->shape, USER),
            user_column(n, l), n->x[USER]);
    }
    rc = rc == 0 ? layer_forward(n, USER, b, p, err) : rc;
    rc = rc == 0 ? layer_forward(n, MOV, b, p, err) : rc;
    rc = rc == 0 ? layer_forward(n, TITLE, b, p, err) : rc;
    if (rc < 0) {
        return rc;
    }
    tanh_forward(b->words[b->n] * wide, n->y[TITLE]);
    columns_put(b->n, wide, n->y[MOV], 3 * wide, 0, n->x[MOVIE]);
    title_sum(n, b);
    rc = layer_forward(n, MOVIE, b, p, err);
    if (rc == 0) {
        tanh_forward(b->n * f, n->y[USER]);
        tanh_forward(b->n * f, n->y[MOVIE]);
        *ret_loss = loss_forward(n, b);
    }
    return rc;
}

int rc_net_backward(struct rc_net *n, const struct rc_batch *b, struct rt_params *p,
    float *const grads[RC_TABLES], struct co_err *err) {
    size_t wide = n->shape.width[RC_LONG], f = n->shape.features;

    loss_backward(n, b);
    tanh_backward(b->n * f, n->y[USER], n->dy[USER]);
    tanh_backward(b->n * f, n->y[MOVIE], n->dy[MOVIE]);
    int rc = layer_backward(n, USER, b, p, err);
    rc = rc == 0 ? layer_backward(n, MOVIE, b, p, err) : rc;
    if (rc < 0) {
        return rc;
    }
    columns_get(b->n, wide, n->dy[MOV], 3 * wide, 0, n->dx[MOVIE]);
    title_spread(n, b);
    tanh_backward(b->words[b->n] * wide, n->y[TITLE], n->dy[TITLE]);
    rc = layer_backward(n, MOV, b, p, err);
    rc = rc == 0 ? layer_backward(n, TITLE, b, p, err) : rc;
    for (enum layer l = USR; rc == 0 && l <= JOB; l++) {
        columns_get(b->n, layer_out(&n->shape, l), n->dy[l], layer_in(&n->shape, USER),
            user_column(n, l), n->dx[USER]);
        rc = layer_backward(n, l, b, p, err);
    }
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        sample_places(n, b, i, n->dx, grads, place_add);
    }
    return rc;
}
