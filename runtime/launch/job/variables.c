/* The environment of a child: a table with one row per variable, in the order in which Paddle sets
 * them.  truth_testing.h has what Paddle's launchers were seen to set.  Part of node_plan.h. */
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
};
/* Which launcher sets it: that of 2.3 to 3.x, or that of 2.0 to 2.2. */
enum { NEW = 1, OLD = 2, BOTH = NEW | OLD };

enum value {
    V_MASTER,
    V_INDEX,
    V_LOCAL,
    V_LOCAL_SIZE,
    V_N_TRAINERS,
    V_N_NODES,
    V_SERVERS,
    V_TRAINERS,
    V_HETERS,
    V_ALL_HETERS,
    V_NEXT_STAGE,
    V_PREVIOUS_STAGE,
    V_STAGE,
    V_N_STAGES,
    V_OF_STAGES,
    V_COORDINATORS,
    V_ENDPOINT,
    V_PORT,
    V_IP,
    V_ROLE,
    V_WITH_GLOO,
    V_GLOO_RENDEZVOUS,
    V_GLOO_PATH,
    V_GLOO_ENDPOINT,
    V_DEVICE,
    V_LOCAL_DEVICES,
    V_WORLD_DEVICES,
    V_ZERO,
    V_OLD_VISIBLE,
    V_BACKEND,
    V_XCCL,
    V_AUTO_CLUSTER,
    V_STAGE_DEVICE,
    V_POD,
    V_LOG_DIR,
};

static const struct {
    enum co_var var;
    const char *device; /* of CO_VAR_SELECTED_DEVICES; NULL: this node's kind */
    unsigned who, from;
    enum value value;
} rows[] = {
    {CO_VAR_MASTER, NULL, COLLECTIVE, NEW, V_MASTER},
    {CO_VAR_GLOBAL_SIZE, NULL, COLLECTIVE, NEW, V_N_TRAINERS},
    {CO_VAR_LOCAL_SIZE, NULL, COLLECTIVE, NEW, V_LOCAL_SIZE},
    {CO_VAR_GLOBAL_RANK, NULL, COLLECTIVE, NEW, V_INDEX},
    {CO_VAR_LOCAL_RANK, NULL, COLLECTIVE, NEW, V_LOCAL},
    {CO_VAR_NNODES, NULL, COLLECTIVE | PS, NEW, V_N_NODES},
    {CO_VAR_MASTER_ENDPOINT, NULL, RPC, BOTH, V_MASTER},
    {CO_VAR_WORKER_ENDPOINT, NULL, RPC, BOTH, V_ENDPOINT},
    {CO_VAR_TRAINER_ID, NULL, COLLECTIVE | TRAINER | RPC, BOTH, V_INDEX},
    {CO_VAR_CURRENT_ENDPOINT, NULL, COLLECTIVE, BOTH, V_ENDPOINT},
    {CO_VAR_PSERVERS, NULL, PS, BOTH, V_SERVERS},
    {CO_VAR_TRAINERS_NUM, NULL, EVERY, BOTH, V_N_TRAINERS},
    {CO_VAR_TRAINER_ENDPOINTS, NULL, COLLECTIVE | PS, BOTH, V_TRAINERS},
    /* The name of Paddle up to 2.1, then the names of later ones. */
    {CO_VAR_HETER_TRAINERS, NULL, PS, BOTH, V_HETERS},
    {CO_VAR_ALL_HETER_TRAINERS, NULL, PS, BOTH, V_ALL_HETERS},
    {CO_VAR_NEXT_HETER_TRAINERS, NULL, TRAINER | HETER, BOTH, V_NEXT_STAGE},
    {CO_VAR_PREVIOUS_HETER_TRAINERS, NULL, TRAINER | HETER, BOTH, V_PREVIOUS_STAGE},
    {CO_VAR_STAGE_TRAINERS_NUM, NULL, TRAINER | HETER, BOTH, V_OF_STAGES},
    {CO_VAR_STAGE_ID, NULL, TRAINER | HETER, BOTH, V_STAGE},
    {CO_VAR_STAGE_NUM, NULL, TRAINER | HETER, BOTH, V_N_STAGES},
    {CO_VAR_COORDINATORS, NULL, SERVER | TRAINER, OLD, V_COORDINATORS},
    {CO_VAR_PORT, NULL, PS, BOTH, V_PORT},
    {CO_VAR_POD_IP, NULL, PS, BOTH, V_IP},
    {CO_VAR_ROLE, NULL, PS, NEW, V_ROLE},
    {CO_VAR_TRAINING_ROLE, NULL, PS, BOTH, V_ROLE},
    {CO_VAR_RANK_IN_NODE, NULL, COLLECTIVE, BOTH, V_LOCAL},
    {CO_VAR_LOCAL_DEVICE_IDS, NULL, COLLECTIVE, OLD, V_LOCAL_DEVICES},
    {CO_VAR_WORLD_DEVICE_IDS, NULL, COLLECTIVE, OLD, V_WORLD_DEVICES},
    {CO_VAR_SELECTED_DEVICES, NULL, COLLECTIVE, BOTH, V_DEVICE},
    {CO_VAR_SELECTED_DEVICES, "accelerators", COLLECTIVE, OLD, V_DEVICE},
    {CO_VAR_SELECTED_GPUS, NULL, TRAINER | HETER, OLD, V_ZERO},
    {CO_VAR_SELECTED_DEVICES, "xpus", TRAINER | HETER, OLD, V_ZERO},
    {CO_VAR_CUDA_VISIBLE_DEVICES, NULL, TRAINER | HETER, OLD, V_OLD_VISIBLE},
    {CO_VAR_XPU_VISIBLE_DEVICES, NULL, TRAINER | HETER, OLD, V_OLD_VISIBLE},
    {CO_VAR_DISTRI_BACKEND, NULL, COLLECTIVE, BOTH, V_BACKEND},
    {CO_VAR_XCCL_BACKEND, NULL, COLLECTIVE, BOTH, V_XCCL},
    {CO_VAR_AUTO_CLUSTER, NULL, COLLECTIVE, NEW, V_AUTO_CLUSTER},
    {CO_VAR_WITH_GLOO, NULL, PS, BOTH, V_WITH_GLOO},
    {CO_VAR_WITH_GLOO, NULL, COLLECTIVE, OLD, V_WITH_GLOO},
    {CO_VAR_GLOO_RENDEZVOUS, NULL, PS, BOTH, V_GLOO_RENDEZVOUS},
    {CO_VAR_GLOO_RENDEZVOUS, NULL, COLLECTIVE, OLD, V_GLOO_RENDEZVOUS},
    {CO_VAR_GLOO_FS_PATH, NULL, PS, BOTH, V_GLOO_PATH},
    {CO_VAR_GLOO_FS_PATH, NULL, COLLECTIVE, OLD, V_GLOO_PATH},
    {CO_VAR_GLOO_HTTP_ENDPOINT, NULL, PS, BOTH, V_GLOO_ENDPOINT},
    {CO_VAR_HETER_DEVICE_TYPE, NULL, TRAINER | HETER, BOTH, V_STAGE_DEVICE},
    {CO_VAR_POD_NAME, NULL, EVERY, NEW, V_POD},
    {CO_VAR_LOG_DIR, NULL, EVERY, NEW, V_LOG_DIR},
};

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
    struct options_list all = {0};
    for (size_t i = 0; i < a->plan->endpoints[JOB_ROLE_TRAINER].n; i++) {
        const size_t n = a->j->n[JOB_ROLE_TRAINER];
        options_list_add_own(&all, d->n == 0 ? co_xstrdup("")
                                   : n == 1  ? options_list_join(d, ":")
                                             : co_xstrdup(d->item[i % n]));
    }
    char *text = options_list_join(&all, ",");
    options_list_done(&all);
    return text;
}

static char *backend(const struct job *j) {
    const char *asked = j->options->text[OPTIONS_OPT_BACKEND];
    return strcmp(asked, "auto") != 0             ? co_xstrdup(asked)
           : j->node->device == JOB_DEVICE_CUSTOM ? co_xstrdup("xccl")
           : j->devices.n == 0                    ? co_xstrdup("gloo")
                                                  : NULL;
}

static char *log_dir(const struct job *j) {
    const char *dir = j->options->text[OPTIONS_OPT_LOG_DIR];
    return !*dir ? NULL : *dir == '/' ? co_xstrdup(dir) : co_xasprintf("%s/%s", j->node->dir, dir);
}

static char *trainers(const struct variable_context *a) {
    char *text = options_list_join(&a->plan->endpoints[JOB_ROLE_TRAINER], ",");
    if (a->j->mode == JOB_MODE_COLLECTIVE && strlen(text) >= ENDPOINTS_TEXT_MAX) {
        free(text);
        return NULL;
    }
    return text;
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
    struct options_list sizes = {0};
    options_list_add_own(&sizes, number(plan->endpoints[JOB_ROLE_TRAINER].n));
    for (size_t i = 0; i < plan->stages.n; i++) {
        options_list_add_own(&sizes, number(plan->stages.size[i]));
    }
    CO_AUTOFREE char *joined = options_list_join(&sizes, ", ");
    options_list_done(&sizes);
    return co_xasprintf("[%s]", joined);
}

/* Values about the stages; NULL: the job has no heterogeneous workers. */
static char *of_stages(const struct variable_context *a, enum value v) {
    const struct job_plan *plan = a->plan;
    if (plan->endpoints[JOB_ROLE_HETER].n == 0) {
        return NULL;
    }
    const size_t stage =
        a->p->role == JOB_ROLE_HETER ? job_stages_of(&plan->stages, a->p->index) : 0;
    const size_t id = a->p->role == JOB_ROLE_HETER ? stage + JOB_STAGE_FIRST : 1;
    switch (v) {
    case V_NEXT_STAGE:
        return stage_endpoints(plan, id + 1);
    case V_PREVIOUS_STAGE:
        return stage_endpoints(plan, id - 1);
    case V_STAGE:
        return number(id);
    case V_N_STAGES:
        return number(plan->stages.n + 1);
    case V_OF_STAGES:
        return stage_sizes(plan);
    case V_STAGE_DEVICE:
        return id == 1                 ? co_xstrdup("cpu")
               : a->j->heter_devices.n ? co_xstrdup(a->j->heter_devices.item[stage])
                                       : NULL;
    default:
        return options_list_join(&plan->endpoints[JOB_ROLE_HETER], ",");
    }
}

/* The caller frees; NULL: the variable is not set. */
static char *value_of(const struct variable_context *a, enum value v) {
    static const char *const roles[] = {
        [JOB_ROLE_SERVER] = "PSERVER",
        [JOB_ROLE_TRAINER] = "TRAINER",
        [JOB_ROLE_HETER] = "HETER_TRAINER",
    };
    const struct options *o = a->j->options;
    const struct job_plan *plan = a->plan;
    switch (v) {
    case V_MASTER:
        return copy(plan->master);
    case V_INDEX:
        return number(a->p->index);
    case V_LOCAL:
        return number(a->p->local);
    case V_LOCAL_SIZE:
        return number(a->j->n[JOB_ROLE_TRAINER]);
    case V_N_TRAINERS:
        return number(plan->endpoints[JOB_ROLE_TRAINER].n);
    case V_N_NODES:
        return a->j->discovery == JOB_DISCOVERY_LISTS ? NULL : number(plan->n_nodes);
    case V_SERVERS:
        return options_list_join(&plan->endpoints[JOB_ROLE_SERVER], ",");
    case V_TRAINERS:
        return trainers(a);
    case V_HETERS: /* the launcher of 2.0 always has it */
        return plan->endpoints[JOB_ROLE_HETER].n || a->j->format == OPTIONS_FORMAT_2_0
                   ? options_list_join(&plan->endpoints[JOB_ROLE_HETER], ",")
                   : NULL;
    case V_ALL_HETERS:
    case V_NEXT_STAGE:
    case V_PREVIOUS_STAGE:
    case V_STAGE:
    case V_N_STAGES:
    case V_OF_STAGES:
    case V_STAGE_DEVICE:
        return of_stages(a, v);
    case V_COORDINATORS: /* of federated training, which this launcher does not support */
        return co_xstrdup("");
    case V_ENDPOINT:
        return co_xstrdup(own_endpoint(a));
    case V_PORT:
        return own_hostport(a, true);
    case V_IP:
        return own_hostport(a, false);
    case V_ROLE:
        return co_xstrdup(roles[a->p->role]);
    case V_WITH_GLOO:
        return copy(o->text[OPTIONS_OPT_WITH_GLOO]);
    case V_GLOO_RENDEZVOUS:
        return co_xstrdup("3");
    case V_GLOO_PATH:
        return copy(a->scratch);
    case V_GLOO_ENDPOINT:
        return copy(plan->gloo);
    case V_DEVICE:
        return own_devices(a);
    case V_LOCAL_DEVICES: {
        char *own = own_devices(a);
        return own ? own : co_xstrdup("");
    }
    case V_WORLD_DEVICES:
        return world_devices(a);
    case V_ZERO:
        return co_xstrdup("0");
    case V_OLD_VISIBLE:
        return old_visible(a);
    case V_BACKEND:
        return backend(a->j);
    case V_XCCL:
        return a->j->node->device == JOB_DEVICE_CUSTOM ? copy(a->j->node->device_name) : NULL;
    case V_AUTO_CLUSTER:
        return copy(o->text[OPTIONS_OPT_AUTO_CLUSTER_CONFIG]);
    case V_POD:
        return copy(a->j->node->pod);
    case V_LOG_DIR:
        return log_dir(a->j);
    }
    return NULL;
}

static const char *device_kind(const struct job *j) {
    static const char *const kinds[] = {"cpu", "gpu", "xpu", NULL};
    const char *alias =
        j->options->alias[OPTIONS_OPT_DEVICES]; /* "--xpus" says it when the machine does not */
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
        /* A process whose environment was given gets only the variables about this launcher. */
        bool given = j->discovery == JOB_DISCOVERY_GIVEN && rows[i].value < V_POD;
        if (given || !(rows[i].who & who(j, p->role)) || !(rows[i].from & from)) {
            continue;
        }
        CO_AUTOFREE char *name = name_of(j, rows[i].var, rows[i].device);
        CO_AUTOFREE char *value = value_of(&a, rows[i].value);
        if (value) {
            job_env_set(&p->set, name, value);
        }
    }
}
