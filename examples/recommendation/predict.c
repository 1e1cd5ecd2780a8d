/* Predictions of a saved model, without servers.  See predict.h. */
#include "examples/recommendation/predict.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json/json.h"
#include "common/log.h"
#include "common/utf8.h"
#include "examples/data/lines.h"
#include "examples/recommendation/ml.h"
#include "examples/recommendation/net.h"

enum { PASSES_MAX = 100000 };

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

static const struct rc_shape sizes = {.width = {32, 16}};

/* A network with the values of a saved model. */
struct scorer {
    const struct rc_options *o;
    char *ml; /* owned: directory of users.dat and movies.dat */
    struct rc_library library;
    struct rc_net *net;
    struct rt_params *params;
    struct rc_batch batch;
    struct rt_model *model;
    uint32_t rows[RC_TABLES]; /* tables of the model */
};

static void scorer_done(struct scorer *s) {
    rt_model_close(s->model);
    rc_net_free(s->net);
    rt_params_free(s->params);
    for (size_t i = 0; i < RC_TABLES; i++) {
        free(s->batch.rows[i]);
    }
    rc_batch_done(&s->batch);
    rc_library_done(&s->library);
    free(s->ml);
}

static int scorer_open(const struct rc_options *o, struct scorer *s, struct co_err *err) {
    static const size_t each[RC_TABLES] = {2 + RC_GENRES_MAX + RC_WORDS_MAX, 3};
    struct rc_shape shape = sizes;
    const size_t batch = (size_t)o->batch_size;

    shape.features = (size_t)o->features;
    s->o = o;
    s->ml = o->ml[0] != '\0' ? co_xstrdup(o->ml) : co_xasprintf("%s/ml-1m", o->data);
    CO_TRY(rc_library_read(s->ml, &s->library, err));
    CO_TRY(rc_net_new(&shape, batch, &s->net, err));
    CO_TRY(rc_net_params(&shape, 0, &s->params, err));
    rc_batch_init(&s->batch, batch);
    for (size_t i = 0; i < RC_TABLES; i++) {
        s->batch.rows[i] = co_xcalloc(batch * each[i], shape.width[i] * sizeof(float));
    }
    return 0;
}

/* Checks that the model is one of this network. */
static int model_take(struct scorer *s, struct co_err *err) {
    static const char *const names[RC_TABLES] = {"long_rows", "short_rows"};
    uint32_t dense = 0;

    CO_TRY(rt_model_table(s->model, "dense", &dense, err));
    for (size_t i = 0; i < RC_TABLES; i++) {
        CO_TRY(rt_model_table(s->model, names[i], &s->rows[i], err));
        const struct rt_table_spec *rows = rt_model_spec(s->model, s->rows[i]);
        if (rows->kind != RT_SPARSE || rows->dim != sizes.width[i]) {
            return co_err_set(err, CO_INVALID, "another model: rows of %u in %s, expected %zu",
                rows->dim, names[i], sizes.width[i]);
        }
    }
    const struct rt_table_spec *spec = rt_model_spec(s->model, dense);
    const size_t n = rt_params_size(s->params);
    if (spec->kind != RT_DENSE || spec->size != n) {
        return co_err_set(err, CO_INVALID, "%llu dense parameters, expected %zu of %lld --features",
            (unsigned long long)spec->size, n, (long long)s->o->features);
    }
    memcpy(rt_params_values(s->params), rt_model_dense(s->model, dense), n * sizeof(float));
    return 0;
}

static int model_open(struct scorer *s, const char *dir, struct co_err *err) {
    rt_model_close(s->model);
    s->model = NULL;
    CO_TRY(rt_model_open(dir, &s->model, err));
    return model_take(s, err) < 0 ? co_err_wrap(err, "\"%s\"", dir) : 0;
}

/* Each looked-up row by itself: a model in memory needs no ids that differ. */
static int forward(struct scorer *s, double *ret_loss, struct co_err *err) {
    struct rc_batch *b = &s->batch;

    for (size_t i = 0; i < RC_TABLES; i++) {
        rt_model_sparse(s->model, s->rows[i], b->ids[i], b->n_ids[i], b->rows[i]);
        for (size_t k = 0; k < b->n_ids[i]; k++) {
            b->index[i][k] = (uint32_t)k;
        }
    }
    return rc_net_forward(s->net, b, s->params, ret_loss, err);
}

/* ---- the passes that a training saved ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct passes {
    char **names; /* owned; sorted: "pass-00000" */
    size_t n;
};

static void passes_done(struct passes *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->names[i]);
    }
    free(p->names);
}

static int passes_find(const char *dir, struct passes *ret, struct co_err *err) {
    DIR *d = opendir(dir);
    if (!d) {
        return co_err_errno(err, errno, "\"%s\"", dir);
    }
    for (const struct dirent *e; ret->n < PASSES_MAX && (e = readdir(d));) {
        if (strncmp(e->d_name, "pass-", 5) == 0 && strspn(e->d_name + 5, "0123456789") >= 5) {
            ret->names = co_xrealloc(ret->names, ret->n + 1, sizeof(*ret->names));
            ret->names[ret->n++] = co_xstrdup(e->d_name);
        }
    }
    (void)closedir(d);
    if (ret->n == 0) {
        return co_err_set(err, CO_NOTFOUND,
            "no pass in \"%s\", expected pass-00000 of a training (--save-dir), or --load", dir);
    }
    qsort(ret->names, ret->n, sizeof(*ret->names), by_name);
    return 0;
}

/* ---- predict ---- */

/* As UTF-8: MovieLens has Latin 1, whose bytes are the first 256 characters. */
static char *utf8_of(const char *text) {
    const bool is = co_utf8_valid(text);
    char *ret = co_xcalloc(2 * strlen(text) + 1, 1), *to = ret;

    for (const char *c = text; *c; c++) {
        const unsigned char u = (unsigned char)*c;
        if (u >= 0x80 && !is) {
            *to++ = (char)(0xc0 | u >> 6);
            *to++ = (char)(0x80 | (u & 0x3f));
        } else {
            *to++ = u < 0x20 ? '?' : *c;
        }
    }
    return ret;
}

/* The line of movies.dat has it; numbers are all that the library keeps. */
static int title_find(
    const struct scorer *s, uint32_t movie, char **ret_title, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    CO_AUTOFREE char *begin = co_xasprintf("%u::", movie);
    struct da_text line;

    CO_TRY(rc_file_open(s->ml, "movies.dat", &input, err));
    do {
        CO_TRY(da_line_next(input, &line, err));
    } while (line.at && strncmp(line.at, begin, strlen(begin)) != 0);
    CO_AUTOFREE char *rest = co_xstrdup(line.at ? line.at + strlen(begin) : "?");
    char *end = strstr(rest, "::");
    *(end ? end : rest + strlen(rest)) = '\0';
    *ret_title = utf8_of(rest);
    return 0;
}

static void print_score(
    const struct rc_options *o, const struct rc_rating *r, const char *title, double stars) {
    if (!o->json) {
        (void)printf(
            "user %u, movie %u, %s: Prediction Score is %.2f\n", r->user, r->movie, title, stars);
        return;
    }
    CO_AUTOJSON json_t *j = json_object();
    co_json_set(j, "user", json_integer(r->user));
    co_json_set(j, "movie", json_integer(r->movie));
    co_json_set(j, "title", co_json_string(title));
    co_json_set(j, "stars", json_real(stars));
    CO_AUTOFREE char *text = co_json_dump(j);
    (void)puts(text);
}

static int score(struct scorer *s, const char *user, const char *movie, struct co_err *err) {
    CO_AUTOFREE char *line = co_xasprintf("%s::%s::0::0", user, movie), *title = NULL;
    struct rc_rating r;
    double loss;

    if (strchr(user, ':') || strchr(movie, ':') ||
        rc_rating_parse(&s->library, (struct da_text){line, strlen(line)}, s->ml, &r, err) < 0) {
        return strspn(user, "0123456789") < strlen(user) ||
                       strspn(movie, "0123456789") < strlen(movie)
                   ? co_err_set(err, CO_INVALID,
                         "user \"%.50s\" and movie \"%.50s\", expected their numbers", user, movie)
                   : co_err_wrap(err, "user %.50s, movie %.50s", user, movie);
    }
    rc_batch_clear(&s->batch);
    rc_batch_add(&s->batch, &s->library, &r);
    CO_TRY(forward(s, &loss, err));
    CO_TRY(title_find(s, r.movie, &title, err));
    /* The network's target is 2 stars - 5. */
    print_score(s->o, &r, title, ((double)rc_net_prediction(s->net)[0] + 5.0) / 2.0);
    return 0;
}

/* Lines of "USER MOVIE"; one that cannot be used is an answer, too. */
static int ask(struct scorer *s, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *in = NULL;
    struct da_text line;

    CO_TRY(rt_input_open("/dev/stdin", NULL, &in, err));
    for (;;) {
        struct co_err why = {0};
        CO_TRY(da_line_next(in, &line, err));
        if (!line.at) {
            return 0;
        }
        const struct da_text user = da_word_next(&line), movie = da_word_next(&line);
        CO_AUTOFREE char *u = co_xstrndup(user.at ? user.at : "", user.len);
        CO_AUTOFREE char *m = co_xstrndup(movie.at ? movie.at : "", movie.len);
        if (score(s, u, m, &why) < 0) {
            (void)fprintf(stderr, "%s\n", co_err_text(&why));
        }
        CO_TRY(da_answer_end(err));
    }
}

int rc_predict(const struct rc_options *o, char *const *words, size_t n, struct co_err *err) {
    CO_CLEANUP(scorer_done) struct scorer s = {0};
    CO_CLEANUP(passes_done) struct passes all = {0};
    CO_AUTOFREE char *dir = NULL;

    if (n == 1) {
        return co_err_set(err, CO_INVALID, "predict needs a user and movies: USER MOVIE...");
    }
    if (o->load[0] != '\0') {
        dir = co_xstrdup(o->load);
    } else {
        CO_TRY(passes_find(o->save_dir, &all, err));
        dir = co_xasprintf("%s/%s", o->save_dir, all.names[all.n - 1]);
    }
    CO_TRY(scorer_open(o, &s, err));
    CO_TRY(model_open(&s, dir, err));
    for (size_t i = 1; i < n; i++) {
        CO_TRY(score(&s, words[0], words[i], err));
    }
    return n == 0 ? ask(&s, err) : 0;
}

/* ---- evaluate ---- */

static int batch_read(struct scorer *s, struct rt_input *input, struct co_err *err) {
    struct da_text line;
    struct rc_rating rating;

    rc_batch_clear(&s->batch);
    while (s->batch.n < (size_t)s->o->batch_size) {
        CO_TRY(da_line_next(input, &line, err));
        if (!line.at) {
            return 0;
        }
        CO_TRY(rc_rating_parse(&s->library, line, rt_input_where(input), &rating, err));
        rc_batch_add(&s->batch, &s->library, &rating);
    }
    return 0;
}

/* The mean squared error over the test's ratings. */
static int evaluate(struct scorer *s, double *ret_loss, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    CO_AUTOFREE char *list = co_xasprintf("%s/test.list", s->o->data);
    double sum = 0.0, loss = 0.0, n = 0.0;

    CO_TRY(rt_input_open(list, NULL, &input, err));
    for (;;) {
        CO_TRY(batch_read(s, input, err));
        if (s->batch.n == 0) {
            break;
        }
        CO_TRY(forward(s, &loss, err));
        sum += loss * (double)s->batch.n;
        n += (double)s->batch.n;
    }
    if (n == 0.0) {
        return co_err_set(err, CO_INVALID, "no usable line in what \"%s\" names", list);
    }
    *ret_loss = sum / n;
    return 0;
}

static void print_loss(const struct rc_options *o, const char *name, double loss) {
    if (!o->json) {
        (void)printf("%s: error is %.6f\n", name, loss);
        return;
    }
    CO_AUTOJSON json_t *j = json_object();
    co_json_set(j, "model", co_json_string(name));
    co_json_set(j, "loss", json_real(loss));
    co_json_set(j, "stars", json_real(sqrt(loss) / 2.0));
    CO_AUTOFREE char *text = co_json_dump(j);
    (void)puts(text);
}

static int model_evaluate(struct scorer *s, struct co_err *err) {
    double loss = 0.0;

    CO_TRY(model_open(s, s->o->load, err));
    CO_TRY(evaluate(s, &loss, err));
    print_loss(s->o, s->o->load, loss);
    return 0;
}

/* A pass that cannot be read is named, and leaves the others to choose from. */
static int passes_evaluate(struct scorer *s, const struct passes *all, struct co_err *err) {
    struct co_err first = {0};
    const char *best = NULL;
    double loss = 0.0, least = INFINITY;
    size_t bad = 0;

    for (size_t i = 0; i < all->n; i++) {
        CO_AUTOFREE char *dir = co_xasprintf("%s/%s", s->o->save_dir, all->names[i]);
        struct co_err why = {0};
        if (model_open(s, dir, &why) < 0) {
            co_log_warn(
                "pass left out", CO_S("pass", all->names[i]), CO_S("why", co_err_text(&why)));
            first = bad++ == 0 ? why : first;
            continue;
        }
        CO_TRY(evaluate(s, &loss, err));
        print_loss(s->o, all->names[i], loss);
        CO_TRY(da_answer_end(err));
        if (loss < least) {
            least = loss;
            best = all->names[i];
        }
    }
    if (best && !s->o->json) {
        (void)printf("Best pass is %s, error is %.6f, which means predict get error as %.6f\n",
            best + strlen("pass-"), least, sqrt(least) / 2.0);
        CO_TRY(da_answer_end(err));
    }
    return bad == 0 ? 0
                    : co_err_set(err, first.code, "%zu of %zu passes cannot be read, first: %s",
                          bad, all->n, co_err_text(&first));
}

int rc_evaluate(const struct rc_options *o, struct co_err *err) {
    CO_CLEANUP(scorer_done) struct scorer s = {0};
    CO_CLEANUP(passes_done) struct passes all = {0};

    CO_TRY(scorer_open(o, &s, err));
    if (o->load[0] != '\0') {
        return model_evaluate(&s, err);
    }
    CO_TRY(passes_find(o->save_dir, &all, err));
    return passes_evaluate(&s, &all, err);
}
