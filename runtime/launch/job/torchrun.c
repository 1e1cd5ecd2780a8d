/* The variables of torchrun: a table.  See torchrun.h. */
#include "runtime/launch/job/torchrun.h"

#include <string.h>

#include "common/contract.h"
#include "common/parse.h"

struct torchrun_context {
    const struct job_env *env; /* as the launcher inherited it */
    const struct job *j;
    const struct job_plan *plan;
    const struct job_process *p;
};

static const char *get(const struct job_env *env, enum co_var var) {
    return job_env_get(env, co_contract[var].name);
}

/* ---- the job around this launcher: a pod's, by the operator, or an outer launcher's ---------- */

static bool same(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

/* Both give a process its rank twice. */
static bool is_inside(const struct job_env *env) {
    return same(get(env, CO_VAR_TORCH_RANK), get(env, CO_VAR_TRAINER_ID));
}

static const char *either(const struct job_env *env, enum co_var var, const char *otherwise) {
    const char *value = get(env, var);
    return value ? value : otherwise;
}

/* Whether that job, and no user, has set the variable: it has the value by Paddle's name, too, or
 * the one that the operator gives to all pods. */
static bool is_around(const struct job_env *env, enum co_var var) {
    const char *value = get(env, var), *n = get(env, CO_VAR_TRAINERS_NUM);
    const bool inside = get(env, CO_VAR_TRAINER_ID) != NULL;
    switch (var) {
    case CO_VAR_TORCH_RANK:
        return is_inside(env);
    case CO_VAR_TORCH_WORLD_SIZE:
        return same(value, n);
    case CO_VAR_TORCH_GROUP_WORLD_SIZE:
        return same(value, either(env, CO_VAR_NNODES, n));
    case CO_VAR_TORCH_LOCAL_RANK:
        return inside && same(value, either(env, CO_VAR_LOCAL_RANK, "0"));
    case CO_VAR_TORCH_LOCAL_WORLD_SIZE:
        return inside && same(value, either(env, CO_VAR_LOCAL_SIZE, "1"));
    default: /* these have no second name */
        return is_inside(env);
    }
}

static size_t restarts_around(const struct job_env *env) {
    const char *text = get(env, CO_VAR_TORCH_RESTART_COUNT);
    int64_t n = 0;
    return text && is_inside(env) && co_parse_i64("", text, 0, INT32_MAX, &n, NULL) == 0 ? (size_t)n
                                                                                         : 0;
}

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
/* Without --job_id the job keeps the name that the job around it has. */
VALUE(job_id, co_xstrdup(options_option_given(a->j->options, OPTIONS_OPT_JOB_ID) ||
                                 !is_inside(a->env) || !get(a->env, CO_VAR_TORCH_RUN_ID)
                             ? a->j->id
                             : get(a->env, CO_VAR_TORCH_RUN_ID)))
VALUE(restarts, number(a->plan->restarts + restarts_around(a->env)))
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

/* Where the job around meets: in a pod at a port of the first worker, else at a launcher's
 * PADDLE_MASTER. */
static bool is_meeting_around(const struct job_env *env) {
    const char *host = get(env, CO_VAR_MASTER_ADDR), *port = get(env, CO_VAR_MASTER_PORT);
    const char *master = get(env, CO_VAR_MASTER), *list = get(env, CO_VAR_TRAINER_ENDPOINTS);
    int64_t n = 0;
    if (!host || !port || co_parse_i64("", port, 1, UINT16_MAX, &n, NULL)) {
        return false;
    }
    char meets[CO_HOST_MAX + 10], first[CO_HOST_MAX + 10];
    co_hostport_format(host, (unsigned)n, meets, sizeof(meets));
    co_hostport_format(host, (unsigned)n - CO_PORT_MASTER, first, sizeof(first));
    const size_t len = list ? strcspn(list, ",") : 0;
    return same(master, meets) ||
           (n > CO_PORT_MASTER && list && len == strlen(first) && strncmp(list, first, len) == 0);
}

void job_torchrun_variables(const struct job *j, const struct job_plan *plan,
    const struct job_process *p, const struct job_env *env, struct job_env *ret) {
    if (j->mode != JOB_MODE_COLLECTIVE || !plan->master) {
        return;
    }
    const struct torchrun_context a = {.env = env, .j = j, .plan = plan, .p = p};
    const bool alone = j->n[JOB_ROLE_TRAINER] <= 1;
    const bool meeting =
        is_meeting_around(env) || !(get(env, CO_VAR_MASTER_ADDR) || get(env, CO_VAR_MASTER_PORT));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const bool free_to_set = !get(env, rows[i].var) || is_around(env, rows[i].var);
        const bool set[] = {
            [SAME] = free_to_set, [PER_PROCESS] = free_to_set || !alone, [MEETING] = meeting};
        if (set[rows[i].kind]) {
            CO_AUTOFREE char *value = rows[i].value(&a);
            job_env_set(ret, co_contract[rows[i].var].name, value);
        }
    }
}

/* Those by which the processes of a job find each other. */
static bool is_place(enum co_var var) {
    return var == CO_VAR_TORCH_RANK || var == CO_VAR_TORCH_WORLD_SIZE ||
           var == CO_VAR_TORCH_LOCAL_RANK || var == CO_VAR_TORCH_LOCAL_WORLD_SIZE;
}

void job_torchrun_differences(const struct job *j, const struct job_plan *plan,
    const struct job_process *p, const struct job_env *env, struct options_list *ret) {
    CO_CLEANUP(job_env_done) struct job_env set = {0};
    job_torchrun_variables(j, plan, p, env, &set);
    const struct torchrun_context a = {.env = env, .j = j, .plan = plan, .p = p};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) && set.n; i++) {
        const char *name = co_contract[rows[i].var].name, *value = get(env, rows[i].var);
        if (!is_place(rows[i].var) || !value || job_env_get(&set, name) ||
            co_contract_check(rows[i].var, value, NULL)) {
            continue; /* what has no right form was named before */
        }
        CO_AUTOFREE char *ours = rows[i].value(&a);
        if (strcmp(ours, value) != 0) {
            options_list_add_own(ret,
                co_xasprintf("%s is %s in the environment and stays, this job has %s: unset it, "
                             "or a program of torch.distributed waits for other ranks",
                    name, value, ours));
        }
    }
}

void job_torchrun_check(struct job *j, options_plan_getenv_fn env, void *arg) {
    const bool alone = j->n[JOB_ROLE_TRAINER] <= 1;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) && j->mode == JOB_MODE_COLLECTIVE; i++) {
        const char *value = env(arg, co_contract[rows[i].var].name);
        struct co_err err = {0};
        if (value && (alone || rows[i].kind != PER_PROCESS) &&
            co_contract_check(rows[i].var, value, &err)) {
            options_list_add_own(&j->notes,
                co_xasprintf("WARNING %s; it stays, and a program of torch.distributed fails with "
                             "it: unset it, and each process gets its own",
                    co_err_text(&err)));
        }
    }
}
