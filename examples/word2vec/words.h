/* The words of a text and the ends of its lines, one after the other, in memory that does not
 * depend on how long text, lines and words are.  One thread. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

/* Longer words are cut; they are nobody's. */
enum { WV_WORD_MAX = 1023 };

enum wv_token { WV_TEXT_END, WV_LINE_END, WV_WORD };

struct wv_words;

/* Reads the file at path, text or gzip, or len bytes of memory, which the caller keeps.  The caller
 * owns *ret_words.  Errors are co_source_open's. */
CO_MUST_CHECK int wv_words_open(const char *path, struct wv_words **ret_words, struct co_err *err);
struct wv_words *wv_words_of(const char *text, size_t len);
void wv_words_close(struct wv_words *w); /* NULL is fine */
CO_DEFINE_CLEANUP(struct wv_words *, wv_words_close)

/* The next word, ended by a NUL and borrowed until the next call, or the end of a line; a last line
 * without a newline ends, too.  *ret_len is above WV_WORD_MAX where the word was cut.  CO_INVALID:
 * a NUL, which no text has. */
CO_MUST_CHECK int wv_words_next(struct wv_words *w, enum wv_token *ret_token, const char **ret_word,
    size_t *ret_len, struct co_err *err);
