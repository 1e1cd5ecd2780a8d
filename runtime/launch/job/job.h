/* Decides, from the options, the environment and the machine, what this node's part of a job is:
 * the kind of training, the number of processes, and how the addresses of the other nodes become
 * known. Pure: the environment comes through a function. */
#pragma once

#include <stdint.h>

#include "runtime/launch/job/stages.h"
#include "runtime/launch/options/list.h"
#include "runtime/launch/options/options.h"

enum job_mode { JOB_MODE_COLLECTIVE, JOB_MODE_PS, JOB_MODE_RPC, JOB_MODE_COUNT };

/* The kinds of processes; they are started in this order. */
enum job_role { JOB_ROLE_SERVER, JOB_ROLE_TRAINER, JOB_ROLE_HETER, JOB_ROLE_COUNT };

/* Where the addresses of the job's processes come from. */
enum job_discovery {
    JOB_DISCOVERY_ALONE,     /* one node: its own free ports */
    JOB_DISCOVERY_MEET,      /* a rendezvous of all nodes */
    JOB_DISCOVERY_LISTS,     /* --servers and --trainers */
    JOB_DISCOVERY_IPS,       /* --ips and --start_port, or PADDLE_TRAINERS for the old launcher */
    JOB_DISCOVERY_ENDPOINTS, /* PADDLE_TRAINER_ENDPOINTS in the environment */
    JOB_DISCOVERY_GIVEN,     /* the environment already describes one process: a pod of a job with
                              * parameter servers */
};

enum job_device { JOB_DEVICE_CPU, JOB_DEVICE_GPU, JOB_DEVICE_XPU, JOB_DEVICE_CUSTOM };

/* What was found out about the machine (runtime/launch/node/machine.h). */
struct job_node {
    char *ip;          /* its own address */
    char *pod;         /* this launcher's name in the job: six random letters */
    char *python;      /* program for *.py */
    bool python_named; /* by PADDLERUN_PYTHON */
    char *dir;         /* working directory */
    char *host;        /* its host name; in a pod, the pod's; NULL: none */
    bool in_pod;       /* of Kubernetes: its folders may be those of other pods, too */
    enum job_device device;
    const char *device_name;     /* of JOB_DEVICE_CUSTOM */
    struct options_list visible; /* labels of the devices that processes may use */
};

struct job {
    const struct options *options;
    const struct job_node *node;
    enum job_mode mode;
    enum job_discovery discovery;
    enum options_format format;
    const char *id; /* --job_id, or the operator's ID of this pod's elastic job */
    int nodes_min, nodes_max;
    bool elastic; /* a range MIN:MAX was given, even if MIN = MAX */
    int level;    /* --elastic_level, or 1 in a pod of an elastic job */
    int64_t elastic_ms;
    int rank;                          /* this node's; -1: the rendezvous assigns it */
    const char *ip;                    /* this node's */
    const char *master;                /* of the rendezvous; NULL: none */
    const char *token;                 /* secret that nodes must prove; NULL: none is asked for */
    size_t n[JOB_ROLE_COUNT];          /* this node's processes; JOB_DISCOVERY_GIVEN: one */
    struct job_stages stages;          /* of JOB_ROLE_HETER; JOB_DISCOVERY_LISTS: the whole job's,
                                        * else this node's */
    struct options_list heter_devices; /* by stage; empty: unknown */
    size_t n_ports;                    /* free ports that job_offer_make needs */
    struct options_list devices;       /* of the trainers, as in FLAGS_selected_* */
    struct options_list endpoints;     /* of JOB_DISCOVERY_ENDPOINTS, as given */
    struct options_list hosts; /* of JOB_DISCOVERY_ENDPOINTS and JOB_DISCOVERY_IPS, by rank */
    int64_t first_port;        /* of JOB_DISCOVERY_IPS: every host's */
    struct options_list listed[JOB_ROLE_COUNT]; /* of JOB_DISCOVERY_LISTS */
    char *held;                                 /* owned text of master, where it was computed */
    char *held_ip;                              /* owned; NULL: ip is the node's */
    struct options_list notes;                  /* log lines in Paddle's words: "LEVEL text" */
};

extern const char *const job_mode_name[JOB_MODE_COUNT]; /* "collective", "ps", "rpc" */

/* options, node and the texts that get returns must outlive the job.  CO_INVALID: a message of one
 * line. */
CO_MUST_CHECK int job_plan(const struct options *options, const struct job_node *node,
    options_plan_getenv_fn get, void *arg, struct job *ret, struct co_err *err);
void job_done(struct job *j);

size_t job_processes(const struct job *j);
