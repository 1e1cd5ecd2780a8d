/* The variables of torchrun: a table.  See torchrun.h. */
#include "runtime/launch/job/torchrun.h"

#include <string.h>

#include "common/contract.h"
#include "common/parse.h"

struct torchrun_context {
    const struct job *j;
    const struct job_plan *plan;
    const struct job_process *p;
};

static char *number(size_t n) {
    return co_xasprintf("%zu", n);
}

static char *master_part(const struct torchrun_context *a, bool port) {
    struct co_hostport hp = {.port = 0};
    (void)!co_parse_hostport("master", a->plan->master, &hp, NULL); /* an endpoint of the plan */
    return port ? number(hp.port) : co_xstrdup(hp.host);
}

#define VALUE(name, value)                                                                         \
    static char *name(const struct torchrun_context *a) {                                          \
        return value;                                                                              \
    }
VALUE(rank, number(a->p->index))
VALUE(local_rank, number(a->p->local))
VALUE(world_size, number(a->plan->endpoints[JOB_ROLE_TRAINER].n))
VALUE(local_size, number(a->j->n[JOB_ROLE_TRAINER]))
VALUE(node, number(a->plan->node))
VALUE(n_nodes, number(a->plan->n_nodes))
VALUE(job_id, co_xstrdup(a->j->id))
VALUE(restarts, number(a->plan->restarts))
VALUE(
    most_restarts, co_xasprintf("%lld", (long long)a->j->options->number[OPTIONS_OPT_MAX_RESTART]))
VALUE(master_host, master_part(a, false))
VALUE(master_port, master_part(a, true))

enum kind { SAME, PER_PROCESS, MEETING };

static const struct {
    enum co_var var;
    enum kind kind;
    char *(*value)(const struct torchrun_context *a); /* the caller frees */
} rows[] = {
    {CO_VAR_TORCH_RANK, PER_PROCESS, rank},
    {CO_VAR_TORCH_LOCAL_RANK, PER_PROCESS, local_rank},
    {CO_VAR_TORCH_WORLD_SIZE, SAME, world_size},
    {CO_VAR_TORCH_LOCAL_WORLD_SIZE, SAME, local_size},
    {CO_VAR_TORCH_GROUP_RANK, SAME, node},
    {CO_VAR_TORCH_GROUP_WORLD_SIZE, SAME, n_nodes},
    {CO_VAR_TORCH_RUN_ID, SAME, job_id},
    {CO_VAR_TORCH_RESTART_COUNT, SAME, restarts},
    {CO_VAR_TORCH_MAX_RESTARTS, SAME, most_restarts},
    {CO_VAR_MASTER_ADDR, MEETING, master_host},
    {CO_VAR_MASTER_PORT, MEETING, master_port},
};

static const char *get(const struct job_env *env, enum co_var var) {
    return job_env_get(env, co_contract[var].name);
}

/* The operator and this launcher set both alike. */
static bool ranks_of_a_job(const struct job_env *env) {
    const char *rank_now = get(env, CO_VAR_TORCH_RANK), *id = get(env, CO_VAR_TRAINER_ID);
    return rank_now && id && strcmp(rank_now, id) == 0;
}

/* Where a job around this one meets: at its first endpoint, or at a launcher's PADDLE_MASTER. */
static bool meeting_of_a_job(const struct job_env *env) {
    const char *host = get(env, CO_VAR_MASTER_ADDR), *port = get(env, CO_VAR_MASTER_PORT);
    const char *master = get(env, CO_VAR_MASTER), *list = get(env, CO_VAR_TRAINER_ENDPOINTS);
    if (!host || !port) {
        return false;
    }
    CO_AUTOFREE char *meets = co_xasprintf(strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    const size_t len = list ? strcspn(list, ",") : 0;
    return (master && strcmp(master, meets) == 0) ||
           (list && len == strlen(meets) && strncmp(list, meets, len) == 0);
}

void job_torchrun_variables(const struct job *j, const struct job_plan *plan,
    const struct job_process *p, struct job_env *env) {
    if (j->mode != JOB_MODE_COLLECTIVE || !plan->master) {
        return;
    }
    const struct torchrun_context a = {.j = j, .plan = plan, .p = p};
    const bool alone = j->n[JOB_ROLE_TRAINER] <= 1, ranks = ranks_of_a_job(env);
    const bool meeting =
        meeting_of_a_job(env) || !(get(env, CO_VAR_MASTER_ADDR) || get(env, CO_VAR_MASTER_PORT));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const bool free_to_set = ranks || !get(env, rows[i].var);
        const bool set[] = {
            [SAME] = free_to_set, [PER_PROCESS] = free_to_set || !alone, [MEETING] = meeting};
        if (set[rows[i].kind]) {
            CO_AUTOFREE char *value = rows[i].value(&a);
            job_env_set(env, co_contract[rows[i].var].name, value);
        }
    }
}
