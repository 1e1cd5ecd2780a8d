/* Counts words with a hash table, sorts them, and reads and writes dictionaries. */
#include "examples/word2vec/dict.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"

#define BEGIN "<s>"
#define END "<e>"
#define UNKNOWN "<unk>"

/* One occurrence of a word in a text. */
struct token {
    const char *at;
    size_t len;
};

static int tokens_compare(const void *a, const void *b) {
    const struct token *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->at, y->at, n);

    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int words_compare(const void *a, const void *b) {
    const struct wv_word *x = a, *y = b;

    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return strcmp(x->text, y->text);
}

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Writes all words of the texts to tokens (NULL: only counts them).  Returns their number, and
 * counts the lines. */
static size_t tokens_find(
    const struct co_buf *texts, size_t n, struct token *tokens, uint64_t *ret_lines) {
    size_t found = 0;

    *ret_lines = 0;
    for (size_t t = 0; t < n; t++) {
        if (!texts[t].data || texts[t].len == 0) {
            continue;
        }
        const char *at = texts[t].data, *end = at + texts[t].len;
        *ret_lines += end[-1] != '\n';
        while (at < end) {
            const char *from = at;

            while (at < end && !is_blank(*at)) {
                at++;
            }
            if (at > from && tokens) {
                tokens[found] = (struct token){from, (size_t)(at - from)};
            }
            found += at > from;
            *ret_lines += at < end && *at == '\n';
            at++;
        }
    }
    return found;
}

/* Copies the words that occur often enough to d->words and d->memory.  tokens are sorted, so that
 * equal ones are adjacent. */
static void words_gather(
    struct wv_dict *d, const struct token *tokens, size_t n, uint64_t lines, uint64_t least) {
    char *memory = d->memory;

    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && tokens_compare(&tokens[i], &tokens[k]) == 0; k++) {
        }
        uint64_t count = k - i;
        memcpy(memory, tokens[i].at, tokens[i].len);
        memory[tokens[i].len] = '\0';
        if (strcmp(memory, BEGIN) == 0 || strcmp(memory, END) == 0) {
            count += lines;
        }
        if (count > least && strcmp(memory, UNKNOWN) != 0) {
            d->words[d->n++] = (struct wv_word){memory, count};
            memory += tokens[i].len + 1;
        }
    }
}

static _Thread_local const struct wv_dict *sorting; /* qsort's comparison gets no argument for it */

static int ids_compare(const void *a, const void *b) {
    return strcmp(
        sorting->words[*(const uint32_t *)a].text, sorting->words[*(const uint32_t *)b].text);
}

static int dict_index(struct wv_dict *d, struct co_err *err) {
    d->by_text = co_xcalloc(d->n + 1, sizeof(*d->by_text));
    for (size_t i = 0; i < d->n; i++) {
        d->by_text[i] = (uint32_t)i;
    }
    sorting = d;
    qsort(d->by_text, d->n, sizeof(*d->by_text), ids_compare);
    sorting = NULL;
    for (size_t i = 1; i < d->n; i++) {
        const char *text = d->words[d->by_text[i]].text;

        if (strcmp(d->words[d->by_text[i - 1]].text, text) == 0) {
            return co_err_set(err, CO_INVALID, "\"%s\" is in the dictionary twice", text);
        }
    }
    return 0;
}

int wv_dict_make(const struct co_buf *texts, size_t n, uint64_t least, struct wv_dict *ret_dict,
    struct co_err *err) {
    CO_CLEANUP(wv_dict_done) struct wv_dict d = {0};
    uint64_t lines = 0;
    size_t found = tokens_find(texts, n, NULL, &lines), bytes = 64;
    void *memory = NULL;

    /* One more token each for <s> and <e>: they may be missing from the texts. */
    int rc =
        co_try_alloc(found + 2, sizeof(struct token), (size_t)16 << 30, "the words", &memory, err);
    CO_AUTOFREE struct token *tokens = memory;
    if (rc < 0) {
        return rc;
    }
    (void)tokens_find(texts, n, tokens, &lines);
    tokens[found++] = (struct token){BEGIN, strlen(BEGIN)};
    tokens[found++] = (struct token){END, strlen(END)};
    qsort(tokens, found, sizeof(*tokens), tokens_compare);
    for (size_t i = 0; i < found; i++) {
        bytes += i > 0 && tokens_compare(&tokens[i - 1], &tokens[i]) == 0 ? 0 : tokens[i].len + 1;
        d.n += i == 0 || tokens_compare(&tokens[i - 1], &tokens[i]) != 0;
    }
    if (d.n > WV_WORDS_MAX) {
        return co_err_set(err, CO_NORESOURCE, "%zu different words, at most %d", d.n, WV_WORDS_MAX);
    }
    d.words = co_xcalloc(d.n + 1, sizeof(*d.words));
    d.memory = co_xmalloc(bytes);
    d.n = 0;
    /* <s> and <e> occur once in each line; minus the tokens that were added. */
    words_gather(&d, tokens, found, lines - 1, least);
    qsort(d.words, d.n, sizeof(*d.words), words_compare);
    d.words[d.n++] = (struct wv_word){UNKNOWN, 0};
    rc = dict_index(&d, err);
    if (rc < 0) {
        return rc;
    }
    *ret_dict = d;
    memset(&d, 0, sizeof(d));
    return 0;
}

void wv_dict_done(struct wv_dict *d) {
    free(d->words);
    free(d->by_text);
    free(d->memory);
    memset(d, 0, sizeof(*d));
}

uint32_t wv_dict_find(const struct wv_dict *d, const char *word, size_t len) {
    size_t low = 0, high = d->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *text = d->words[d->by_text[middle]].text;
        int c = strncmp(text, word, len);

        if (c == 0 && text[len] == '\0') {
            return d->by_text[middle];
        }
        if (c < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint32_t)d->n - 1;
}

int wv_dict_write(const struct wv_dict *d, const char *path, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(WV_TEXT_MAX);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->n; i++) {
        rc = co_buf_addf(&text, err, "%s %" PRIu64 "\n", d->words[i].text, d->words[i].count);
    }
    return rc == 0 ? co_file_write(path, text.data, text.len, 0644, err) : rc;
}

static int line_read(struct wv_dict *d, char *line, const char *path, struct co_err *err) {
    char *blank = strrchr(line, ' ');
    int64_t count = 0;

    if (!blank || blank == line || co_parse_i64("", blank + 1, 0, INT64_MAX, &count, NULL) < 0) {
        return co_err_set(
            err, CO_INVALID, "%s:%zu: expected a word, a blank and its count", path, d->n + 1);
    }
    *blank = '\0';
    d->words[d->n++] = (struct wv_word){line, (uint64_t)count};
    return 0;
}

int wv_dict_read(const char *path, struct wv_dict *ret_dict, struct co_err *err) {
    CO_CLEANUP(wv_dict_done) struct wv_dict d = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(WV_TEXT_MAX);
    size_t lines = 1;
    char *rest = NULL;
    int rc = co_file_read(path, WV_TEXT_MAX, &text, err);

    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < text.len; i++) {
        lines += text.data[i] == '\n';
    }
    if (lines > WV_WORDS_MAX) {
        return co_err_set(
            err, CO_NORESOURCE, "%s: %zu words, at most %d", path, lines, WV_WORDS_MAX);
    }
    d.words = co_xcalloc(lines + 1, sizeof(*d.words));
    d.memory = co_buf_take(&text);
    for (char *line = strtok_r(d.memory, "\n", &rest); rc == 0 && line;
         line = strtok_r(NULL, "\n", &rest)) {
        rc = line_read(&d, line, path, err);
    }
    if (rc == 0 && (d.n < 2 || strcmp(d.words[d.n - 1].text, UNKNOWN) != 0)) {
        rc = co_err_set(err, CO_INVALID, "%s: expected words, and %s as the last", path, UNKNOWN);
    }
    if (rc == 0) {
        rc = dict_index(&d, err);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_dict = d;
    memset(&d, 0, sizeof(d));
    return 0;
}
