/* What a launcher tells of a job, event by event, in the format asked for.  Wording and files
 * only; decides nothing. */
#pragma once

#include "runtime/launch/node/say.h"
#include "runtime/launch/job/plan.h"

/* The configuration block and what was noticed on the way to it. */
void rt_story_begin(const struct rt_say *s, const struct rt_job *j);
/* The job's line, once before nodes meet and once they have. */
void rt_story_job(const struct rt_say *s, const struct rt_job *j, size_t n_nodes);
/* Before the processes of a round start, and when they have: tables of their environments. */
void rt_story_run(const struct rt_say *s, const struct rt_job *j, const struct rt_plan *p);
void rt_story_running(const struct rt_say *s, const struct rt_job *j, const struct rt_plan *p);
void rt_story_failed(const struct rt_say *s, const struct rt_job *j, const struct rt_plan *p,
    size_t i, int status, const char *log);
/* The last lines of the failed one's log. */
void rt_story_detail(const struct rt_say *s, const char *text, size_t len);
void rt_story_workers_done(const struct rt_say *s, const struct rt_job *j, size_t n_servers);
void rt_story_end(const struct rt_say *s, const struct rt_job *j, bool completed, int code);

/* Files beside the children's logs: variables that this launcher set (never the rest of its
 * environment, which has secrets), the job's endpoints, what the nodes told.  A file that cannot
 * be written is a warning. */
void rt_story_files(const struct rt_say *s, const struct rt_job *j, const struct rt_plan *p,
    const char *const *values, size_t n);
