/* Asks a trained model, and finds out which of a training's passes is the best. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "examples/recommendation/trainer.h"

/* Prints how many stars a user would give each movie: words are USER MOVIE..., by their ids; none:
 * lines of "USER MOVIE" on stdin.  The model is o->load, or the newest pass of o->save_dir.
 *
 *     user 1, movie 10, GoldenEye (1995): Prediction Score is 3.42
 */
CO_MUST_CHECK int rc_predict(
    const struct rc_options *o, char *const *words, size_t n, struct co_err *err);

/* Prints the test's loss of o->load, or of each pass of o->save_dir and, as Paddle's evaluate.sh,
 * which is the best:
 *
 *     pass-00000: error is 1.399281
 *     Best pass is 00000, error is 1.399281, which means predict get error as 0.591456
 *
 * The last is in stars.  CO_NOTFOUND: no pass is there.  A pass that cannot be read is named and
 * left out; that is an error behind all others. */
CO_MUST_CHECK int rc_evaluate(const struct rc_options *o, struct co_err *err);
