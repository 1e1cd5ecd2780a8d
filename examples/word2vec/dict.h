/* A dictionary of words and their ids, numbered like Paddle's imikolov data set.  It has the words
 * that occur more than `least` times, including the marks <s> and <e> for the begin and the end of
 * each line.  The most frequent word comes first; words with equal counts are sorted by their
 * bytes. <unk> comes last and stands for all other words.  Immutable once made. */
#pragma once

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/mem.h"

enum { WV_TEXT_MAX = 1 << 30, WV_WORDS_MAX = 1 << 24 };

struct wv_word {
    const char *text; /* in the dictionary's own memory */
    uint64_t count;
};

struct wv_dict {
    struct wv_word *words; /* [n], by id */
    size_t n;
    uint32_t *by_text; /* [n]: ids, sorted by their words' bytes */
    char *memory;
};

/* Makes a dictionary of n texts: lines of words, separated by blanks. */
CO_MUST_CHECK int wv_dict_make(const struct co_buf *texts, size_t n, uint64_t least,
    struct wv_dict *ret_dict, struct co_err *err);
void wv_dict_done(struct wv_dict *d);
/* The id of a word of len bytes; that of <unk> for an unknown word. */
uint32_t wv_dict_find(const struct wv_dict *d, const char *word, size_t len);

/* Writes a file of lines "word count", in the order of ids. */
CO_MUST_CHECK int wv_dict_write(const struct wv_dict *d, const char *path, struct co_err *err);
CO_MUST_CHECK int wv_dict_read(const char *path, struct wv_dict *ret_dict, struct co_err *err);
