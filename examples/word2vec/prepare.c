/* Makes a dictionary and files of windows from text, or from generated text. */
#include "examples/word2vec/prepare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "examples/nn/rng.h"
#include "examples/word2vec/dict.h"

enum { TRAIN, TEST, KINDS };
static const char *const inputs[KINDS] = {"ptb.train.txt", "ptb.valid.txt"};
static const char *const outputs[KINDS] = {"train", "test"};

/* ---- generated text ------------------------------------------------------------------------- */

static uint64_t word_next(struct nn_rng *r, uint64_t topic, uint64_t word) {
    double u = nn_rng_double(r);

    if (u < 0.5) {
        return topic * WV_TOPIC_WORDS + (word + 1) % WV_TOPIC_WORDS;
    }
    if (u < 0.8) {
        return topic * WV_TOPIC_WORDS + nn_rng_below(r, WV_TOPIC_WORDS);
    }
    return nn_rng_below(r, (uint64_t)WV_TOPICS * WV_TOPIC_WORDS);
}

static int text_generate(
    uint64_t seed, int kind, uint64_t sentences, struct co_buf *text, struct co_err *err) {
    struct nn_rng r;
    int rc = 0;

    nn_rng_init(&r, seed, (uint64_t)kind);
    for (uint64_t i = 0; rc == 0 && i < sentences; i++) {
        uint64_t topic = nn_rng_below(&r, WV_TOPICS), word = nn_rng_below(&r, WV_TOPIC_WORDS);

        word += topic * WV_TOPIC_WORDS;
        for (uint64_t n = 8 + nn_rng_below(&r, 8); rc == 0 && n > 0; n--) {
            rc = co_buf_addf(text, err, "t%uw%u%c", (unsigned)(word / WV_TOPIC_WORDS),
                (unsigned)(word % WV_TOPIC_WORDS), n > 1 ? ' ' : '\n');
            word = word_next(&r, topic, word % WV_TOPIC_WORDS);
        }
    }
    return rc;
}

static int text_read(
    const struct wv_prepare *p, int kind, struct co_buf *text, struct co_err *err) {
    if (p->text[0] == '\0') {
        uint64_t sentences = kind == TRAIN ? p->sentences : p->sentences / 10 + 1;

        return text_generate(p->seed, kind, sentences, text, err);
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", p->text, inputs[kind]);
    return co_file_read(path, WV_TEXT_MAX, text, err);
}

/* ---- windows -------------------------------------------------------------------------------- */

static int windows_add(
    const uint32_t *ids, size_t n_ids, uint32_t n, struct co_buf *lines, struct co_err *err) {
    int rc = 0;

    for (size_t i = n; rc == 0 && i <= n_ids; i++) {
        for (size_t k = i - n; rc == 0 && k < i; k++) {
            rc = co_buf_addf(lines, err, "%u%c", ids[k], k + 1 < i ? ',' : '\n');
        }
    }
    return rc;
}

/* Writes all windows of a text as lines. */
static int windows_make(const struct wv_dict *d, const struct co_buf *text, uint32_t n,
    struct co_buf *lines, struct co_err *err) {
    CO_AUTOFREE uint32_t *ids = co_xcalloc(text->len / 2 + 4, sizeof(*ids));
    const char *at = text->data, *end = at ? at + text->len : at;
    int rc = 0;

    while (rc == 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        size_t n_ids = 0;

        ids[n_ids++] = wv_dict_find(d, "<s>", 3);
        while (at < stop) {
            size_t blank = strspn(at, " \t\r\v\f"), len = strcspn(at + blank, " \t\r\v\f\n");

            if (len > 0) {
                ids[n_ids++] = wv_dict_find(d, at + blank, len);
            }
            at += blank + len > 0 ? blank + len : 1;
        }
        at = stop + 1;
        ids[n_ids++] = wv_dict_find(d, "<e>", 3);
        rc = windows_add(ids, n_ids, n, lines, err);
    }
    return rc;
}

static int folder_make(const char *path, struct co_err *err) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    return 0;
}

/* Distributes the lines over numbered files. */
static int files_write(
    const struct wv_prepare *p, const char *name, const struct co_buf *lines, struct co_err *err) {
    const char *at = lines->data ? lines->data : "", *end = at + lines->len;
    CO_AUTOFREE char *folder = co_xasprintf("%s/%s_data_dir", p->out, name);
    size_t total = 0;
    int rc = folder_make(folder, err);

    for (size_t i = 0; i < lines->len; i++) {
        total += lines->data[i] == '\n';
    }
    for (uint32_t i = 0; rc == 0 && i < p->split; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s.txt-%05u", folder, name, i);
        const char *from = at;

        for (size_t n = total / p->split + 1; n > 0 && at < end; n--) {
            at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
        }
        rc = co_file_write(path, from, (size_t)(at - from), 0644, err);
    }
    return rc;
}

int wv_prepare(const struct wv_prepare *p, struct co_err *err) {
    struct co_buf texts[KINDS] = {CO_BUF(WV_TEXT_MAX), CO_BUF(WV_TEXT_MAX)};
    CO_AUTOFREE char *dict_path = co_xasprintf("%s/word_dict", p->out);
    CO_CLEANUP(wv_dict_done) struct wv_dict dict = {0};
    int rc = folder_make(p->out, err);

    for (int i = 0; rc == 0 && i < KINDS; i++) {
        rc = text_read(p, i, &texts[i], err);
    }
    if (rc == 0) {
        rc = wv_dict_make(texts, KINDS, p->least, &dict, err);
    }
    if (rc == 0) {
        rc = wv_dict_write(&dict, dict_path, err);
    }
    for (int i = 0; rc == 0 && i < KINDS; i++) {
        CO_AUTOBUF struct co_buf lines = CO_BUF((size_t)WV_TEXT_MAX * 8);

        rc = windows_make(&dict, &texts[i], p->n, &lines, err);
        if (rc == 0) {
            rc = files_write(p, outputs[i], &lines, err);
        }
    }
    for (int i = 0; i < KINDS; i++) {
        co_buf_done(&texts[i]);
    }
    return rc;
}
