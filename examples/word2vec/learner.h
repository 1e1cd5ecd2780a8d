/* The interface between the trainer and a model that learns from windows of words. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "examples/word2vec/dict.h"
#include "examples/word2vec/options.h"
#include "runtime/rt.h"

enum { WV_TABLES = 2 };

struct wv_learner;

struct wv_score {
    double loss;  /* mean over the batch */
    size_t wrong; /* wrong predictions in the batch, if the model predicts */
};

/* A kind of model; learners.c has one row for each.  A learner belongs to one thread. */
struct wv_kind {
    const char *name;
    enum rt_mode mode; /* the default */
    /* Makes a learner for windows of n words and batches of up to batch_max.  The caller owns
     * *ret_l; o and d must outlive it. */
    int (*open)(const struct wv_options *o, const struct wv_dict *d, size_t n, size_t batch_max,
        struct wv_learner **ret_l, struct co_err *err);
    void (*close)(struct wv_learner *l);
    /* Gets the specs of the tables; their texts are borrowed from l and o. */
    void (*tables)(const struct wv_learner *l, struct rt_table_spec specs[WV_TABLES]);
    /* Sets the tables to initial values, or to those of o->load. */
    int (*begin)(
        struct wv_learner *l, const struct rt_job *job, struct rt_client *c, struct co_err *err);
    /* Pulls what other workers have trained, if the learner keeps a copy of the parameters. */
    int (*refresh)(struct wv_learner *l, struct rt_client *c, struct co_err *err);
    /* Runs one batch (n, N): forward, and in training also backward and the push of gradients. */
    int (*run)(struct wv_learner *l, struct rt_client *c, const uint64_t *ids, size_t n,
        bool training, struct wv_score *ret_score, struct co_err *err);
    const char *embedding; /* the table whose rows, by id, are the words' vectors */
    uint32_t table;
};

/* CO_INVALID: no kind has that name. */
CO_MUST_CHECK int wv_kind_find(
    const char *name, const struct wv_kind **ret_kind, struct co_err *err);
extern const struct wv_kind wv_kind_ngram, wv_kind_skipgram;
