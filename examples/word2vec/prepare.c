/* Makes a dictionary and files of windows from text, or from generated text. */
#include "examples/word2vec/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/data/lines.h"
#include "examples/nn/rng.h"
#include "examples/word2vec/dict.h"
#include "examples/word2vec/words.h"

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

/* ---- windows -------------------------------------------------------------------------------- */

/* A text: a file, or what was generated. */
struct text {
    char *path; /* NULL: generated */
    struct co_buf made;
    uint64_t windows;
};

static int words_open(const struct text *t, struct wv_words **ret_words, struct co_err *err) {
    if (t->path) {
        return wv_words_open(t->path, ret_words, err);
    }
    *ret_words = wv_words_of(t->made.data, t->made.len);
    return 0;
}

/* Counts the words of a text and its windows.  <s> and <e> occur once in each line. */
static int words_count(
    const struct wv_prepare *p, struct text *t, struct wv_counter *c, struct co_err *err) {
    CO_CLEANUP(wv_words_closep) struct wv_words *words = NULL;
    enum wv_token token = WV_WORD;
    const char *word = NULL;
    uint64_t lines = 0, line = 2;
    size_t len = 0;
    int rc = words_open(t, &words, err);

    while (rc == 0 && (rc = wv_words_next(words, &token, &word, &len, err)) == 0 &&
           token != WV_TEXT_END) {
        if (token == WV_WORD) {
            line++;
            rc = len > WV_WORD_MAX ? 0 : wv_counter_add(c, word, len, 1, err);
            continue;
        }
        t->windows += line >= p->n ? line - p->n + 1 : 0;
        line = 2;
        lines++;
    }
    rc = rc == 0 ? wv_counter_add(c, "<s>", 3, lines, err) : rc;
    rc = rc == 0 ? wv_counter_add(c, "<e>", 3, lines, err) : rc;
    if (rc == 0 && t->windows == 0) {
        rc = co_err_set(err, CO_INVALID,
            "no usable line in \"%s\": none of %" PRIu64
            " has a window of %u words, <s> and <e> included",
            t->path ? t->path : "generated text", lines, p->n);
    }
    return rc;
}

/* What one kind's windows are written to: as many in each file. */
struct files {
    const struct wv_prepare *p;
    const char *folder, *name;
    uint64_t each, left; /* windows of a file; of the open one */
    uint32_t number;     /* of the next file */
    char *path, *temporary;
    FILE *out;
};

static int file_end(struct files *f, struct co_err *err) {
    FILE *out = co_steal_ptr(f->out);
    int rc = 0;

    if (!out) {
        return 0;
    }
    if (fflush(out) != 0 || fsync(fileno(out)) < 0) {
        rc = co_err_errno(err, errno, "\"%s\"", f->path);
    }
    (void)fclose(out);
    if (rc == 0 && rename(f->temporary, f->path) < 0) {
        rc = co_err_errno(err, errno, "\"%s\"", f->path);
    }
    return rc;
}

static int file_next(struct files *f, struct co_err *err) {
    int rc = file_end(f, err);

    free(f->path);
    free(f->temporary);
    f->path = co_xasprintf("%s/%s.txt-%05u", f->folder, f->name, f->number++);
    /* Hidden, as other workers may read the folder meanwhile. */
    f->temporary = co_xasprintf("%s/.%s.XXXXXX", f->folder, f->name);
    if (rc < 0) {
        return rc;
    }
    int fd = mkostemp(f->temporary, O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0644) < 0 || !(f->out = fdopen(fd, "w"))) {
        rc = co_err_errno(err, errno, "\"%s\"", f->path);
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    f->left = f->each;
    return rc;
}

static void files_done(struct files *f) {
    if (f->out) {
        (void)fclose(f->out);
        (void)unlink(f->temporary);
    }
    free(f->path);
    free(f->temporary);
}

/* Writes the window that ends with word i of a line; ids are in a ring. */
static int window_write(struct files *f, const uint32_t *ring, uint64_t i, struct co_err *err) {
    char line[WV_WINDOW_MAX * 11], *at = line + sizeof(line);
    uint32_t n = f->p->n;
    int rc = f->left == 0 ? file_next(f, err) : 0;

    for (uint32_t k = 0; k < n; k++) { /* from the last one, which is i, to the first */
        uint32_t id = ring[(i - k) % n];

        *--at = k == 0 ? '\n' : ',';
        do {
            *--at = (char)('0' + id % 10);
            id /= 10;
        } while (id > 0);
    }
    f->left--;
    size_t len = (size_t)(line + sizeof(line) - at);
    return rc == 0 && fwrite(at, 1, len, f->out) != len
               ? co_err_errno(err, errno, "\"%s\"", f->path)
               : rc;
}

/* Writes all windows of a text as lines. */
static int windows_write(
    struct files *f, const struct text *t, const struct wv_dict *d, struct co_err *err) {
    CO_CLEANUP(wv_words_closep) struct wv_words *words = NULL;
    uint32_t ring[WV_WINDOW_MAX], begin = wv_dict_find(d, "<s>", 3);
    uint32_t end = wv_dict_find(d, "<e>", 3), unknown = (uint32_t)d->n - 1;
    enum wv_token token = WV_WORD;
    const char *word = NULL;
    size_t len = 0;
    uint64_t i = 0; /* the place of a word in its line, <s> first */
    int rc = words_open(t, &words, err);

    ring[0] = begin;
    while (rc == 0 && (rc = wv_words_next(words, &token, &word, &len, err)) == 0 &&
           token != WV_TEXT_END) {
        ring[++i % f->p->n] = token == WV_LINE_END ? end
                              : len > WV_WORD_MAX  ? unknown
                                                   : wv_dict_find(d, word, len);
        rc = i + 1 >= f->p->n ? window_write(f, ring, i, err) : 0;
        if (token == WV_LINE_END) {
            i = 0;
            ring[0] = begin;
        }
    }
    return rc;
}

static int folder_make(const char *path, struct co_err *err) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    return 0;
}

/* An earlier preparation, of another text, may have written more of them. */
static int rest_remove(const struct files *f, struct co_err *err) {
    int rc = 0;

    for (uint32_t i = f->number;; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s.txt-%05u", f->folder, f->name, i);

        if (unlink(path) < 0) {
            rc = errno == ENOENT ? 0 : co_err_errno(err, errno, "\"%s\"", path);
            break;
        }
    }
    return rc;
}

/* Distributes the windows over numbered files. */
static int files_write(const struct wv_prepare *p, const char *name, const struct text *t,
    const struct wv_dict *d, struct co_err *err) {
    CO_AUTOFREE char *folder = co_xasprintf("%s/%s_data_dir", p->out, name);
    CO_CLEANUP(files_done)
    struct files f = {.p = p, .folder = folder, .name = name, .each = t->windows / p->split + 1};
    int rc = folder_make(folder, err);

    rc = rc == 0 ? windows_write(&f, t, d, err) : rc;
    while (rc == 0 && f.number < p->split) {
        rc = file_next(&f, err);
    }
    rc = rc == 0 ? file_end(&f, err) : rc;
    return rc == 0 ? rest_remove(&f, err) : rc;
}

static int text_open(
    const struct wv_prepare *p, int kind, struct text *ret_text, struct co_err *err) {
    uint64_t sentences = kind == TRAIN ? p->sentences : p->sentences / 10 + 1;

    ret_text->made = CO_BUF(WV_TEXT_MAX);
    if (p->text[0] == '\0') {
        return text_generate(p->seed, kind, sentences, &ret_text->made, err);
    }
    ret_text->path = da_file_find(p->text, inputs[kind]);
    return 0;
}

int wv_prepare(const struct wv_prepare *p, struct co_err *err) {
    CO_CLEANUP(wv_counter_freep) struct wv_counter *counter = wv_counter_new();
    CO_AUTOFREE char *dict_path = co_xasprintf("%s/word_dict", p->out);
    CO_CLEANUP(wv_dict_done) struct wv_dict dict = {0};
    struct text texts[KINDS] = {{.path = NULL}, {.path = NULL}};
    int rc = folder_make(p->out, err);
    const bool generate = p->text[0] == '\0';

    if (rc == 0 && generate && da_is_users(p->out, "word_dict")) {
        rc = co_err_set(err, CO_EXISTS,
            "\"%s\" has data that was not generated, and keeps it: --text names a text, --out "
            "another directory",
            p->out);
    }
    for (int i = 0; rc == 0 && i < KINDS; i++) {
        rc = text_open(p, i, &texts[i], err);
        rc = rc == 0 ? words_count(p, &texts[i], counter, err) : rc;
    }
    rc = rc == 0 ? da_mark(p->out, generate, err) : rc;
    rc = rc == 0 ? wv_dict_make(counter, p->least, &dict, err) : rc;
    rc = rc == 0 ? wv_dict_write(&dict, dict_path, err) : rc;
    for (int i = 0; rc == 0 && i < KINDS; i++) {
        rc = files_write(p, outputs[i], &texts[i], &dict, err);
    }
    for (int i = 0; i < KINDS; i++) {
        free(texts[i].path);
        co_buf_done(&texts[i].made);
    }
    return rc;
}
