/* What a launcher tells of a job, event by event, in the format asked for.  Wording and files
 * only; decides nothing. */
#pragma once

#include "runtime/launch/node/say.h"
#include "runtime/launch/job/plan.h"

/* The configuration block and what was noticed on the way to it. */
void rl_story_begin(const struct rl_say *s, const struct rl_job *j);
/* The job's line, once before nodes meet and once they have. */
void rl_story_job(const struct rl_say *s, const struct rl_job *j, size_t n_nodes);
/* Before the processes of a round start, and when they have: tables of their environments. */
void rl_story_run(const struct rl_say *s, const struct rl_job *j, const struct rl_plan *p);
void rl_story_running(const struct rl_say *s, const struct rl_job *j, const struct rl_plan *p);
void rl_story_failed(const struct rl_say *s, const struct rl_job *j, const struct rl_plan *p,
    size_t i, int status, const char *log);
/* The last lines of the failed one's log. */
void rl_story_detail(const struct rl_say *s, const char *text, size_t len);
void rl_story_workers_done(const struct rl_say *s, const struct rl_job *j, size_t n_servers);
void rl_story_end(const struct rl_say *s, const struct rl_job *j, int code);

/* Files beside the children's logs: variables that this launcher set (never the rest of its
 * environment, which has secrets), the job's endpoints, what the nodes told.  A file that cannot
 * be written is a warning. */
void rl_story_files(const struct rl_say *s, const struct rl_job *j, const struct rl_plan *p,
    const char *const *values, size_t n);
