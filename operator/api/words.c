/* The tables of words, with what unknown words are treated as. */
#include "operator/api/words.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "operator/api/job.h"

/* The last row of a table has no text: any other word is treated as taken_for. */
struct word {
    const char *text;
    int value;
    const char *taken_for;
};

static const struct word clean_words[] = {
    {"", API_CLEAN_DEFAULT},
    {"Always", API_CLEAN_ALWAYS},
    {"Never", API_CLEAN_NEVER},
    {"OnFailure", API_CLEAN_ON_FAILURE},
    {"OnCompletion", API_CLEAN_ON_COMPLETION},
    {"Running", API_CLEAN_RUNNING},
    {NULL, API_CLEAN_OTHER, "Never"},
};
static const struct word intranet_words[] = {
    {"", API_POD_IP},
    {"PodIP", API_POD_IP},
    {"Service", API_SERVICE},
    {"DNS", API_DNS},
    {"Host", API_HOST},
    {NULL, API_POD_IP, "PodIP"},
};
static const struct word success_words[] = {
    {"", API_SUCCESS_WORKERS},
    {"AllWorkers", API_SUCCESS_WORKERS},
    {"AllPods", API_SUCCESS_ALL},
    {"Worker0", API_SUCCESS_WORKER_0},
    {NULL, API_SUCCESS_WORKERS, "AllWorkers"},
};

static const struct {
    const char *path;
    const struct word *words;
} fields[API_WORD_FIELDS] = {
    [API_WORD_CLEAN] = {"spec.cleanPodPolicy", clean_words},
    [API_WORD_INTRANET] = {"spec.intranet", intranet_words},
    [API_WORD_SUCCESS] = {"spec.successPolicy", success_words},
};

static const char *text_of(enum api_word_field field, const json_t *spec) {
    const char *text = co_json_str(spec, fields[field].path + strlen("spec."));
    return text ? text : "";
}

static const struct word *find_word(enum api_word_field field, const char *text) {
    const struct word *w = fields[field].words;
    while (w->text && strcmp(w->text, text) != 0) {
        w++;
    }
    return w;
}

int api_word_value(enum api_word_field field, const json_t *spec) {
    return find_word(field, text_of(field, spec))->value;
}

const char *api_word_path(enum api_word_field field) {
    return fields[field].path;
}

bool api_word_is_odd(enum api_word_field field, const json_t *spec, char *ret, size_t size) {
    const char *path = fields[field].path, *text = text_of(field, spec);
    const struct word *taken = find_word(field, text);
    if (taken->text) {
        return false;
    }
    size_t n =
        (size_t)snprintf(ret, size, "%s is \"%.*s\", expected", path, co_utf8_fit(text, 40), text);
    const struct word *first = fields[field].words + 1; /* behind "" */
    for (const struct word *w = first; w->text && n < size; w++) {
        const char *joint = w == first ? "" : w[1].text ? "," : " or";
        n += (size_t)snprintf(ret + n, size - n, "%s %s", joint, w->text);
    }
    if (n < size) {
        (void)snprintf(ret + n, size - n, "; %s is used", taken->taken_for);
    }
    return true;
}
