/* Trains as one worker of a job: reads its files, learns batch by batch and tests; worker 0 saves.
 */
#pragma once

#include "common/err.h"
#include "examples/word2vec/options.h"
#include "runtime/rt.h"

/* Blocks until this worker has finished.  o->data is a directory that wv_prepare has written, with
 * windows of n words; file number i belongs to worker i mod workers.  Prints on stdout:
 *     Pass 0, Batch 100, Cost 4.2, {'classification_error_evaluator': 0.8}, Testing metrics {...}
 *                                            ngram, every o->period batches
 *     TRAIN ---> pass: 0 loss: 2.41          skipgram; rt_progress
 *     TEST ---> loss: 2.5 error: 0.6         worker 0, at the end; error: ngram's
 *     NEAREST ---> word: word word word      worker 0, of the o->nearest most frequent words */
CO_MUST_CHECK int wv_train(
    const struct rt_job *job, const struct wv_options *o, size_t n, struct co_err *err);
