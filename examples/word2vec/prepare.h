/* Prepares text for training, like Paddle's word2vec example: writes the dictionary, and windows of
 * n words as lines of n ids, "16,5,15,9,6", to a number of files:
 *
 *     OUT/word_dict
 *     OUT/train_data_dir/train.txt-00000 ...
 *     OUT/test_data_dir/test.txt-00000 ... */
#pragma once

#include <stdint.h>

#include "common/err.h"

struct wv_prepare {
    const char *text; /* directory with ptb.train.txt and ptb.valid.txt; "": generated */
    const char *out;
    uint64_t least;           /* words that occur more often get their own ids */
    uint32_t n, split;        /* words of a window; files of each kind */
    uint64_t seed, sentences; /* of generated text; plus a tenth of it for the test */
};

enum { WV_WINDOW_MAX = 64, WV_TOPICS = 8, WV_TOPIC_WORDS = 25 };

/* A line of text becomes <s>, its words, <e>; a line shorter than a window gives no window.  Each
 * file is replaced atomically.
 *
 * Generated text has 8 topics of 25 words, like "t3w7".  A sentence has one topic: a word is
 * followed by the topic's next word in 5 of 10 cases, by any word of the topic in 3, otherwise by
 * any word. */
CO_MUST_CHECK int wv_prepare(const struct wv_prepare *p, struct co_err *err);
