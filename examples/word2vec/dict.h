/* A dictionary of words and their ids, numbered like Paddle's imikolov data set.  It has the words
 * that occur more than `least` times, including the marks <s> and <e> for the begin and the end of
 * each line.  The most frequent word comes first; words with equal counts are sorted by their
 * bytes. <unk> comes last and stands for all other words.  Immutable once made. */
#pragma once

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/mem.h"

enum { WV_TEXT_MAX = 1 << 30, WV_WORDS_MAX = 1 << 24 }; /* bytes of a dictionary; words */

struct wv_word {
    const char *text; /* in the dictionary's own memory */
    uint64_t count;
};

struct wv_dict {
    struct wv_word *words; /* [n], by id */
    size_t n;
    uint32_t *slots; /* [mask + 1]: 1 + id at a word's hash or behind it, 0: free */
    size_t mask;
    char *memory;
};

/* Counts words, to make a dictionary of them. */
struct wv_counter;
struct wv_counter *wv_counter_new(void);
void wv_counter_free(struct wv_counter *c); /* NULL is fine */
CO_DEFINE_CLEANUP(struct wv_counter *, wv_counter_free)
/* CO_NORESOURCE: too many different words. */
CO_MUST_CHECK int wv_counter_add(
    struct wv_counter *c, const char *word, size_t len, uint64_t times, struct co_err *err);
/* The dictionary of what was counted; c is empty then.  CO_INVALID: no word but the marks occurs so
 * often; names the most frequent. */
CO_MUST_CHECK int wv_dict_make(
    struct wv_counter *c, uint64_t least, struct wv_dict *ret_dict, struct co_err *err);
void wv_dict_done(struct wv_dict *d);
/* The id of a word of len bytes; that of <unk> for an unknown word. */
uint32_t wv_dict_find(const struct wv_dict *d, const char *word, size_t len);

/* Writes a file of lines "word count", in the order of ids. */
CO_MUST_CHECK int wv_dict_write(const struct wv_dict *d, const char *path, struct co_err *err);
CO_MUST_CHECK int wv_dict_read(const char *path, struct wv_dict *ret_dict, struct co_err *err);
