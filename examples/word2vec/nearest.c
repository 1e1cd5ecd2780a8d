/* Neighbours of vectors, and what people ask of a trained model.  See nearest.h. */
#include "examples/word2vec/nearest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json/json.h"
#include "examples/data/lines.h"
#include "examples/word2vec/learner.h"
#include "runtime/rt.h"

enum { ANALOGY_WORDS = 3, VECTORS_MAX = 1 << 30 };

CO_DEFINE_CLEANUP(struct rt_model *, rt_model_close)
CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

static float cosine(const float *a, const float *b, size_t dim) {
    float ab = 0.0F, aa = 0.0F, bb = 0.0F;

    for (size_t i = 0; i < dim; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return aa > 0.0F && bb > 0.0F ? ab / sqrtf(aa * bb) : 0.0F;
}

static bool has(const uint32_t *ids, size_t n, uint32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

void wv_nearest(const struct wv_vectors *v, const float *to, const uint32_t *but, size_t n_but,
    size_t k, struct wv_near *ret) {
    for (size_t i = 0; i < k; i++) {
        ret[i] = (struct wv_near){.cosine = -2.0F};
    }
    for (uint32_t id = 0; id + 1 < v->dict->n; id++) {
        if (has(but, n_but, id)) {
            continue;
        }
        struct wv_near here = {id, cosine(to, v->rows + id * v->dim, v->dim)};
        size_t at = k;
        for (; at > 0 && here.cosine > ret[at - 1].cosine; at--) {
            if (at < k) {
                ret[at] = ret[at - 1];
            }
        }
        if (at < k) {
            ret[at] = here;
        }
    }
}

/* ---- a saved model ---- */

struct saved {
    struct wv_dict dict;
    struct wv_vectors vectors;
    float *rows; /* owned */
};

static void saved_done(struct saved *s) {
    wv_dict_done(&s->dict);
    free(s->rows);
}

/* The table of words' vectors, whichever model trained them. */
static int table_find(
    const struct rt_model *m, const char *dir, uint32_t *ret_table, struct co_err *err) {
    const struct wv_kind *const kinds[] = {&wv_kind_ngram, &wv_kind_skipgram};

    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        uint32_t table = 0;
        if (rt_model_table(m, kinds[i]->embedding, &table, NULL) == 0 &&
            rt_model_spec(m, table)->kind == RT_SPARSE) {
            *ret_table = table;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "\"%s\" has no vectors of words: no table %s or %s", dir,
        kinds[0]->embedding, kinds[1]->embedding);
}

static int saved_open(const struct wv_options *o, struct saved *ret, struct co_err *err) {
    CO_CLEANUP(rt_model_closep) struct rt_model *m = NULL;
    CO_AUTOFREE uint64_t *ids = NULL;
    CO_AUTOFREE char *dict = co_xasprintf("%s/word_dict", o->data);
    const char *dir = o->load[0] != '\0' ? o->load : o->save;
    uint32_t table = 0;

    int rc = wv_dict_read(dict, &ret->dict, err);
    if (rc < 0) {
        (void)co_err_wrap(
            err, "no words in --data \"%s\", expected the folder of the training", o->data);
        return rc;
    }
    CO_TRY(rt_model_open(dir, &m, err));
    CO_TRY(table_find(m, dir, &table, err));
    const size_t n = ret->dict.n, dim = rt_model_spec(m, table)->dim;
    CO_TRY(co_try_alloc(
        n * dim, sizeof(float), VECTORS_MAX, "the words' vectors", (void **)&ret->rows, err));
    ids = co_xcalloc(n, sizeof(*ids));
    for (size_t i = 0; i < n; i++) {
        ids[i] = i;
    }
    rt_model_sparse(m, table, ids, n, ret->rows);
    ret->vectors = (struct wv_vectors){&ret->dict, ret->rows, dim};
    return 0;
}

static int word_find(const struct saved *s, const struct wv_options *o, const char *word,
    uint32_t *ret, struct co_err *err) {
    const uint32_t id = wv_dict_find(&s->dict, word, strlen(word));

    if (id + 1 == s->dict.n) {
        return co_err_set(err, CO_INVALID,
            "\"%.100s\" is none of the %zu words of \"%s/word_dict\"", word, s->dict.n - 1,
            o->data);
    }
    *ret = id;
    return 0;
}

/* ---- what is printed ---- */

static void print_near(const struct saved *s, const struct wv_options *o, const char *what,
    const struct wv_near *near) {
    CO_AUTOJSON json_t *top = json_object(), *list = json_array();

    for (int64_t i = 0; i < o->top && near[i].cosine > -2.0F; i++) {
        json_t *j = json_object();
        co_json_set(j, "word", co_json_string(s->dict.words[near[i].id].text));
        co_json_set(j, "cosine", json_real((double)near[i].cosine));
        co_json_append(list, j);
        if (!o->json) {
            (void)printf(
                "%s%s %.3f", i ? ", " : "", s->dict.words[near[i].id].text, (double)near[i].cosine);
        }
    }
    if (o->json) {
        co_json_set(top, "of", co_json_string(what));
        co_json_set(top, "nearest", json_incref(list));
        CO_AUTOFREE char *text = co_json_dump(top);
        (void)fputs(text, stdout);
    }
    (void)puts("");
}

static int print_word(
    const struct saved *s, const struct wv_options *o, const char *word, struct co_err *err) {
    CO_AUTOFREE struct wv_near *near = co_xcalloc((size_t)o->top, sizeof(*near));
    uint32_t id = 0;

    CO_TRY(word_find(s, o, word, &id, err));
    wv_nearest(&s->vectors, s->rows + id * s->vectors.dim, &id, 1, (size_t)o->top, near);
    if (!o->json) {
        (void)printf("%s: ", word);
    }
    print_near(s, o, word, near);
    return 0;
}

/* A word a line; one that is not known is an answer, too. */
static int ask(const struct saved *s, const struct wv_options *o, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *in = NULL;
    struct da_text line;

    CO_TRY(rt_input_open("/dev/stdin", NULL, &in, err));
    for (;;) {
        struct co_err why = {0};
        CO_TRY(da_line_next(in, &line, err));
        if (!line.at) {
            return 0;
        }
        CO_AUTOFREE char *word = co_xstrndup(line.at, line.len);
        if (print_word(s, o, word, &why) < 0) {
            (void)fprintf(stderr, "%s\n", co_err_text(&why));
        }
        CO_TRY(da_answer_end(err));
    }
}

int wv_nearest_words(const struct wv_options *o, char *const *words, size_t n, struct co_err *err) {
    CO_CLEANUP(saved_done) struct saved s = {0};

    CO_TRY(saved_open(o, &s, err));
    for (size_t i = 0; i < n; i++) {
        CO_TRY(print_word(&s, o, words[i], err));
    }
    return n == 0 ? ask(&s, o, err) : 0;
}

/* The vector of B - A + C, of unit vectors, as Mikolov et al. 2013 have it. */
static void add_unit(const struct saved *s, uint32_t id, float sign, float *sum) {
    const float *row = s->rows + id * s->vectors.dim;
    float square = 0.0F;

    for (size_t i = 0; i < s->vectors.dim; i++) {
        square += row[i] * row[i];
    }
    for (size_t i = 0; i < s->vectors.dim && square > 0.0F; i++) {
        sum[i] += sign * row[i] / sqrtf(square);
    }
}

int wv_analogy(const struct wv_options *o, char *const *words, size_t n, struct co_err *err) {
    CO_CLEANUP(saved_done) struct saved s = {0};
    uint32_t ids[ANALOGY_WORDS];

    if (n != ANALOGY_WORDS) {
        return co_err_set(
            err, CO_INVALID, "analogy of %zu words, expected three: A is to B as C is to ?", n);
    }
    CO_TRY(saved_open(o, &s, err));
    CO_AUTOFREE float *sum = co_xcalloc(s.vectors.dim, sizeof(*sum));
    CO_AUTOFREE struct wv_near *near = co_xcalloc((size_t)o->top, sizeof(*near));
    for (size_t i = 0; i < n; i++) {
        CO_TRY(word_find(&s, o, words[i], &ids[i], err));
        add_unit(&s, ids[i], i == 0 ? -1.0F : 1.0F, sum);
    }
    wv_nearest(&s.vectors, sum, ids, n, (size_t)o->top, near);
    CO_AUTOFREE char *what = co_xasprintf("%s is to %s as %s is to", words[0], words[1], words[2]);
    if (!o->json) {
        (void)printf("%s: ", what);
    }
    print_near(&s, o, what, near);
    return 0;
}
