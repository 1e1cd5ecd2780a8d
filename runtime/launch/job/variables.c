/* The environment of a child: a table with one row per variable, in the order in which Paddle sets
 * them, and above it where their values come from.  truth_testing.h has what Paddle's launchers
 * were seen to set.  Part of node_plan.h. */
#include <string.h>

#include "common/contract.h"
#include "common/parse.h"
#include "runtime/launch/job/node_plan.h"

/* execve accepts at most 128 KiB per text.  Paddle omits a list of endpoints from this length on.
 */
enum { ENDPOINTS_TEXT_MAX = 120 << 10 };

/* Which processes get the variable. */
enum {
    COLLECTIVE = 1,
    SERVER = 2,
    TRAINER = 4,
    HETER = 8,
    RPC = 16,
    PS = SERVER | TRAINER | HETER,
    EVERY = COLLECTIVE | PS | RPC,
    LAUNCHER = 32, /* about this launcher: also a process whose environment was given gets it */
};
/* Which launcher sets it: that of 2.3 to 3.x, or that of 2.0 to 2.2. */
enum { NEW = 1, OLD = 2, BOTH = NEW | OLD };

struct variable_context {
    const struct job *j;
    const struct job_plan *plan;
    const struct job_process *p;
    const char *scratch;
};

static char *number(size_t n) {
    return co_xasprintf("%zu", n);
}

static char *copy(const char *text) {
    return text ? co_xstrdup(text) : NULL;
}

static char *endpoints(const struct variable_context *a, enum job_role role) {
    return options_list_join(&a->plan->endpoints[role], ",");
}

static const char *own_endpoint(const struct variable_context *a) {
    return a->plan->endpoints[a->p->role].item[a->p->index];
}

static char *own_hostport(const struct variable_context *a, bool port) {
    struct co_hostport hp = {.port = 0};
    (void)!co_parse_hostport(
        "endpoint", own_endpoint(a), &hp, NULL); /* checked when it was added */
    return port ? number(hp.port) : co_xstrdup(hp.host);
}

/* A node's only process gets all devices; else each process gets one. */
static char *own_devices(const struct variable_context *a) {
    const struct options_list *d = &a->j->devices;
    return d->n == 0                        ? NULL
           : a->j->n[JOB_ROLE_TRAINER] == 1 ? options_list_join(d, ",")
                                            : co_xstrdup(d->item[a->p->local]);
}

/* The devices of all trainers, joined by ":" for one trainer.  It assumes that all nodes have the
 * same devices as this one, as Paddle does. */
static char *world_devices(const struct variable_context *a) {
    const struct options_list *d = &a->j->devices;
    CO_CLEANUP(options_list_done) struct options_list all = {0};
    for (size_t i = 0; i < a->plan->endpoints[JOB_ROLE_TRAINER].n; i++) {
        const size_t n = a->j->n[JOB_ROLE_TRAINER];
        options_list_add_own(&all, d->n == 0 ? co_xstrdup("")
                                   : n == 1  ? options_list_join(d, ":")
                                             : co_xstrdup(d->item[i % n]));
    }
    return options_list_join(&all, ",");
}

static char *backend(const struct variable_context *a) {
    const struct job *j = a->j;
    const char *asked = j->options->text[OPTIONS_OPT_BACKEND];
    return strcmp(asked, "auto") != 0             ? co_xstrdup(asked)
           : j->node->device == JOB_DEVICE_CUSTOM ? co_xstrdup("xccl")
           : j->devices.n == 0                    ? co_xstrdup("gloo")
                                                  : NULL;
}

static char *log_dir(const struct variable_context *a) {
    const struct job *j = a->j;
    const char *dir = j->options->text[OPTIONS_OPT_LOG_DIR];
    return !*dir ? NULL : *dir == '/' ? co_xstrdup(dir) : co_xasprintf("%s/%s", j->node->dir, dir);
}

static char *trainers(const struct variable_context *a) {
    CO_AUTOFREE char *text = endpoints(a, JOB_ROLE_TRAINER);
    bool too_long = a->j->mode == JOB_MODE_COLLECTIVE && strlen(text) >= ENDPOINTS_TEXT_MAX;
    return too_long ? NULL : co_steal_ptr(text);
}

/* The device of a trainer in a job with servers: they are assigned in turn, as in fleetrun. */
static char *old_visible(const struct variable_context *a) {
    const struct options_list *d = &a->j->devices;
    return co_xstrdup(d->n ? d->item[a->p->local % d->n] : "0");
}

/* Endpoints of stage `id`, which is 1 for the trainers; "" for none. */
static char *stage_endpoints(const struct job_plan *plan, size_t id) {
    struct options_list part = {0};
    if (id >= JOB_STAGE_FIRST && id < plan->stages.n + JOB_STAGE_FIRST) {
        part =
            job_stages_part(&plan->stages, &plan->endpoints[JOB_ROLE_HETER], id - JOB_STAGE_FIRST);
    }
    return options_list_join(id == 1 ? &plan->endpoints[JOB_ROLE_TRAINER] : &part, ",");
}

/* A list as Python prints it. */
static char *stage_sizes(const struct job_plan *plan) {
    CO_CLEANUP(options_list_done) struct options_list sizes = {0};
    options_list_add_own(&sizes, number(plan->endpoints[JOB_ROLE_TRAINER].n));
    for (size_t i = 0; i < plan->stages.n; i++) {
        options_list_add_own(&sizes, number(plan->stages.size[i]));
    }
    CO_AUTOFREE char *joined = options_list_join(&sizes, ", ");
    return co_xasprintf("[%s]", joined);
}

static bool has_stages(const struct variable_context *a) {
    return a->plan->endpoints[JOB_ROLE_HETER].n > 0;
}

/* The trainers' is 1. */
static size_t own_stage(const struct variable_context *a) {
    return a->p->role == JOB_ROLE_HETER
               ? job_stages_of(&a->plan->stages, a->p->index) + JOB_STAGE_FIRST
               : 1;
}

static char *stage_device(const struct variable_context *a) {
    size_t stage = own_stage(a);
    return !has_stages(a)          ? NULL
           : stage == 1            ? co_xstrdup("cpu")
           : a->j->heter_devices.n ? co_xstrdup(a->j->heter_devices.item[stage - JOB_STAGE_FIRST])
                                   : NULL;
}

/* The launcher of 2.0 always has it. */
static char *heters(const struct variable_context *a) {
    return has_stages(a) || a->j->format == OPTIONS_FORMAT_2_0 ? endpoints(a, JOB_ROLE_HETER)
                                                               : NULL;
}

static char *local_devices(const struct variable_context *a) {
    char *own = own_devices(a);
    return own ? own : co_xstrdup("");
}

static const char *const roles[] = {
    [JOB_ROLE_SERVER] = "PSERVER",
    [JOB_ROLE_TRAINER] = "TRAINER",
    [JOB_ROLE_HETER] = "HETER_TRAINER",
};

#define VALUE(name, value)                                                                         \
    static char *name(const struct variable_context *a) {                                          \
        return value;                                                                              \
    }
VALUE(master, copy(a->plan->master))
VALUE(index_of_role, number(a->p->index))
VALUE(local_rank, number(a->p->local))
VALUE(local_size, number(a->j->n[JOB_ROLE_TRAINER]))
VALUE(n_trainers, number(a->plan->endpoints[JOB_ROLE_TRAINER].n))
VALUE(n_nodes, a->j->discovery == JOB_DISCOVERY_LISTS ? NULL : number(a->plan->n_nodes))
VALUE(servers, endpoints(a, JOB_ROLE_SERVER))
VALUE(endpoint, co_xstrdup(own_endpoint(a)))
VALUE(port, own_hostport(a, true))
VALUE(ip, own_hostport(a, false))
VALUE(role, co_xstrdup(roles[a->p->role]))
VALUE(with_gloo, copy(a->j->options->text[OPTIONS_OPT_WITH_GLOO]))
VALUE(gloo_path, copy(a->scratch))
VALUE(gloo_endpoint, copy(a->plan->gloo))
VALUE(xccl, a->j->node->device == JOB_DEVICE_CUSTOM ? copy(a->j->node->device_name) : NULL)
VALUE(auto_cluster, copy(a->j->options->text[OPTIONS_OPT_AUTO_CLUSTER_CONFIG]))
VALUE(auto_parallel, copy(a->j->options->text[OPTIONS_OPT_AUTO_PARALLEL_CONFIG]))
VALUE(auto_stage, a->j->options->text[OPTIONS_OPT_AUTO_PARALLEL_CONFIG]
                      ? co_xstrdup(a->p->tuner ? "tuner" : "run")
                      : NULL)
VALUE(pod, copy(a->j->node->pod))
VALUE(all_heters, has_stages(a) ? endpoints(a, JOB_ROLE_HETER) : NULL)
VALUE(next_stage, has_stages(a) ? stage_endpoints(a->plan, own_stage(a) + 1) : NULL)
VALUE(previous_stage, has_stages(a) ? stage_endpoints(a->plan, own_stage(a) - 1) : NULL)
VALUE(stage, has_stages(a) ? number(own_stage(a)) : NULL)
VALUE(n_stages, has_stages(a) ? number(a->plan->stages.n + 1) : NULL)
VALUE(sizes_of_stages, has_stages(a) ? stage_sizes(a->plan) : NULL)

static const struct {
    enum co_var var;
    const char *device; /* of CO_VAR_SELECTED_DEVICES; NULL: this node's kind */
    unsigned who, from;
    char *(*value)(const struct variable_context *a); /* the caller frees; NULL: it is not set */
    const char *fixed;                                /* its value, where value is NULL */
} rows[] = {
    {CO_VAR_MASTER, NULL, COLLECTIVE, NEW, .value = master},
    {CO_VAR_GLOBAL_SIZE, NULL, COLLECTIVE, NEW, .value = n_trainers},
    {CO_VAR_LOCAL_SIZE, NULL, COLLECTIVE, NEW, .value = local_size},
    {CO_VAR_GLOBAL_RANK, NULL, COLLECTIVE, NEW, .value = index_of_role},
    {CO_VAR_LOCAL_RANK, NULL, COLLECTIVE, NEW, .value = local_rank},
    {CO_VAR_NNODES, NULL, COLLECTIVE | PS, NEW, .value = n_nodes},
    {CO_VAR_MASTER_ENDPOINT, NULL, RPC, BOTH, .value = master},
    {CO_VAR_WORKER_ENDPOINT, NULL, RPC, BOTH, .value = endpoint},
    {CO_VAR_TRAINER_ID, NULL, COLLECTIVE | TRAINER | RPC, BOTH, .value = index_of_role},
    {CO_VAR_CURRENT_ENDPOINT, NULL, COLLECTIVE, BOTH, .value = endpoint},
    {CO_VAR_PSERVERS, NULL, PS, BOTH, .value = servers},
    {CO_VAR_TRAINERS_NUM, NULL, EVERY, BOTH, .value = n_trainers},
    {CO_VAR_TRAINER_ENDPOINTS, NULL, COLLECTIVE | PS, BOTH, .value = trainers},
    /* The name of Paddle up to 2.1, then the names of later ones. */
    {CO_VAR_HETER_TRAINERS, NULL, PS, BOTH, .value = heters},
    {CO_VAR_ALL_HETER_TRAINERS, NULL, PS, BOTH, .value = all_heters},
    {CO_VAR_NEXT_HETER_TRAINERS, NULL, TRAINER | HETER, BOTH, .value = next_stage},
    {CO_VAR_PREVIOUS_HETER_TRAINERS, NULL, TRAINER | HETER, BOTH, .value = previous_stage},
    {CO_VAR_STAGE_TRAINERS_NUM, NULL, TRAINER | HETER, BOTH, .value = sizes_of_stages},
    {CO_VAR_STAGE_ID, NULL, TRAINER | HETER, BOTH, .value = stage},
    {CO_VAR_STAGE_NUM, NULL, TRAINER | HETER, BOTH, .value = n_stages},
    /* Of federated training, which this launcher does not support. */
    {CO_VAR_COORDINATORS, NULL, SERVER | TRAINER, OLD, .fixed = ""},
    {CO_VAR_PORT, NULL, PS, BOTH, .value = port},
    {CO_VAR_POD_IP, NULL, PS, BOTH, .value = ip},
    {CO_VAR_ROLE, NULL, PS, NEW, .value = role},
    {CO_VAR_TRAINING_ROLE, NULL, PS, BOTH, .value = role},
    {CO_VAR_RANK_IN_NODE, NULL, COLLECTIVE, BOTH, .value = local_rank},
    {CO_VAR_LOCAL_DEVICE_IDS, NULL, COLLECTIVE, OLD, .value = local_devices},
    {CO_VAR_WORLD_DEVICE_IDS, NULL, COLLECTIVE, OLD, .value = world_devices},
    {CO_VAR_SELECTED_DEVICES, NULL, COLLECTIVE, BOTH, .value = own_devices},
    {CO_VAR_SELECTED_DEVICES, "accelerators", COLLECTIVE, OLD, .value = own_devices},
    {CO_VAR_SELECTED_GPUS, NULL, TRAINER | HETER, OLD, .fixed = "0"},
    {CO_VAR_SELECTED_DEVICES, "xpus", TRAINER | HETER, OLD, .fixed = "0"},
    {CO_VAR_CUDA_VISIBLE_DEVICES, NULL, TRAINER | HETER, OLD, .value = old_visible},
    {CO_VAR_XPU_VISIBLE_DEVICES, NULL, TRAINER | HETER, OLD, .value = old_visible},
    {CO_VAR_DISTRI_BACKEND, NULL, COLLECTIVE, BOTH, .value = backend},
    {CO_VAR_XCCL_BACKEND, NULL, COLLECTIVE, BOTH, .value = xccl},
    {CO_VAR_AUTO_CLUSTER, NULL, COLLECTIVE, NEW, .value = auto_cluster},
    {CO_VAR_OPT_AUTO_PARALLEL_CONFIG, NULL, COLLECTIVE, NEW, .value = auto_parallel},
    {CO_VAR_AUTO_PARALLEL_STAGE, NULL, COLLECTIVE, NEW, .value = auto_stage},
    {CO_VAR_WITH_GLOO, NULL, PS, BOTH, .value = with_gloo},
    {CO_VAR_WITH_GLOO, NULL, COLLECTIVE, OLD, .value = with_gloo},
    {CO_VAR_GLOO_RENDEZVOUS, NULL, PS, BOTH, .fixed = "3"},
    {CO_VAR_GLOO_RENDEZVOUS, NULL, COLLECTIVE, OLD, .fixed = "3"},
    {CO_VAR_GLOO_FS_PATH, NULL, PS, BOTH, .value = gloo_path},
    {CO_VAR_GLOO_FS_PATH, NULL, COLLECTIVE, OLD, .value = gloo_path},
    {CO_VAR_GLOO_HTTP_ENDPOINT, NULL, PS, BOTH, .value = gloo_endpoint},
    {CO_VAR_HETER_DEVICE_TYPE, NULL, TRAINER | HETER, BOTH, .value = stage_device},
    {CO_VAR_POD_NAME, NULL, EVERY | LAUNCHER, NEW, .value = pod},
    {CO_VAR_LOG_DIR, NULL, EVERY | LAUNCHER, NEW, .value = log_dir},
};

static const char *device_kind(const struct job *j) {
    static const char *const kinds[] = {"cpu", "gpu", "xpu", NULL};
    const char *alias =
        j->options->alias[OPTIONS_OPT_DEVICES]; /* "--xpus", when the machine does not show it */
    return j->node->device == JOB_DEVICE_CUSTOM ? j->node->device_name
           : j->node->device != JOB_DEVICE_CPU  ? kinds[j->node->device]
           : alias && strstr(alias, "xpus")     ? "xpu"
           : alias && strstr(alias, "npus")     ? "npu"
                                                : "gpu";
}

/* The caller frees. */
static char *name_of(const struct job *j, enum co_var var, const char *device) {
    const char *name = co_contract[var].name;
    return var != CO_VAR_SELECTED_DEVICES ? co_xstrdup(name)
           : device                       ? co_xasprintf("%s%s", name, device)
                                          : co_xasprintf("%s%ss", name, device_kind(j));
}

static unsigned who(const struct job *j, enum job_role role) {
    static const unsigned of_ps[] = {
        [JOB_ROLE_SERVER] = SERVER, [JOB_ROLE_TRAINER] = TRAINER, [JOB_ROLE_HETER] = HETER};
    return j->mode == JOB_MODE_PS ? of_ps[role] : j->mode == JOB_MODE_RPC ? RPC : COLLECTIVE;
}

void job_plan_variables(
    const struct job *j, const struct job_plan *plan, const char *scratch, struct job_process *p) {
    const struct variable_context a = {.j = j, .plan = plan, .p = p, .scratch = scratch};
    const unsigned from = j->format == OPTIONS_FORMAT_2_0 ? OLD : NEW;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        bool given = j->discovery == JOB_DISCOVERY_GIVEN && !(rows[i].who & LAUNCHER);
        if (given || !(rows[i].who & who(j, p->role)) || !(rows[i].from & from)) {
            continue;
        }
        CO_AUTOFREE char *name = name_of(j, rows[i].var, rows[i].device);
        CO_AUTOFREE char *value = rows[i].value ? rows[i].value(&a) : co_xstrdup(rows[i].fixed);
        if (value) {
            job_env_set(&p->set, name, value);
        }
    }
}
