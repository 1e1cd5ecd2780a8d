/* From the options, the environment and the machine to this node's part of a job: what kind of
 * training, how many processes, and how the addresses of all others become known.
 * Pure. */
#pragma once

#include <stdint.h>

#include "runtime/launch/options/list.h"
#include "runtime/launch/options/options.h"
#include "runtime/launch/job/stages.h"

enum rt_mode { RT_MODE_COLLECTIVE, RT_MODE_PS, RT_MODE_RPC, RT_MODE_COUNT };

/* What a process is; they are started in this order. */
enum rt_seat { RT_SEAT_SERVER, RT_SEAT_TRAINER, RT_SEAT_HETER, RT_SEAT_COUNT };

/* Where the addresses of the job's processes come from. */
enum rt_way {
    RT_WAY_ALONE,     /* one node: its own free ports */
    RT_WAY_MEET,      /* a rendezvous of all nodes */
    RT_WAY_LISTS,     /* --servers and --trainers */
    RT_WAY_IPS,       /* --ips and --start_port */
    RT_WAY_ENDPOINTS, /* PADDLE_TRAINER_ENDPOINTS in the environment */
    RT_WAY_GIVEN,     /* the environment is one process's already: a pod of a job with servers */
};

enum rt_device { RT_DEVICE_CPU, RT_DEVICE_GPU, RT_DEVICE_XPU, RT_DEVICE_CUSTOM };

/* What the machine tells. */
struct rt_node {
    char *ip;     /* its own address */
    char *pod;    /* name of this launcher among the job's: six letters */
    char *python; /* program for *.py */
    char *dir;    /* working directory */
    enum rt_device device;
    const char *device_name; /* of RT_DEVICE_CUSTOM */
    struct rt_list visible;  /* labels of the devices that processes may use */
};

struct rt_job {
    const struct rt_options *options;
    const struct rt_node *node;
    enum rt_mode mode;
    enum rt_way way;
    enum rt_format format;
    const char *id; /* --job_id, or what the operator calls the elastic job of this pod */
    int nodes_min, nodes_max;
    bool elastic; /* a range was given, even MIN = MAX */
    int level;    /* --elastic_level, or what a pod of an elastic job needs */
    int64_t elastic_ms;
    int rank;                            /* this node's; -1: as it comes */
    const char *ip;                      /* this node's */
    const char *master;                  /* as given; NULL: none */
    size_t n[RT_SEAT_COUNT];             /* processes on this node; by its seat for RT_WAY_GIVEN */
    struct rt_stages stages;             /* of RT_SEAT_HETER: of RT_WAY_LISTS the job's, else this
                                          * node's */
    struct rt_list heter_devices;        /* by stage; none: not told */
    size_t n_ports;                      /* free ports that rt_job_value wants */
    struct rt_list devices;              /* of the trainers, as FLAGS_selected_* has them */
    struct rt_list endpoints;            /* of RT_WAY_ENDPOINTS, as given */
    struct rt_list hosts;                /* of RT_WAY_ENDPOINTS and RT_WAY_IPS, by rank */
    struct rt_list seats[RT_SEAT_COUNT]; /* of RT_WAY_LISTS */
    char *held;                          /* what master points to, where it was not given as such */
    struct rt_list notes; /* for the log, as Paddle's launcher says it: "LEVEL text" */
};

extern const char *const rt_mode_name[RT_MODE_COUNT]; /* "collective", "ps", "rpc" */

/* options, node and what get returns must stay as long as the job.  CO_INVALID: one line. */
CO_MUST_CHECK int rt_job_plan(const struct rt_options *options, const struct rt_node *node,
    rt_plan_getenv_fn get, void *arg, struct rt_job *ret, struct co_err *err);
void rt_job_done(struct rt_job *j);

size_t rt_job_processes(const struct rt_job *j);
