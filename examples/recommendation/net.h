/* The recommender network of Paddle's v2 book:
 *
 *     user    rows of id, gender, age and job, each -> linear; concatenated -> linear, tanh
 *     movie   row of id -> linear; sum of the genres' rows; the title (below); concatenated ->
 *             linear, tanh
 *     title   for each word: rows of the word and its neighbours (zeros beyond the ends) ->
 *             linear, tanh; summed over the words
 *
 *     prediction = 5 cos(user, movie);  loss = mean (prediction - target)^2
 *
 * Letters: B batch; L and M floats of long and short rows; K rows that a batch looks up, U
 * different ones; T words of all its titles; F features.  Belongs to one thread. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "examples/recommendation/ml.h"
#include "runtime/rt.h"

enum { RC_LONG, RC_SHORT, RC_TABLES };

struct rc_shape {
    size_t width[RC_TABLES]; /* L and M */
    size_t features;         /* F: of a user and of a movie */
};

/* Samples, and the rows that they need; a table's ids are sorted by sample. */
struct rc_batch {
    size_t n;
    float *target;  /* (B) */
    size_t *genres; /* (B + 1): number of genres in all samples before */
    size_t *words;  /* (B + 1): the same for words */
    /* For each sample, long rows: user, movie, genres, words; short rows: gender, age, job. */
    size_t n_ids[RC_TABLES];
    uint64_t *ids[RC_TABLES];   /* (K) */
    uint32_t *index[RC_TABLES]; /* (K): indexes of rows */
    float *rows[RC_TABLES];     /* (U, L), (U, M); the caller owns them */
};

struct rc_net;

/* The caller owns *ret_n. */
CO_MUST_CHECK int rc_net_new(
    const struct rc_shape *s, size_t batch_max, struct rc_net **ret_n, struct co_err *err);
void rc_net_free(struct rc_net *n); /* NULL is fine */
CO_DEFINE_CLEANUP(struct rc_net *, rc_net_free)
/* Makes usr_fc_w, usr_fc_b, gender_fc_w, ...; the caller owns *ret_params. */
CO_MUST_CHECK int rc_net_params(
    const struct rc_shape *s, uint64_t seed, struct rt_params **ret_params, struct co_err *err);

/* Allocates memory for batches of up to batch_max, but not for rows. */
void rc_batch_init(struct rc_batch *b, size_t batch_max);
void rc_batch_done(struct rc_batch *b);
void rc_batch_clear(struct rc_batch *b);
/* Adds a sample.  Ids of the different fields of a table differ (rc_id). */
void rc_batch_add(struct rc_batch *b, const struct rc_library *l, const struct rc_rating *r);
/* The id of a field's value in its table. */
uint64_t rc_id(enum rc_field field, uint64_t thing);

CO_MUST_CHECK int rc_net_forward(struct rc_net *n, const struct rc_batch *b, struct rt_params *p,
    double *ret_loss, struct co_err *err);
/* Call it after the forward of the same batch.  Writes p's gradients, and adds to grads (U, L) and
 * (U, M). */
CO_MUST_CHECK int rc_net_backward(struct rc_net *n, const struct rc_batch *b, struct rt_params *p,
    float *const grads[RC_TABLES], struct co_err *err);

const float *rc_net_prediction(const struct rc_net *n); /* (B) of the last forward */
