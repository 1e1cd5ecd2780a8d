/* The stages of a heterogeneous pipeline.  Its first stage is the trainers; the heterogeneous
 * workers are those behind it, each stage's side by side in the list of all.  Options separate
 * stages by ";": "2;1" is two workers in stage 2 and one in stage 3.
 * Pure. */
#pragma once

#include "common/err.h"
#include "runtime/launch/options/list.h"

enum { RT_STAGES_MAX = 64, RT_STAGE_WORKERS_MAX = 1024, RT_STAGE_FIRST = 2 };

struct rt_stages {
    size_t n;                   /* 0: no heterogeneous workers */
    size_t size[RT_STAGES_MAX]; /* workers of stage RT_STAGE_FIRST + i */
};

/* what: the option, for messages.  CO_INVALID names the stage. */
CO_MUST_CHECK int rt_stages_parse(
    const char *what, const char *text, struct rt_stages *ret, struct co_err *err);
/* "host:port,...;host:port,..."; all endpoints are added to ret_all. */
CO_MUST_CHECK int rt_stages_parse_endpoints(const char *what, const char *text,
    struct rt_stages *ret, struct rt_list *ret_all, struct co_err *err);

size_t rt_stages_workers(const struct rt_stages *s);
bool rt_stages_equal(const struct rt_stages *a, const struct rt_stages *b);
/* From 0, of worker `index`, which must be one. */
size_t rt_stages_of(const struct rt_stages *s, size_t index);
/* The part of all, the workers' list, that is stage i's, from 0: borrowed, not to be done. */
struct rt_list rt_stages_part(const struct rt_stages *s, const struct rt_list *all, size_t i);
