/* The stages of a heterogeneous pipeline.  The trainers are its first stage; the heterogeneous
 * workers are the stages behind it.  The list of all such workers is ordered by stage.  Options
 * separate stages by ";": "2;1" is two workers in stage 2 and one in stage 3.
 * Pure. */
#pragma once

#include "common/err.h"
#include "runtime/launch/options/list.h"

enum { JOB_STAGES_MAX = 64, JOB_STAGE_WORKERS_MAX = 1024, JOB_STAGE_FIRST = 2 };

struct job_stages {
    size_t n;                    /* 0: no heterogeneous workers */
    size_t size[JOB_STAGES_MAX]; /* workers of stage JOB_STAGE_FIRST + i */
};

/* what: the option's name, for messages.  CO_INVALID: the error names the stage. */
CO_MUST_CHECK int job_stages_parse(
    const char *what, const char *text, struct job_stages *ret, struct co_err *err);
/* "host:port,...;host:port,..."; all endpoints are added to ret_all. */
CO_MUST_CHECK int job_stages_parse_endpoints(const char *what, const char *text,
    struct job_stages *ret, struct options_list *ret_all, struct co_err *err);

size_t job_stages_workers(const struct job_stages *s);
bool job_stages_equal(const struct job_stages *a, const struct job_stages *b);
/* The stage of worker `index`, counted from 0.  index must be valid. */
size_t job_stages_of(const struct job_stages *s, size_t index);
/* The part of `all`, the list of all workers, that is in stage i, counted from 0.  It borrows from
 * all: options_list_done must not be called for it. */
struct options_list job_stages_part(
    const struct job_stages *s, const struct options_list *all, size_t i);
