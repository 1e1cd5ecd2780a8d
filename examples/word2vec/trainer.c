/* The training loop of both models: files, batches, tests, saving. */
#include "examples/word2vec/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/log.h"
#include "examples/data/lines.h"
#include "examples/data/train.h"
#include "examples/word2vec/learner.h"
#include "examples/word2vec/nearest.h"

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

enum { NEIGHBOURS = 3, NEAREST_WORDS_MAX = 20000 };

struct trainer {
    const struct rt_job *job;
    const struct wv_options *o;
    const struct wv_kind *kind;
    struct wv_dict dict;
    struct wv_learner *learner;
    struct rt_client *client;
    struct rt_input *input;
    struct rt_progress progress;
    uint64_t trained; /* windows, by this process */
    uint64_t *ids;    /* (B, N) */
    size_t n;         /* N */
};

static const char *const modes[] = {"", [RT_ASYNC] = "async", [RT_SYNC] = "sync", [RT_GEO] = "geo"};

/* Chooses the mode: the flag's, else that of the environment's file, else the model's default. */
static int mode_choose(const struct trainer *t, enum rt_mode *ret, struct co_err *err) {
    const char *file = co_contract_getenv(CO_VAR_PS_STRATEGY);

    if (t->o->mode[0] == '\0') {
        *ret = file && file[0] != '\0' ? RT_MODE_UNSET : t->kind->mode;
        return 0;
    }
    for (size_t i = 1; i < CO_ARRAY_LEN(modes); i++) {
        if (strcmp(modes[i], t->o->mode) == 0) {
            *ret = (enum rt_mode)i;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "--mode is \"%s\", expected async, sync or geo", t->o->mode);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Parses a line of N ids, separated by commas. */
static int line_parse(const struct trainer *t, struct da_text rest, struct rt_input *input,
    uint64_t *ret_ids, struct co_err *err) {
    char text[DA_QUOTE_MAX];
    size_t n = 1;

    for (size_t i = 0; i < rest.len; i++) {
        n += rest.at[i] == ',';
    }
    if (n != t->n) {
        return co_err_set(err, CO_INVALID, "%s: %zu ids, expected %zu with commas between (--n)",
            rt_input_where(input), n, t->n);
    }
    for (size_t i = 0; i < t->n; i++) {
        const char *comma = memchr(rest.at, ',', rest.len);
        size_t len = comma ? (size_t)(comma - rest.at) : rest.len;

        if (!da_u64(da_trim((struct da_text){rest.at, len}), &ret_ids[i]) ||
            ret_ids[i] >= t->dict.n) {
            return co_err_set(err, CO_INVALID,
                "%s: \"%s\" is not an id below %zu, the words of \"%s/word_dict\"",
                rt_input_where(input), da_quote((struct da_text){rest.at, len}, text), t->dict.n,
                t->o->data);
        }
        rest.at += len + (comma != NULL);
        rest.len -= len + (comma != NULL);
    }
    return 0;
}

static int batch_read(
    const struct trainer *t, struct rt_input *input, size_t *ret_n, struct co_err *err) {
    struct da_text line = {.at = NULL};
    size_t n = 0;
    int rc = 0;

    while (n < (size_t)t->o->batch_size) {
        rc = da_line_next(input, &line, err);
        if (rc == 0 && line.at) {
            rc = line_parse(t, line, input, t->ids + n * t->n, err);
        }
        if (rc < 0 || !line.at) {
            break;
        }
        n++;
    }
    *ret_n = n;
    return rc;
}

/* The result of a test over a whole input. */
struct tested {
    double loss, error; /* means */
};

static int test(
    struct trainer *t, struct rt_input *input, struct tested *ret_mean, struct co_err *err) {
    struct wv_score sum = {0};
    size_t all = 0, n = 0;
    int rc = batch_read(t, input, &n, err);

    while (rc == 0 && n > 0) {
        struct wv_score s = {0};

        rc = t->kind->run(t->learner, t->client, t->ids, n, false, &s, err);
        sum.loss += s.loss * (double)n;
        sum.wrong += s.wrong;
        all += n;
        if (rc == 0) {
            rc = batch_read(t, input, &n, err);
        }
    }
    if (all > 0) {
        *ret_mean = (struct tested){sum.loss / (double)all, (double)sum.wrong / (double)all};
    }
    return rc;
}

static int test_open(const struct trainer *t, const struct rt_share *share,
    struct rt_input **ret_input, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/test_data_dir", t->o->data);

    return rt_input_open(path, share, ret_input, err);
}

static struct rt_share share_of(const struct trainer *t) {
    return (struct rt_share){
        .worker = rt_worker_index(t->job), .workers = rt_worker_num(t->job), .by = RT_SHARE_SUFFIX};
}

/* Prints the line of Paddle v2, with a test on this worker's part of the test data. */
static int classic_print(
    struct trainer *t, uint64_t batch, const struct wv_score *s, size_t n, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    const struct rt_share share = share_of(t);
    struct tested tested = {0};

    CO_TRY(test_open(t, &share, &input, err));
    CO_TRY(test(t, input, &tested, err));
    (void)printf("Pass %" PRIu64 ", Batch %" PRIu64
                 ", Cost %f, {'classification_error_evaluator': %f}, Testing metrics "
                 "{'classification_error_evaluator': %f}\n",
        rt_input_pass(t->input), batch, s->loss, (double)s->wrong / (double)n, tested.error);
    (void)fflush(stdout);
    return 0;
}

static int say(
    struct trainer *t, uint64_t batch, const struct wv_score *s, size_t n, struct co_err *err) {
    if (t->kind != &wv_kind_ngram) {
        rt_progress_add(&t->progress, n, s->loss);
        return 0;
    }
    return t->o->period > 0 && batch % (uint64_t)t->o->period == 0
               ? classic_print(t, batch, s, n, err)
               : 0;
}

/* ---- passes --------------------------------------------------------------------------------- */

static int pass(struct trainer *t, struct co_err *err) {
    struct wv_score s = {0};
    size_t n = 0;
    int rc = batch_read(t, t->input, &n, err);

    rt_progress_begin(&t->progress, rt_input_pass(t->input));
    for (uint64_t batch = 0; rc == 0 && n > 0; batch++) {
        rc = t->kind->run(t->learner, t->client, t->ids, n, true, &s, err);
        t->trained += n;
        if (rc == 0) {
            rc = rt_keep_input(t->client, t->input, err);
        }
        if (rc == 0) {
            rc = rt_step(t->client, err);
        }
        if (rc == 0) {
            rc = say(t, batch, &s, n, err);
        }
        if (rc == 0) {
            rc = batch_read(t, t->input, &n, err);
        }
    }
    rt_progress_end(&t->progress);
    return rc;
}

static int passes(struct trainer *t, struct co_err *err) {
    int rc = rt_resume_input(t->client, t->input, err);

    if (rc == 0) {
        rc = t->kind->refresh(t->learner, t->client, err);
    }
    while (rc == 0 && rt_input_pass(t->input) < (uint64_t)t->o->passes) {
        rc = pass(t, err);
        rt_input_rewind(t->input);
    }
    return rc == 0 ? rt_no_more(t->client, err) : rc;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Prints the words whose vectors have the smallest angles to a word's. */
static void nearest_print(const struct wv_vectors *v, uint32_t word) {
    struct wv_near near[NEIGHBOURS];

    wv_nearest(v, v->rows + word * v->dim, &word, 1, NEIGHBOURS, near);
    (void)printf("NEAREST ---> %s:", v->dict->words[word].text);
    for (size_t k = 0; k < NEIGHBOURS; k++) {
        (void)printf(" %s", v->dict->words[near[k].id].text);
    }
    (void)printf("\n");
}

static int nearest(const struct trainer *t, size_t dim, struct co_err *err) {
    size_t words = t->dict.n;

    if (t->o->nearest == 0) {
        return 0;
    }
    if (words > NEAREST_WORDS_MAX) {
        return co_err_set(
            err, CO_INVALID, "--nearest with %zu words, at most %d", words, NEAREST_WORDS_MAX);
    }
    CO_AUTOFREE uint64_t *ids = co_xcalloc(words, sizeof(*ids));
    CO_AUTOFREE float *rows = co_xcalloc(words * dim, sizeof(*rows));
    for (size_t i = 0; i < words; i++) {
        ids[i] = i;
    }
    CO_TRY(rt_pull_sparse(t->client, t->kind->table, ids, words, rows, err));
    const struct wv_vectors vectors = {&t->dict, rows, dim};
    for (uint32_t i = 0, n = 0; i + 1 < words && n < (size_t)t->o->nearest; i++) {
        if (t->dict.words[i].text[0] != '<') { /* skip the marks <s> and <e> */
            nearest_print(&vectors, i);
            n++;
        }
    }
    return 0;
}

static int end(struct trainer *t, size_t dim, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    struct tested s = {0};
    int rc = rt_barrier(t->client, err);

    if (rc == 0 && t->o->passes > 0) {
        rc = da_trained(t->client, t->kind->table, t->trained, t->o->data, NULL, err);
    }
    if (rc < 0 || !rt_is_first_worker(t->job)) {
        return rc;
    }
    rc = t->kind->refresh(t->learner, t->client, err);
    if (rc == 0) {
        rc = test_open(t, NULL, &input, err);
    }
    if (rc == 0) {
        rc = test(t, input, &s, err);
    }
    if (rc == 0) {
        (void)printf("TEST ---> loss: %.6f error: %.6f\n", s.loss, s.error);
        rc = nearest(t, dim, err);
        (void)fflush(stdout);
    }
    return rc == 0 && t->o->save[0] != '\0' ? rt_save(t->client, t->o->save, err) : rc;
}

static void trainer_done(struct trainer *t) {
    rt_client_close(t->client);
    if (t->learner) {
        t->kind->close(t->learner);
    }
    rt_input_close(t->input);
    wv_dict_done(&t->dict);
    free(t->ids);
    memset(t, 0, sizeof(*t));
}

/* Makes sure, before training, that its end will not fail. */
static int end_check(struct trainer *t, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    size_t n = 0;
    int rc = da_writable(t->o->save, err);

    rc = rc == 0 ? test_open(t, NULL, &input, err) : rc;
    rc = rc == 0 ? batch_read(t, input, &n, err) : rc;
    return rc == 0 && n == 0 ? co_err_set(err, CO_INVALID,
                                   "test data: no usable line in \"%s/test_data_dir\"", t->o->data)
                             : rc;
}

static int trainer_open(struct trainer *t, struct co_err *err) {
    CO_AUTOFREE char *dict = co_xasprintf("%s/word_dict", t->o->data);
    CO_AUTOFREE char *files = co_xasprintf("%s/train_data_dir", t->o->data);
    const struct rt_share share = share_of(t);
    int rc = wv_kind_find(t->o->model, &t->kind, err);

    if (rc == 0) {
        rc = wv_dict_read(dict, &t->dict, err);
        if (rc == CO_NOTFOUND) {
            (void)co_err_wrap(err, "expected a directory that \"word2vec prepare\" wrote");
        }
    }
    if (rc == 0) {
        rc = rt_input_open(files, &share, &t->input, err);
    }
    if (rc == 0) {
        rc = t->kind->open(t->o, &t->dict, t->n, (size_t)t->o->batch_size, &t->learner, err);
    }
    t->ids = co_xcalloc((size_t)t->o->batch_size * t->n, sizeof(*t->ids));
    return rc == 0 && rt_is_first_worker(t->job) ? end_check(t, err) : rc;
}

int wv_train(const struct rt_job *job, const struct wv_options *o, size_t n, struct co_err *err) {
    CO_CLEANUP(trainer_done) struct trainer t = {.job = job, .progress.job = job, .o = o, .n = n};
    struct rt_table_spec specs[WV_TABLES];
    struct rt_client_options options = {.k_steps = (uint32_t)o->k_steps};
    int rc = trainer_open(&t, err);

    if (rc == 0) {
        rc = mode_choose(&t, &options.mode, err);
    }
    if (rc < 0) {
        return rc;
    }
    t.kind->tables(t.learner, specs);
    rc = rt_client_open(job, &options, specs, WV_TABLES, &t.client, err);
    if (rc == 0) {
        co_log_info("worker starts", CO_I("worker", rt_worker_index(job)),
            CO_S("mode", modes[rt_client_mode(t.client)]), CO_I("words", (int64_t)t.dict.n),
            CO_S("data", rt_input_describe(t.input)));
        rc = t.kind->begin(t.learner, job, t.client, err);
    }
    while (rc == 0 && (rc = passes(&t, err)) == CO_GONE) { /* all workers go back to a checkpoint */
        co_log_warn("worker goes back", CO_S("reason", co_err_text(err)));
        rc = 0;
    }
    if (rc == 0) {
        rc = end(&t, specs[t.kind->table].dim, err);
    }
    return rc == 0 ? rt_finish(co_steal_ptr(t.client), err) : rc;
}
