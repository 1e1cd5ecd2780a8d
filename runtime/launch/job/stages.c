/* Parses and divides the stages of a heterogeneous pipeline.  See stages.h. */
#include "runtime/launch/job/stages.h"

#include <string.h>

#include "common/mem.h"
#include "common/parse.h"

/* Splits an option's value into one text per stage. */
static int split_stages(
    const char *what, const char *text, struct options_list *ret, struct co_err *err) {
    size_t n = 1;
    for (const char *p = text; *p; p++) {
        n += *p == ';';
    }
    if (n > JOB_STAGES_MAX) {
        return co_err_set(err, CO_INVALID, "%s has %zu stages, expected at most %d", what, n,
            (int)JOB_STAGES_MAX);
    }
    options_list_split_at(ret, text, ';');
    if (ret->n < n) {
        return co_err_set(
            err, CO_INVALID, "%s is \"%.200s\": a stage between \";\" is empty", what, text);
    }
    return 0;
}

int job_stages_parse(
    const char *what, const char *text, struct job_stages *ret, struct co_err *err) {
    CO_CLEANUP(options_list_done) struct options_list parts = {0};
    struct job_stages s = {0};
    CO_TRY(split_stages(what, text, &parts, err));
    for (; s.n < parts.n; s.n++) {
        int64_t size = 0;
        CO_TRY(co_parse_i64(what, parts.item[s.n], 0, JOB_STAGE_WORKERS_MAX, &size, err));
        s.size[s.n] = (size_t)size;
    }
    *ret = s;
    return 0;
}

int job_stages_parse_endpoints(const char *what, const char *text, struct job_stages *ret,
    struct options_list *ret_all, struct co_err *err) {
    CO_CLEANUP(options_list_done) struct options_list parts = {0};
    struct job_stages s = {0};
    CO_TRY(split_stages(what, text, &parts, err));
    for (; s.n < parts.n; s.n++) {
        const size_t before = ret_all->n;
        options_list_split(ret_all, parts.item[s.n]);
        s.size[s.n] = ret_all->n - before;
    }
    *ret = s;
    return 0;
}

size_t job_stages_workers(const struct job_stages *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        n += s->size[i];
    }
    return n;
}

bool job_stages_equal(const struct job_stages *a, const struct job_stages *b) {
    return a->n == b->n && memcmp(a->size, b->size, a->n * sizeof(a->size[0])) == 0;
}

size_t job_stages_of(const struct job_stages *s, size_t index) {
    size_t i = 0;
    for (size_t end = s->size[0]; index >= end; end += s->size[++i]) {
    }
    return i;
}

struct options_list job_stages_part(
    const struct job_stages *s, const struct options_list *all, size_t i) {
    size_t from = 0;
    for (size_t k = 0; k < i; k++) {
        from += s->size[k];
    }
    return (struct options_list){.item = s->size[i] ? all->item + from : NULL, .n = s->size[i]};
}
