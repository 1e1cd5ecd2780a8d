/* Decides, from the options, the environment and the machine, what this node's part of a job is:
 * the kind of training, the number of processes, and how the addresses of the other nodes become
 * known. Pure: the environment comes through a function. */
#pragma once

#include <stdint.h>

#include "runtime/launch/options/list.h"
#include "runtime/launch/options/options.h"
#include "runtime/launch/job/stages.h"

enum rl_mode { RL_MODE_COLLECTIVE, RL_MODE_PS, RL_MODE_RPC, RL_MODE_COUNT };

/* The kinds of processes; they are started in this order. */
enum rl_seat { RL_SEAT_SERVER, RL_SEAT_TRAINER, RL_SEAT_HETER, RL_SEAT_COUNT };

/* Where the addresses of the job's processes come from. */
enum rl_way {
    RL_WAY_ALONE,     /* one node: its own free ports */
    RL_WAY_MEET,      /* a rendezvous of all nodes */
    RL_WAY_LISTS,     /* --servers and --trainers */
    RL_WAY_IPS,       /* --ips and --start_port, or PADDLE_TRAINERS for the old launcher */
    RL_WAY_ENDPOINTS, /* PADDLE_TRAINER_ENDPOINTS in the environment */
    RL_WAY_GIVEN,     /* the environment already describes one process: a pod of a job with
                       * parameter servers */
};

enum rl_device { RL_DEVICE_CPU, RL_DEVICE_GPU, RL_DEVICE_XPU, RL_DEVICE_CUSTOM };

/* What was found out about the machine (runtime/launch/node/node.h). */
struct rl_node {
    char *ip;          /* its own address */
    char *pod;         /* this launcher's name in the job: six random letters */
    char *python;      /* program for *.py */
    bool python_named; /* by PADDLERUN_PYTHON */
    char *dir;         /* working directory */
    char *host;        /* its host name; in a pod, the pod's; NULL: none */
    bool in_pod;       /* of Kubernetes: its folders may be those of other pods, too */
    enum rl_device device;
    const char *device_name; /* of RL_DEVICE_CUSTOM */
    struct rl_list visible;  /* labels of the devices that processes may use */
};

struct rl_job {
    const struct rl_options *options;
    const struct rl_node *node;
    enum rl_mode mode;
    enum rl_way way;
    enum rl_format format;
    const char *id; /* --job_id, or the operator's ID of this pod's elastic job */
    int nodes_min, nodes_max;
    bool elastic; /* a range MIN:MAX was given, even if MIN = MAX */
    int level;    /* --elastic_level, or 1 in a pod of an elastic job */
    int64_t elastic_ms;
    int rank;                            /* this node's; -1: the rendezvous assigns it */
    const char *ip;                      /* this node's */
    const char *master;                  /* of the rendezvous; NULL: none */
    const char *token;                   /* secret that nodes must prove; NULL: none is asked for */
    size_t n[RL_SEAT_COUNT];             /* this node's processes; RL_WAY_GIVEN: one */
    struct rl_stages stages;             /* of RL_SEAT_HETER; RL_WAY_LISTS: the whole job's,
                                          * else this node's */
    struct rl_list heter_devices;        /* by stage; empty: unknown */
    size_t n_ports;                      /* free ports that rl_offer_make needs */
    struct rl_list devices;              /* of the trainers, as in FLAGS_selected_* */
    struct rl_list endpoints;            /* of RL_WAY_ENDPOINTS, as given */
    struct rl_list hosts;                /* of RL_WAY_ENDPOINTS and RL_WAY_IPS, by rank */
    int64_t first_port;                  /* of RL_WAY_IPS: every host's */
    struct rl_list seats[RL_SEAT_COUNT]; /* of RL_WAY_LISTS */
    char *held;                          /* owned text of master, where it was computed */
    struct rl_list notes;                /* log lines in Paddle's words: "LEVEL text" */
};

extern const char *const rl_mode_name[RL_MODE_COUNT]; /* "collective", "ps", "rpc" */

/* options, node and the texts that get returns must outlive the job.  CO_INVALID: a message of one
 * line. */
CO_MUST_CHECK int rl_job_plan(const struct rl_options *options, const struct rl_node *node,
    rl_plan_getenv_fn get, void *arg, struct rl_job *ret, struct co_err *err);
void rl_job_done(struct rl_job *j);

size_t rl_job_processes(const struct rl_job *j);
