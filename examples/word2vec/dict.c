/* Counts words in a hash table, sorts them, and reads and writes dictionaries. */
#include "examples/word2vec/dict.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/map.h"
#include "common/source.h"
#include "runtime/train/data/text.h"

enum { READ_SIZE = 1 << 16 };

#define UNKNOWN "<unk>"

static int words_compare(const void *a, const void *b) {
    const struct wv_word *x = a, *y = b;

    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return strcmp(x->text, y->text);
}

static bool equal(const char *text, const char *word, size_t len) {
    return strncmp(text, word, len) == 0 && text[len] == '\0';
}

/* ---- counting ------------------------------------------------------------------------------- */

struct counted {
    size_t at; /* the word's place in texts, where a NUL ends it */
    uint64_t hash, n;
};

/*     slots    0 3 0 1 2 ...    1 + index in words, from the place of the word's hash on
 *     words    (at, hash, n) ...
 *     texts    "the\0of\0..." */
struct wv_counter {
    uint32_t *slots;
    size_t mask;
    struct counted *words;
    size_t n, room;
    struct co_buf texts;
};

struct wv_counter *wv_counter_new(void) {
    struct wv_counter *c = co_xcalloc(1, sizeof(*c));

    c->mask = 1023;
    c->slots = co_xcalloc(c->mask + 1, sizeof(*c->slots));
    c->texts = CO_BUF(WV_TEXT_MAX);
    return c;
}

void wv_counter_free(struct wv_counter *c) {
    if (c) {
        free(c->slots);
        free(c->words);
        co_buf_done(&c->texts);
        free(c);
    }
}

/* Doubles the table, which is at most half full. */
static void counter_grow(struct wv_counter *c) {
    free(c->slots);
    c->mask = 2 * c->mask + 1;
    c->slots = co_xcalloc(c->mask + 1, sizeof(*c->slots));
    for (size_t i = 0; i < c->n; i++) {
        size_t at = c->words[i].hash & c->mask;

        while (c->slots[at]) {
            at = (at + 1) & c->mask;
        }
        c->slots[at] = (uint32_t)i + 1;
    }
}

int wv_counter_add(
    struct wv_counter *c, const char *word, size_t len, uint64_t times, struct co_err *err) {
    uint64_t hash = co_hash(word, len);
    size_t at = hash & c->mask;

    for (; c->slots[at]; at = (at + 1) & c->mask) {
        struct counted *w = &c->words[c->slots[at] - 1];

        if (w->hash == hash && equal(c->texts.data + w->at, word, len)) {
            w->n += times;
            return 0;
        }
    }
    if (c->n == WV_WORDS_MAX) {
        return co_err_set(err, CO_NORESOURCE, "more than %d different words", WV_WORDS_MAX);
    }
    if (c->n == c->room) {
        c->room = 2 * c->room + 1024;
        c->words = co_xrealloc(c->words, c->room, sizeof(*c->words));
    }
    c->words[c->n] = (struct counted){.at = c->texts.len, .hash = hash, .n = times};
    c->slots[at] = (uint32_t)++c->n;
    int rc = co_buf_add(&c->texts, word, len, err);
    rc = rc == 0 ? co_buf_add(&c->texts, "", 1, err) : rc;
    if (2 * c->n > c->mask) {
        counter_grow(c);
    }
    return rc;
}

/* ---- the dictionary ------------------------------------------------------------------------- */

/* The slot of a word, or the free one where it would be. */
static size_t slot_find(const struct wv_dict *d, const char *word, size_t len) {
    size_t at = co_hash(word, len) & d->mask;

    while (d->slots[at] && !equal(d->words[d->slots[at] - 1].text, word, len)) {
        at = (at + 1) & d->mask;
    }
    return at;
}

/* Makes slots for n words. */
static void slots_make(struct wv_dict *d, size_t n) {
    d->mask = 1023;
    while (d->mask < 2 * n) {
        d->mask = 2 * d->mask + 1;
    }
    d->slots = co_xcalloc(d->mask + 1, sizeof(*d->slots));
}

/* Adds a word; false: it is there already. */
static bool word_put(struct wv_dict *d, const char *text, uint64_t count) {
    size_t at = slot_find(d, text, strlen(text));

    if (d->slots[at]) {
        return false;
    }
    d->words[d->n++] = (struct wv_word){text, count};
    d->slots[at] = (uint32_t)d->n;
    return true;
}

static bool is_mark(const char *text) {
    return strcmp(text, "<s>") == 0 || strcmp(text, "<e>") == 0 || strcmp(text, UNKNOWN) == 0;
}

/* Without a word of its own a dictionary teaches nothing: all are <unk>. */
static int words_check(
    const struct wv_dict *d, const struct wv_word *most, uint64_t least, struct co_err *err) {
    for (size_t i = 0; i < d->n; i++) {
        if (!is_mark(d->words[i].text)) {
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID,
        "no word occurs more than %" PRIu64
        " times (--min-freq); the most frequent is \"%.60s\", %" PRIu64 " times",
        least, most->text, most->count);
}

int wv_dict_make(
    struct wv_counter *c, uint64_t least, struct wv_dict *ret_dict, struct co_err *err) {
    CO_CLEANUP(wv_dict_done) struct wv_dict d = {0};

    CO_AUTOFREE struct wv_word *found = co_xcalloc(c->n + 1, sizeof(*found));
    struct wv_word most = {"", 0};
    size_t n = 0;

    d.words = co_xcalloc(c->n + 1, sizeof(*d.words));
    d.memory = co_buf_take(&c->texts);
    for (size_t i = 0; i < c->n; i++) {
        const struct wv_word w = {d.memory + c->words[i].at, c->words[i].n};

        most = w.count > most.count && !is_mark(w.text) ? w : most;
        if (w.count > least && strcmp(w.text, UNKNOWN) != 0) {
            found[n++] = w;
        }
    }
    c->n = 0;
    memset(c->slots, 0, (c->mask + 1) * sizeof(*c->slots));
    qsort(found, n, sizeof(*found), words_compare);
    slots_make(&d, n + 1);
    for (size_t i = 0; i < n; i++) {
        (void)word_put(&d, found[i].text, found[i].count); /* counted words are distinct */
    }
    (void)word_put(&d, UNKNOWN, 0);
    CO_TRY(words_check(&d, &most, least, err));
    *ret_dict = d;
    memset(&d, 0, sizeof(d));
    return 0;
}

void wv_dict_done(struct wv_dict *d) {
    free(d->words);
    free(d->slots);
    free(d->memory);
    memset(d, 0, sizeof(*d));
}

uint32_t wv_dict_find(const struct wv_dict *d, const char *word, size_t len) {
    size_t at = slot_find(d, word, len);

    return d->slots[at] ? d->slots[at] - 1 : (uint32_t)d->n - 1;
}

int wv_dict_write(const struct wv_dict *d, const char *path, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(WV_TEXT_MAX);

    for (size_t i = 0; i < d->n; i++) {
        CO_TRY(co_buf_addf(&text, err, "%s %" PRIu64 "\n", d->words[i].text, d->words[i].count));
    }
    return co_file_write(path, text.data, text.len, 0644, err);
}

/* Reads "word count", blanks at its ends ignored.  Modifies line; a blank one is nobody's. */
static int line_read(
    struct wv_dict *d, struct da_text t, const char *path, size_t number, struct co_err *err) {
    char *line = d->memory + (t.at - d->memory);
    size_t len = (t = da_trim(t)).len;
    uint64_t count = 0;

    while (len > 0 && !da_is_blank(t.at[len - 1])) {
        len--;
    }
    struct da_text word = da_trim((struct da_text){t.at, len});
    if (t.len == 0) {
        return 0;
    }
    if (word.len == 0 || memchr(t.at, '\0', t.len) ||
        !da_u64((struct da_text){t.at + len, t.len - len}, &count)) {
        return co_err_set(
            err, CO_INVALID, "%s:%zu: expected a word, a blank and its count", path, number);
    }
    line += word.at - line;
    line[word.len] = '\0';
    return word_put(d, line, count)
               ? 0
               : co_err_set(err, CO_INVALID, "%s:%zu: \"%.60s\" is in the dictionary twice", path,
                     number, line);
}

/* Reads all of a file, text or gzip, of at most WV_TEXT_MAX bytes. */
static int text_read(const char *path, struct co_buf *text, struct co_err *err) {
    CO_CLEANUP(co_source_closep) struct co_source *source = NULL;
    size_t n = 1;
    int rc = co_source_open(path, 0, true, &source, err);

    while (rc == 0 && n > 0) {
        rc = co_buf_reserve(text, READ_SIZE, err);
        rc = rc == 0 ? co_source_read(source, text->data + text->len, READ_SIZE, &n, err) : rc;
        text->len += rc == 0 ? n : 0;
    }
    if (text->len >= 3 && memcmp(text->data, "\xef\xbb\xbf", 3) == 0) {
        co_buf_consume(text, 3);
    }
    return rc;
}

static int lines_read(struct wv_dict *d, size_t len, const char *path, struct co_err *err) {
    const char *at = d->memory, *end = at + len;
    int rc = 0;

    for (size_t number = 1; rc == 0 && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((newline ? newline : end) - at);

        rc = line_read(d, (struct da_text){at, n}, path, number, err);
        at += n + 1;
    }
    return rc;
}

int wv_dict_read(const char *path, struct wv_dict *ret_dict, struct co_err *err) {
    CO_CLEANUP(wv_dict_done) struct wv_dict d = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(WV_TEXT_MAX);
    size_t lines = 1;
    CO_TRY(text_read(path, &text, err));
    size_t len = text.len;
    for (size_t i = 0; i < len; i++) {
        lines += text.data[i] == '\n';
    }
    if (lines > WV_WORDS_MAX) {
        return co_err_set(
            err, CO_NORESOURCE, "%s: %zu words, at most %d", path, lines, WV_WORDS_MAX);
    }
    d.words = co_xcalloc(lines + 1, sizeof(*d.words));
    d.memory = co_buf_take(&text);
    slots_make(&d, lines);
    CO_TRY(lines_read(&d, len, path, err));
    if (d.n < 2 || strcmp(d.words[d.n - 1].text, UNKNOWN) != 0) {
        return co_err_set(err, CO_INVALID, "%s: expected words, and %s as the last", path, UNKNOWN);
    }
    *ret_dict = d;
    memset(&d, 0, sizeof(d));
    return 0;
}
