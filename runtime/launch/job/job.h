/* From the options, the environment and the machine to this node's part of a job: what kind of
 * training, how many processes, and how the addresses of all others become known.
 * Pure. */
#pragma once

#include <stdint.h>

#include "runtime/launch/options/list.h"
#include "runtime/launch/options/options.h"
#include "runtime/launch/job/stages.h"

enum rl_mode { RL_MODE_COLLECTIVE, RL_MODE_PS, RL_MODE_RPC, RL_MODE_COUNT };

/* What a process is; they are started in this order. */
enum rl_seat { RL_SEAT_SERVER, RL_SEAT_TRAINER, RL_SEAT_HETER, RL_SEAT_COUNT };

/* Where the addresses of the job's processes come from. */
enum rl_way {
    RL_WAY_ALONE,     /* one node: its own free ports */
    RL_WAY_MEET,      /* a rendezvous of all nodes */
    RL_WAY_LISTS,     /* --servers and --trainers */
    RL_WAY_IPS,       /* --ips and --start_port */
    RL_WAY_ENDPOINTS, /* PADDLE_TRAINER_ENDPOINTS in the environment */
    RL_WAY_GIVEN,     /* the environment is one process's already: a pod of a job with servers */
};

enum rl_device { RL_DEVICE_CPU, RL_DEVICE_GPU, RL_DEVICE_XPU, RL_DEVICE_CUSTOM };

/* What the machine tells. */
struct rl_node {
    char *ip;     /* its own address */
    char *pod;    /* name of this launcher among the job's: six letters */
    char *python; /* program for *.py */
    char *dir;    /* working directory */
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
    const char *id; /* --job_id, or what the operator calls the elastic job of this pod */
    int nodes_min, nodes_max;
    bool elastic; /* a range was given, even MIN = MAX */
    int level;    /* --elastic_level, or what a pod of an elastic job needs */
    int64_t elastic_ms;
    int rank;                            /* this node's; -1: as it comes */
    const char *ip;                      /* this node's */
    const char *master;                  /* as given; NULL: none */
    const char *token;                   /* proven where nodes meet; NULL: nobody asks for it */
    size_t n[RL_SEAT_COUNT];             /* processes on this node; by its seat for RL_WAY_GIVEN */
    struct rl_stages stages;             /* of RL_SEAT_HETER: of RL_WAY_LISTS the job's, else this
                                          * node's */
    struct rl_list heter_devices;        /* by stage; none: not told */
    size_t n_ports;                      /* free ports that rl_offer_make wants */
    struct rl_list devices;              /* of the trainers, as FLAGS_selected_* has them */
    struct rl_list endpoints;            /* of RL_WAY_ENDPOINTS, as given */
    struct rl_list hosts;                /* of RL_WAY_ENDPOINTS and RL_WAY_IPS, by rank */
    struct rl_list seats[RL_SEAT_COUNT]; /* of RL_WAY_LISTS */
    char *held;                          /* what master points to, where it was not given as such */
    struct rl_list notes; /* for the log, as Paddle's launcher says it: "LEVEL text" */
};

extern const char *const rl_mode_name[RL_MODE_COUNT]; /* "collective", "ps", "rpc" */

/* options, node and what get returns must stay as long as the job.  CO_INVALID: one line. */
CO_MUST_CHECK int rl_job_plan(const struct rl_options *options, const struct rl_node *node,
    rl_plan_getenv_fn get, void *arg, struct rl_job *ret, struct co_err *err);
void rl_job_done(struct rl_job *j);

size_t rl_job_processes(const struct rl_job *j);
