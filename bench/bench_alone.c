/* Times wide_and_deep without a parameter server: calls the example's network, reader, rows and
 * rules directly, in one thread.  The difference to a real trainer is the cost of the parameter
 * server.
 *
 *     bench-alone DATA BATCH      DATA: a directory made by `wide_and_deep --generate`
 *
 * Prints one line for one pass over the data: examples per second of wall time, CPU time in us for
 * an example (a free core does 1e6 / this examples per second), the mean loss, and how much of the
 * CPU time the network's forward and backward are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/flag.h"
#include "common/mem.h"
#include "common/parse.h"
#include "examples/ctr/data.h"
#include "examples/ctr/tables.h"
#include "examples/nn/layers.h"
#include "examples/wide_and_deep/net.h"
#include "runtime/train/optim/init.h"
#include "runtime/train/optim/optim.h"
#include "runtime/train/table/store.h"

struct alone {
    struct ctr_tables tables;
    struct optim dense_rule, row_rule;
    struct optim_initializer row_init;
    struct table_store *store;
    struct ctr_model *model;
    struct ctr_reader *reader;
    struct ctr_batch batch;
    float *params, *grads, *state; /* (P), (P), of the dense rule */
    float *rows, *row_grads;       /* (U, R) */
    uint32_t *slots;               /* (U) */
    bool *fresh;                   /* (U) */
    size_t n_params, dim, n;
    double loss, network; /* seconds of CPU */
};

static double now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-alone: %s\n", co_err_text(err));
        exit(1);
    }
}

static void begin(struct alone *a, const struct ctr_options *o) {
    const struct ctr_config *c = &wd_net.config;
    struct co_err err = {0};
    must(ctr_tables_init(o, &a->tables, &err), &err);
    must(optim_parse(a->tables.dense_optimizer, &a->dense_rule, &err), &err);
    must(optim_parse(a->tables.embedding_optimizer, &a->row_rule, &err), &err);
    must(optim_initializer_parse(wd_net.row_init, (uint64_t)o->seed, &a->row_init, &err), &err);
    must(ctr_model_new(&wd_net, (size_t)o->batch_size, &a->model, &err), &err);
    must(ctr_batch_init(c, (size_t)o->batch_size, &a->batch, &err), &err);
    must(ctr_data_open_train(o, (struct ctr_share){0, 1}, &a->reader, &err), &err);
    a->dim = c->embed;
    const struct table_store_shape shape = {.dim = (uint32_t)a->dim,
        .state = (uint32_t)optim_state_floats(&a->row_rule, a->dim),
        .storage = RT_F32};
    a->store = table_store_new(&shape, NULL);
    a->n_params = ctr_model_layout(a->model)->total;
    a->params = co_xcalloc(a->n_params, sizeof(float));
    a->grads = co_xcalloc(a->n_params, sizeof(float));
    a->state = co_xcalloc(optim_state_floats(&a->dense_rule, a->n_params) + 1, sizeof(float));
    optim_state_init(&a->dense_rule, a->n_params, a->state);
    ctr_layout_init(ctr_model_layout(a->model), (uint64_t)o->seed, a->params);
    size_t most = (size_t)o->batch_size * c->slots;
    a->rows = co_xcalloc(most * a->dim, sizeof(float));
    a->row_grads = co_xcalloc(most * a->dim, sizeof(float));
    a->slots = co_xcalloc(most, sizeof(*a->slots));
    a->fresh = co_xcalloc(most, sizeof(*a->fresh));
}

/* Reads the rows of the batch; makes those that are missing. */
static void get_rows(struct alone *a) {
    const struct ctr_batch *b = &a->batch;
    struct co_err err = {0};
    must(table_store_make_many(a->store, b->unique, b->n_unique, a->slots, a->fresh, &err), &err);
    for (size_t i = 0; i < b->n_unique; i++) {
        float *values = table_store_values(a->store, a->slots[i]);
        if (a->fresh[i]) {
            optim_initializer_row(&a->row_init, b->unique[i], a->dim, values);
            optim_state_init(&a->row_rule, a->dim, table_store_state(a->store, a->slots[i]));
        }
        memcpy(a->rows + i * a->dim, values, a->dim * sizeof(float));
    }
}

static void step(struct alone *a) {
    struct ctr_batch *b = &a->batch;
    const float *p = NULL;
    struct co_err err = {0};
    must(ctr_model_lookup(a->model, b, &err), &err);
    get_rows(a);
    double begun = now(CLOCK_PROCESS_CPUTIME_ID);
    must(ctr_model_forward(a->model, b, a->params, a->rows, &p, &err), &err);
    a->loss += nn_log_loss(b->n, p, b->label) * (double)b->n;
    must(ctr_model_backward(a->model, b, a->params, a->grads, a->row_grads, &err), &err);
    a->network += now(CLOCK_PROCESS_CPUTIME_ID) - begun;
    for (size_t i = 0; i < b->n_unique; i++) {
        optim_apply(&a->row_rule, a->dim, table_store_values(a->store, a->slots[i]),
            a->row_grads + i * a->dim, table_store_state(a->store, a->slots[i]));
    }
    optim_apply(&a->dense_rule, a->n_params, a->params, a->grads, a->state);
    a->n += b->n;
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-alone DATA BATCH", 2, 2, argc, argv);
    if (end >= 0) {
        return end;
    }
    struct ctr_options o = {.net = &wd_net,
        .test = "",
        .format = "",
        .csv_label = "",
        .csv_numbers = "",
        .csv_categories = "",
        .optimizer = "",
        .embedding_optimizer = "",
        .wire = "",
        .seed = 1};
    struct co_err err = {0};
    if (co_parse_i64("BATCH", argv[2], 1, 1 << 20, &o.batch_size, &err) < 0) {
        (void)fprintf(stderr, "bench-alone: %s\n", co_err_text(&err));
        return 2;
    }
    o.train = argv[1];
    struct alone a = {0};
    begin(&a, &o);
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (;;) {
        must(ctr_reader_next(a.reader, &a.batch, &err), &err);
        if (a.batch.n == 0) {
            break;
        }
        step(&a);
    }
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    double n = (double)a.n;
    printf("alone %lld per_s %.0f cpu_us %.2f loss %.4f network_us %.2f\n", (long long)o.batch_size,
        n / wall, cpu / n * 1e6, a.loss / n, a.network / n * 1e6);
    return 0;
}
