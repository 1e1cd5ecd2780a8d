/* Cuts a text into words. */
#include "examples/word2vec/words.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/source.h"

enum { BUFFER_SIZE = 64 << 10 };

struct wv_words {
    char *path;
    struct co_source *source; /* NULL: the text is in memory, all of it unread */
    char *buffer;             /* of the source */
    const char *at, *end;     /* what is unread */
    uint64_t line;            /* of what is next, from 1 */
    bool begun;               /* something of this line was read */
    bool marked;              /* the first bytes, a byte-order mark perhaps, are behind us */
    size_t len;               /* of the word */
    char word[WV_WORD_MAX + 1];
};

int wv_words_open(const char *path, struct wv_words **ret_words, struct co_err *err) {
    CO_CLEANUP(wv_words_closep) struct wv_words *w = wv_words_of(NULL, 0);
    int rc = co_source_open(path, 0, true, &w->source, err);

    w->path = co_xstrdup(path);
    w->buffer = co_xmalloc(BUFFER_SIZE);
    if (rc == 0) {
        *ret_words = co_steal_ptr(w);
    }
    return rc;
}

struct wv_words *wv_words_of(const char *text, size_t len) {
    struct wv_words *w = co_xcalloc(1, sizeof(*w));

    w->at = text;
    w->end = len > 0 ? text + len : text;
    w->line = 1;
    return w;
}

void wv_words_close(struct wv_words *w) {
    if (w) {
        co_source_close(w->source);
        free(w->buffer);
        free(w->path);
        free(w);
    }
}

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Has a byte ready, unless the text ends. */
static int fill(struct wv_words *w, struct co_err *err) {
    size_t n = 0;

    if (w->at < w->end || !w->source) {
        return 0;
    }
    int rc = co_source_read(w->source, w->buffer, BUFFER_SIZE, &n, err);
    w->at = w->buffer;
    w->end = w->buffer + n;
    return rc;
}

/* Adds what the buffer has of the word that it begins with. */
static void word_add(struct wv_words *w) {
    const char *from = w->at;

    while (w->at < w->end && !is_blank(*w->at)) {
        w->at++;
    }
    size_t n = (size_t)(w->at - from), room = w->len < WV_WORD_MAX ? WV_WORD_MAX - w->len : 0;
    memcpy(w->word + (WV_WORD_MAX - room), from, n < room ? n : room);
    w->len += n;
}

static int word_read(struct wv_words *w, struct co_err *err) {
    int rc = 0;

    for (w->len = 0; rc == 0 && w->at < w->end && !is_blank(*w->at);) {
        word_add(w);
        rc = fill(w, err);
    }
    size_t kept = w->len < WV_WORD_MAX ? w->len : WV_WORD_MAX;
    w->word[kept] = '\0';
    if (rc == 0 && memchr(w->word, '\0', kept)) {
        rc = co_err_set(err, CO_INVALID, "%s:%" PRIu64 ": a NUL, expected text in UTF-8",
            w->path ? w->path : "text", w->line);
    }
    return rc;
}

/* Some editors put a byte-order mark first: it is no part of the first word. */
static void mark_drop(struct wv_words *w) {
    static const char mark[] = "\xef\xbb\xbf";
    const size_t n = sizeof(mark) - 1;

    if (!w->marked && w->len >= n && memcmp(w->word, mark, n) == 0) {
        memmove(w->word, w->word + n, sizeof(w->word) - n);
        w->len -= n;
    }
    w->marked = true;
}

int wv_words_next(struct wv_words *w, enum wv_token *ret_token, const char **ret_word,
    size_t *ret_len, struct co_err *err) {
    int rc;

    while ((rc = fill(w, err)) == 0 && w->at < w->end) {
        w->begun = true;
        if (*w->at == '\n') {
            break;
        }
        if (is_blank(*w->at)) {
            w->at++;
            w->marked = true;
            continue;
        }
        rc = word_read(w, err);
        mark_drop(w);
        if (rc < 0 || w->len > 0) {
            *ret_token = WV_WORD;
            *ret_word = w->word;
            *ret_len = w->len;
            return rc;
        }
    }
    *ret_token = rc == 0 && w->begun ? WV_LINE_END : WV_TEXT_END;
    w->begun = false;
    w->line++;
    w->at += w->at < w->end;
    return rc;
}
