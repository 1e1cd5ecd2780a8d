/* The env contract: every environment variable that the operator, a launcher or the training
 * library sets or reads, in one table.
 *
 * From this table the operator writes pods and ConfigMaps (operator/plan), the launcher writes the
 * environment of its children (runtime/launch/job), the training library reads its role
 * (runtime/train/role), and docs/env.md is printed.  A row says who gets the variable, how it gets
 * there, which values are valid, and in one sentence what it means.  The table knows nothing of
 * Kubernetes objects, nor of how a process finds its peers.  Read-only data and pure functions: any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

enum {
    CO_PORT_BASE = 36000, /* a job's port in Service mode; else the first of the range */
    CO_PORT_SPAN = 20,    /* ports reserved for a pod: TRAINER_PORTS_NUM */
    CO_PORT_SLOTS = 1000, /* job ports are CO_PORT_BASE + CO_PORT_SPAN * [0, CO_PORT_SLOTS) */
    CO_V2_PORT = 7164,    /* port of servers in the documents of Paddle 0.8 to 0.12 */
    CO_PORT_GLOO = 18,    /* offset of the gloo rendezvous from the job's port */
    CO_PORT_MASTER = 19,  /* offset of torch.distributed's store, MASTER_PORT */
};

/* One id for each row; encoders and decoders switch on it. */
enum co_var {
    /* set directly on the first container, in this order */
    CO_VAR_POD_IP,
    CO_VAR_TRAINER_ID,
    CO_VAR_TRAINING_ROLE,
    CO_VAR_PADDLE_TRAINING_ROLE,
    CO_VAR_ELASTIC_JOB_ID,
    CO_VAR_ELASTIC_NP,
    CO_VAR_ELASTIC_TIMEOUT,
    CO_VAR_JOB_ENCRYPT,
    CO_VAR_TRAINING_END,
    CO_VAR_STOP_TIMEOUT,
    CO_VAR_TORCH_RANK,
    CO_VAR_TORCH_GROUP_RANK,
    /* through the job's ConfigMap */
    CO_VAR_PORTS_NUM,
    CO_VAR_PORT,
    CO_VAR_PSERVERS,
    CO_VAR_TRAINER_ENDPOINTS,
    CO_VAR_TRAINERS,
    CO_VAR_TRAINERS_NUM,
    CO_VAR_HETER_ENDPOINTS,
    CO_VAR_WITH_GLOO,
    CO_VAR_GLOO_RENDEZVOUS,
    CO_VAR_GLOO_HTTP_ENDPOINT,
    CO_VAR_MASTER_ADDR,
    CO_VAR_MASTER_PORT,
    CO_VAR_TORCH_WORLD_SIZE,
    CO_VAR_TORCH_LOCAL_RANK,
    CO_VAR_TORCH_LOCAL_WORLD_SIZE,
    CO_VAR_TORCH_GROUP_WORLD_SIZE,
    CO_VAR_TORCH_RUN_ID,
    CO_VAR_TORCH_RESTART_COUNT,
    /* by a reference to the job's Secret */
    CO_VAR_JOB_TOKEN,
    /* set on the start gate only */
    CO_VAR_GATE_ADDR,
    CO_VAR_POD_NAMESPACE,
    CO_VAR_POD_NAME,
    CO_VAR_POD_UID,
    CO_VAR_POD_IPS,
    /* never set by this operator; read by the runtime */
    CO_VAR_ROLE,
    CO_VAR_CURRENT_ENDPOINT,
    CO_VAR_RANK_IN_NODE,
    CO_VAR_LOCAL_RANK,
    CO_VAR_LOCAL_SIZE,
    CO_VAR_GLOBAL_RANK,
    CO_VAR_GLOBAL_SIZE,
    CO_VAR_MASTER,
    CO_VAR_NNODES,
    CO_VAR_JOB_ID,
    CO_VAR_PSERVER_ID,
    CO_VAR_HETER_TRAINERS,
    CO_VAR_COORDINATORS,
    CO_VAR_SELECTED_GPUS,
    CO_VAR_SERVER_NUM,
    CO_VAR_TRAINER_NUM,
    CO_VAR_ELASTIC_SERVER,
    CO_VAR_GLOO_FS_PATH,
    CO_VAR_SYS_JOB_ID,
    CO_VAR_LAUNCH_BARRIER,
    CO_VAR_INIT_TRAINER_ID,
    CO_VAR_INIT_NUM_GRADIENT_SERVERS,
    CO_VAR_INIT_PSERVERS,
    CO_VAR_INIT_PORT,
    CO_VAR_INIT_PORTS_NUM,
    CO_VAR_INIT_PORTS_NUM_FOR_SPARSE,
    CO_VAR_INIT_TRAINER_COUNT,
    CO_VAR_INIT_USE_GPU,
    CO_VAR_INIT_NUM_PASSES,
    CO_VAR_INIT_LOG_PERIOD,
    CO_VAR_INIT_SAVE_DIR,
    CO_VAR_CLUSTER_TRAIN,
    /* settings of this project's parameter server */
    CO_VAR_PS_LEASE,
    CO_VAR_PS_RETURN,
    CO_VAR_PS_START_TIMEOUT,
    CO_VAR_PS_CALL_TIMEOUT,
    CO_VAR_PS_BARRIER_TIMEOUT,
    CO_VAR_PS_SHARDS,
    CO_VAR_PS_NONFINITE,
    CO_VAR_PS_TRANSPORT,
    CO_VAR_PS_CHECKPOINT_DIR,
    CO_VAR_PS_COLD_DIR,
    CO_VAR_PS_CHECKPOINT_STEPS,
    CO_VAR_PS_CHECKPOINT_INTERVAL,
    CO_VAR_PS_CHECKPOINT_DELTAS,
    CO_VAR_PS_CHECKPOINT_KEEP,
    CO_VAR_METRICS,
    CO_VAR_TENSORBOARD,
    CO_VAR_RPC_DEADLINE,
    CO_VAR_PS_STRATEGY,
    CO_VAR_COMM_MERGE,
    CO_VAR_COMM_QUEUE,
    CO_VAR_COMM_RECV,
    CO_VAR_COMM_MIN_SEND,
    CO_VAR_COMM_THREADS,
    CO_VAR_COMM_WAIT,
    CO_VAR_COMM_SGD,
    /* set by a launcher for its children only */
    CO_VAR_MASTER_ENDPOINT,
    CO_VAR_WORKER_ENDPOINT,
    CO_VAR_ALL_HETER_TRAINERS,
    CO_VAR_NEXT_HETER_TRAINERS,
    CO_VAR_PREVIOUS_HETER_TRAINERS,
    CO_VAR_STAGE_TRAINERS_NUM,
    CO_VAR_STAGE_ID,
    CO_VAR_STAGE_NUM,
    CO_VAR_HETER_DEVICE_TYPE,
    CO_VAR_LOCAL_DEVICE_IDS,
    CO_VAR_WORLD_DEVICE_IDS,
    CO_VAR_SELECTED_DEVICES,
    CO_VAR_DISTRI_BACKEND,
    CO_VAR_AUTO_CLUSTER,
    CO_VAR_AUTO_PARALLEL_STAGE,
    CO_VAR_LOG_DIR,
    /* the same, for programs that torchrun could start */
    CO_VAR_TORCH_MAX_RESTARTS,
    /* options of a launcher */
    CO_VAR_OPT_AUTO_PARALLEL_CONFIG,
    CO_VAR_OPT_DEVICES,
    CO_VAR_OPT_ELASTIC_LEVEL,
    CO_VAR_OPT_GLOO_PORT,
    CO_VAR_OPT_IPS,
    CO_VAR_OPT_LOG_LEVEL,
    CO_VAR_OPT_LOG_OVERWRITE,
    CO_VAR_OPT_MAX_RESTART,
    CO_VAR_OPT_NPROC_PER_NODE,
    CO_VAR_OPT_RANK,
    CO_VAR_OPT_REQUIRE_TOKEN,
    CO_VAR_OPT_RUN_MODE,
    CO_VAR_OPT_SERVERS_ENDPOINTS,
    CO_VAR_OPT_SORT_IP,
    CO_VAR_OPT_START_PORT,
    CO_VAR_OPT_TRAINERS_ENDPOINTS,
    CO_VAR_FIXED_PORT,
    CO_VAR_FIRST_PORT,
    /* set by Kubernetes for Services */
    CO_VAR_ELASTIC_ETCD_HOST,
    CO_VAR_ELASTIC_ETCD_PORT,
    CO_VAR_GATE_SERVICE_HOST,
    CO_VAR_GATE_SERVICE_PORT,
    /* properties of the machine that a launcher runs on */
    CO_VAR_CUDA_VISIBLE_DEVICES,
    CO_VAR_NCCL_DIR,
    CO_VAR_XPU_VISIBLE_DEVICES,
    CO_VAR_XPULINK_VISIBLE_DEVICES,
    CO_VAR_HIP_VISIBLE_DEVICES,
    CO_VAR_ASCEND_RT_VISIBLE_DEVICES,
    CO_VAR_NPU_VISIBLE_DEVICES,
    CO_VAR_MLU_VISIBLE_DEVICES,
    CO_VAR_TOPS_VISIBLE_DEVICES,
    CO_VAR_XCCL_BACKEND,
    CO_VAR_PORT_RANGE,
    CO_VAR_PYTHON,
    CO_VAR_ETCD_USER,
    CO_VAR_ETCD_CA,
    CO_VAR_ETCD_CERT,
    CO_VAR_ETCD_KEY,
    CO_VAR_MAX_CPU_ISA,
    CO_VAR_COUNT,
};

enum co_var_via {
    CO_VIA_ENV,       /* env of the first container */
    CO_VIA_CONFIGMAP, /* a key of the job's ConfigMap */
    CO_VIA_SECRET,    /* env of the first container, a reference to the job's Secret */
    CO_VIA_GATE,      /* env of the start gate */
    CO_VIA_USER,      /* the user, another operator or a launcher */
};

/* When the operator sets the variable. */
enum co_var_when {
    CO_WHEN_NEVER,
    CO_WHEN_ALWAYS,
    CO_WHEN_PS,      /* the job has servers */
    CO_WHEN_WORKER,  /* the job has workers */
    CO_WHEN_HETER,   /* the job has heter trainers */
    CO_WHEN_GLOO,    /* withGloo > 0 and at least one server */
    CO_WHEN_ELASTIC, /* an elastic job */
    CO_WHEN_TOKEN,   /* spec.peerAuth is Token or Encrypted */
    CO_WHEN_ENCRYPTED,
    CO_WHEN_SERVES, /* a server, when others decide that the job is done, and there is a gate */
    CO_WHEN_GRACE,  /* the role's template has terminationGracePeriodSeconds */
    CO_WHEN_TORCH,  /* several workers and nothing else, not elastic */
};

/* The form of a value; co_contract_check has the rules. */
enum co_var_type {
    CO_TYPE_TEXT,
    CO_TYPE_INT,       /* decimal, row's min..max */
    CO_TYPE_BOOL,      /* as co_parse_bool */
    CO_TYPE_PORT,      /* 1..65535 */
    CO_TYPE_HOST,      /* a name or an address, IPv6 without brackets */
    CO_TYPE_HOSTS,     /* hosts joined by commas, by index */
    CO_TYPE_ENDPOINT,  /* host:port, [IPv6]:port */
    CO_TYPE_ENDPOINTS, /* endpoints joined by commas, by index, none twice */
    CO_TYPE_WORD,      /* one of the row's words */
};

/* Which kinds of launch use the variable (mask). */
enum {
    CO_GEN_HAND = 1,     /* exported by hand, four shells */
    CO_GEN_OPERATOR = 2, /* paddle-operator */
    CO_GEN_LAUNCH = 4,   /* paddle.distributed.launch, fleetrun */
    CO_GEN_KUBEFLOW = 8, /* kubeflow.org/v1 PaddleJob */
    CO_GEN_V2 = 16,      /* PADDLE_INIT_* of 0.8 to 0.12 */
};

struct co_contract_row {
    const char *name;
    enum co_var_via via;
    enum co_var_when when;
    enum co_var_type type;
    unsigned generations;     /* CO_GEN_* */
    int64_t min, max;         /* of CO_TYPE_INT */
    const char *const *words; /* of CO_TYPE_WORD, ends with NULL */
    bool secret;              /* the value must never be shown */
    bool prefix;              /* name is the prefix of a family of variables */
    bool machine;             /* describes the machine, not a job: a job started inside of another
                               * one inherits it */
    bool empty;               /* an empty value is one, such as no devices; elsewhere it is none */
    bool alone;      /* about how to train, not about who takes part: also for a program that is
                      * asked to train alone (--local) */
    const char *doc; /* one sentence */
};

extern const struct co_contract_row co_contract[CO_VAR_COUNT];

/* Role words as the operator writes them: TRAINING_ROLE. */
extern const char *const co_contract_role_ps;     /* PSERVER */
extern const char *const co_contract_role_worker; /* TRAINER */
extern const char *const co_contract_role_heter;  /* HETER */

/* The row's id, or -1.  A row with exactly this name is preferred to a family. */
int co_contract_find(const char *name);
/* Whether a variable belongs to a job's contract, so that a job started inside of another one must
 * not inherit it. */
bool co_contract_of_job(const char *name);

/* The value in the process's environment as co_contract_read has it, valid as long as the process;
 * NULL: it counts as not set.  All of a program that reads variables of the contract, or its own
 * settings, reads them so. */
const char *co_contract_getenv(enum co_var var);
const char *co_contract_getenv_of(const char *name);
/* Where a variable's value begins behind blanks; *ret_len bytes without those at its end.  NULL if
 * it counts as not set: value is NULL, a Service's link, or nothing but blanks where the row does
 * not give that a meaning.  Templates write `value: ""` for what a ConfigMap or chart leaves out.
 */
const char *co_contract_read(const char *name, const char *value, size_t *ret_len);
/* For a Service x, Kubernetes sets X_PORT=tcp://ADDRESS:PORT in the pods of its namespace: no value
 * of a variable of that name here. */
bool co_contract_is_link(const char *name, const char *value);
/* Calls each with every variable of "NAME=value"s that is one. */
void co_contract_links(
    char *const *envp, void (*each)(void *arg, const char *name, const char *value), void *arg);

/* CO_INVALID naming the variable, the value and what was expected.  Non-blocking. */
CO_MUST_CHECK int co_contract_check(enum co_var var, const char *value, struct co_err *err);

/* Calls each with every element of a comma-joined list (index from 0).  Any result but 0 ends the
 * iteration and is returned.  CO_INVALID for elements that are empty or longer than 255 bytes. */
CO_MUST_CHECK int co_contract_list(enum co_var var, const char *value,
    int (*each)(void *arg, size_t index, const char *element, struct co_err *err), void *arg,
    struct co_err *err);

/* Appends the reference page docs/env.md. */
CO_MUST_CHECK int co_contract_markdown(struct co_buf *ret, struct co_err *err);
