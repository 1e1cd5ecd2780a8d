/* Opens a saved model and predicts with it. */
#include "examples/ctr/predict.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "examples/ctr/data.h"
#include "examples/ctr/evaluate.h"
#include "runtime/rt.h"

CO_DEFINE_CLEANUP(struct rt_model *, rt_model_close)

struct saved {
    struct rt_model *model;
    uint32_t dense, embedding;
    int64_t every_ms, next_ms; /* when to look for a newer checkpoint */
};

static int saved_rows(
    void *source, const uint64_t *ids, size_t n, float *ret_rows, struct co_err *err) {
    const struct saved *s = source;

    (void)err;
    rt_model_sparse(s->model, s->embedding, ids, n, ret_rows);
    return 0;
}

/* A training that still runs writes checkpoints, and removes old ones.  What cannot be read now
 * changes nothing: the next time there may be a newer one. */
static int saved_refresh(void *source, const float **params, struct co_err *err) {
    struct saved *s = source;
    struct co_err why = {0};
    bool newer = false;

    (void)err;
    if (co_now_ms() >= s->next_ms) {
        if (rt_model_refresh(s->model, &newer, &why) < 0) {
            co_log_warn("no newer checkpoint read, still predicting with the old one", CO_E(&why));
        } else if (newer) {
            co_log_info("newer checkpoint", CO_I("checkpoint", rt_model_number(s->model)));
        }
        s->next_ms = co_now_ms() + s->every_ms;
    }
    *params = rt_model_dense(s->model, s->dense);
    return 0;
}

/* Finds both tables and checks that their sizes fit the network. */
static int tables_find(const struct saved *s, const char *dir, size_t params,
    const struct ctr_config *c, uint32_t *ret_dense, uint32_t *ret_embedding, struct co_err *err) {
    int rc = rt_model_table(s->model, "dense", ret_dense, err);

    if (rc == 0) {
        rc = rt_model_table(s->model, "embedding", ret_embedding, err);
    }
    if (rc < 0) {
        return co_err_wrap(err, "\"%s\"", dir);
    }
    const struct rt_table_spec *dense = rt_model_spec(s->model, *ret_dense);
    const struct rt_table_spec *embedding = rt_model_spec(s->model, *ret_embedding);
    if (dense->kind != RT_DENSE || dense->size != params || embedding->kind != RT_SPARSE ||
        embedding->dim != c->embed) {
        return co_err_set(err, CO_INVALID,
            "\"%s\" holds another model: expected %zu dense parameters and rows of %zu, found %zu "
            "and %u",
            dir, params, c->embed, dense->size, embedding->dim);
    }
    return 0;
}

int ctr_predict(const struct ctr_options *o, struct co_err *err) {
    CO_CLEANUP(rt_model_closep) struct rt_model *saved = NULL;
    CO_CLEANUP(ctr_model_freep) struct ctr_model *model = NULL;
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *reader = NULL;
    CO_AUTOFREE struct nn_metrics *metrics = co_xcalloc(1, sizeof(*metrics));
    struct saved s = {.every_ms = o->refresh_ms};
    int rc = ctr_model_new(o->net, (size_t)o->batch_size, &model, err);

    if (rc == 0) {
        rc = rt_model_open(o->load, &saved, err);
    }
    if (rc < 0) {
        return rc;
    }
    s.model = saved;
    rc = tables_find(
        &s, o->load, ctr_model_layout(model)->total, &o->net->config, &s.dense, &s.embedding, err);
    if (rc == 0) {
        rc = ctr_data_open_test(o, &reader, err);
    }
    if (rc == 0) {
        ctr_reader_keep(reader);
    }
    if (rc < 0) {
        return rc;
    }
    const struct ctr_evaluation e = {.model = model,
        .config = &o->net->config,
        .batch = (size_t)o->batch_size,
        .params = rt_model_dense(saved, s.dense),
        .rows = saved_rows,
        .source = &s,
        .refresh = o->refresh_ms > 0 ? saved_refresh : NULL,
        .predictions = stdout};
    rc = ctr_evaluate(&e, reader, metrics, err);
    if (rc == 0 && metrics->n > 0) {
        ctr_metrics_print(stderr, metrics);
    }
    return rc == 0 && ctr_reader_samples(reader) == 0
               ? da_tally_unusable(ctr_reader_skipped(reader), ctr_data_test_path(o), err)
               : rc;
}
