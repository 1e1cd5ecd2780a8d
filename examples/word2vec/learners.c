/* The table of models, by name. */
#include <string.h>

#include "examples/word2vec/learner.h"

static const struct wv_kind *const kinds[] = {&wv_kind_ngram, &wv_kind_skipgram};

int wv_kind_find(const char *name, const struct wv_kind **ret_kind, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            *ret_kind = kinds[i];
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "--model is \"%s\", expected ngram or skipgram", name);
}
