/* The public calls around a job: rt_init reads the environment or a list, rt_server_run runs a
 * server, rt_client_open opens a trainer's side.  They turn variables and options into a config for
 * server.c and client.c.  They run on the program's threads. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/fork.h"
#include "common/interrupt.h"
#include "common/isa.h"
#include "common/spare.h"
#include "common/stdio.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/options.h"
#include "runtime/train/ps/client/report.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server.h"
#include "runtime/train/role/role.h"

struct rt_job {
    struct role_topology *topology;
    bool listed;           /* from rt_init_list: token and encrypt come from the list */
    char *token, *encrypt; /* owned, if listed; encrypt NULL: the list does not say */
    int end;               /* server: readable once rt_server_end was called; others: -1 */
    struct co_fork fork;   /* server: a forked child's end is its own */
    atomic_bool accepts;   /* server */
    struct psc_reporter *reporter;
};

enum { END_FLAGS = EFD_CLOEXEC | EFD_NONBLOCK };

/* In a forked child: what ends its server, were it by a handler of signals that it has inherited,
 * does not end its parent's. */
static void part(struct co_fork *f) {
    struct rt_job *job = (struct rt_job *)((char *)f - offsetof(struct rt_job, fork));
    co_close(job->end);
    job->end = eventfd(0, END_FLAGS);
}

const char *rt_job_token(const struct rt_job *job) {
    return job->listed ? job->token : psc_options_token();
}

const char *rt_job_encrypt(const struct rt_job *job) {
    return job->listed ? job->encrypt : psc_options_encrypt_text();
}

/* Whether connections are encrypted.  The program's option comes before PADDLE_JOB_ENCRYPT. */
static int get_encrypt(
    const struct rt_job *job, enum rt_encrypt said, bool *ret, struct co_err *err) {
    return psc_options_encrypt(said, rt_job_encrypt(job), rt_job_token(job), ret, err);
}

static int load_job(role_getenv_fn get, void *arg, struct rt_job **ret_job, struct co_err *err) {
    struct role_topology *t = NULL;
    CO_TRY(co_isa_check(err));
    CO_TRY(role_topology_load(get, arg, &t, err));
    int end = t->role == ROLE_SERVER ? eventfd(0, END_FLAGS) : -1;
    if (t->role == ROLE_SERVER && end < 0) {
        role_topology_free(t);
        return co_err_errno(err, errno, "eventfd");
    }
    struct rt_job *job = co_xcalloc(1, sizeof(*job));
    job->topology = t;
    job->end = end;
    if (end >= 0) {
        co_fork_watch(&job->fork, part);
    }
    job->reporter = psc_reporter_new();
    *ret_job = job;
    return 0;
}

int rt_init(struct rt_job **ret_job, struct co_err *err) {
    co_stdio_open();
    return load_job(NULL, NULL, ret_job, err);
}

static const char *get_from_list(void *arg, const char *name) {
    size_t len = strlen(name);
    for (const char *const *v = arg; *v; v++) {
        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=') {
            return *v + len + 1;
        }
    }
    return NULL;
}

int rt_init_list(const char *const *variables, struct rt_job **ret_job, struct co_err *err) {
    void *arg = (void *)(uintptr_t)variables;
    CO_TRY(load_job(get_from_list, arg, ret_job, err));
    const char *token = get_from_list(arg, co_contract[CO_VAR_JOB_TOKEN].name);
    const char *encrypt = get_from_list(arg, co_contract[CO_VAR_JOB_ENCRYPT].name);
    (*ret_job)->listed = true;
    (*ret_job)->token = co_xstrdup(token ? token : "");
    (*ret_job)->encrypt = encrypt ? co_xstrdup(encrypt) : NULL;
    return 0;
}

void rt_done(struct rt_job *job) {
    if (job) {
        role_topology_free(job->topology);
        co_fork_unwatch(&job->fork);
        co_close(job->end);
        free(job->token);
        free(job->encrypt);
        psc_reporter_free(job->reporter);
        free(job);
    }
}

bool rt_is_server(const struct rt_job *job) {
    return job->topology->role == ROLE_SERVER;
}

bool rt_is_worker(const struct rt_job *job) {
    return job->topology->role == ROLE_WORKER;
}

bool rt_is_first_worker(const struct rt_job *job) {
    return rt_is_worker(job) && job->topology->index == 0;
}

uint32_t rt_worker_index(const struct rt_job *job) {
    return job->topology->index;
}

uint32_t rt_worker_num(const struct rt_job *job) {
    return job->topology->n_workers;
}

uint32_t rt_server_index(const struct rt_job *job) {
    return job->topology->index;
}

uint32_t rt_server_num(const struct rt_job *job) {
    return job->topology->servers.n;
}

const char *rt_server_endpoint(const struct rt_job *job, uint32_t i) {
    return i < job->topology->servers.n ? job->topology->servers.item[i] : NULL;
}

const char *rt_worker_endpoint(const struct rt_job *job, uint32_t i) {
    return i < job->topology->trainers.n ? job->topology->trainers.item[i] : NULL;
}

uint32_t rt_worker_num_named(const struct rt_job *job) {
    const struct role_topology *t = job->topology;
    return t->n_named > t->n_workers ? t->n_named : t->n_workers;
}

uint32_t rt_job_gloo(const struct rt_job *job) {
    const struct role_gloo *gloo = &job->topology->gloo;
    return gloo->servers ? 2 : gloo->workers;
}

const char *rt_job_name(const struct rt_job *job) {
    return job->topology->job;
}

void rt_report(const struct rt_job *job, uint64_t step, const char *name, double value) {
    const struct role_topology *t = job->topology;
    psc_reporter_report(job->reporter, role_name(t->role), t->index, step, name, value);
}

void rt_interrupt(bool (*check)(void)) {
    co_interrupt_set(check);
}

/* ---- server ---- */

/* What is the same for a server of the job and a worker's own one. */
static struct pss_server_config common_config(
    const struct rt_job *job, const struct rt_server_options *o) {
    return (struct pss_server_config){.job = job->topology->job,
        .token = rt_job_token(job),
        .lease_ms = o->lease_ms,
        .start_timeout_ms = o->start_timeout_ms,
        .return_ms = o->return_ms,
        .shards = o->shards,
        .memory_max = o->memory_max,
        .nonfinite = o->nonfinite,
        .cold_dir = o->cold_dir,
        .checkpoint_dir = o->checkpoint_dir,
        .restore_dir = o->checkpoint_dir};
}

/* Waits until the job is over, rt_server_end is called, or one of the blocked signals arrives. */
static int wait_end(const struct rt_job *job, struct pss_server *s, const sigset_t *signals,
    bool handle_signals, struct co_err *err) {
    CO_AUTOCLOSE int fd = handle_signals ? signalfd(-1, signals, SFD_CLOEXEC) : -1;
    struct pollfd fds[] = {{.fd = pss_server_fd(s), .events = POLLIN},
        {.fd = job->end, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int64_t ask_ms = co_interrupt_next();
    /* no deadline: until the job is over, as the server decides: trainers have leases */
    while (poll(fds, 3, ask_ms == INT64_MAX ? -1 : CO_INTERRUPT_MS) <= 0) {
        if (co_interrupted(&ask_ms)) {
            return co_err_set(err, CO_CANCELED, "the server was ended");
        }
    }
    if (fds[0].revents) {
        return pss_server_wait(s, err);
    }
    if (fds[1].revents) {
        return co_err_set(err, CO_CANCELED, "the server was ended");
    }
    struct signalfd_siginfo info = {0};
    /* no wait: a poll has seen it */
    (void)!read(fd, &info, sizeof(info));
    if (pss_server_has_trained(s)) {
        return 0; /* it waited for no more than connections to close */
    }
    return co_err_set(err, CO_CANCELED, "the server was ended by signal %u", info.ssi_signo);
}

bool rt_server_accepts(const struct rt_job *job) {
    return atomic_load(&job->accepts);
}

void rt_server_end(const struct rt_job *job) {
    (void)!write(job->end, &(uint64_t){1}, sizeof(uint64_t));
}

int rt_server_run(
    const struct rt_job *job, const struct rt_server_options *options, struct co_err *err) {
    const struct role_topology *t = job->topology;
    struct rt_server_options o = options ? *options : (struct rt_server_options){0};
    char listen[300];
    net_raise_files(); /* once gRPC has had none for a connection, it never listens again */
    CO_TRY(psc_options_server(&o, err));
    if (t->role != ROLE_SERVER || t->n_workers < 1) {
        return co_err_set(err, CO_INVALID,
            "this process is %s %u of a job with %u workers, expected a server "
            "(TRAINING_ROLE=PSERVER) "
            "and at least one worker",
            role_name(t->role), t->index, t->n_workers);
    }
    const char *endpoint = t->servers.n > t->index ? t->servers.item[t->index] : "";
    CO_TRY(net_listen_address(endpoint, listen, sizeof(listen), err));
    struct pss_server_config config = common_config(job, &o);
    config.listen = listen;
    config.endpoint = endpoint;
    config.index = t->index;
    config.servers = t->servers.n;
    config.endpoints = t->servers.n > 0 ? (const char *const *)t->servers.item : NULL;
    config.trainers = t->n_workers;
    CO_TRY(get_encrypt(job, o.encrypt, &config.encrypt, err));
    sigset_t signals, old;
    sigemptyset(&signals);
    if (o.handle_signals) {
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
    }
    pthread_sigmask(SIG_BLOCK, &signals, &old); /* early: as PID 1 we have no default action */
    struct pss_server *s = NULL;
    bool metered = psc_report_metrics();
    int rc = pss_server_start(&config, &s, err);
    if (rc == 0) {
        atomic_bool *accepts = &((struct rt_job *)(uintptr_t)job)->accepts;
        atomic_store(accepts, true);
        rc = wait_end(job, s, &signals, o.handle_signals, err);
        atomic_store(accepts, false);
    }
    pss_server_stop(s);
    if (metered) {
        meter_close();
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* ---- client ---- */

/* Opens a client for a job without servers.  It starts a server in this process, and connects to it
 * as to any other.  It never encrypts, as nothing leaves the machine. */
static int open_own(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret, struct co_err *err) {
    struct rt_server_options o = {0};
    CO_TRY(psc_options_server(&o, err));
    struct pss_server_config sc = common_config(job, &o);
    sc.listen = "127.0.0.1:0";
    sc.servers = sc.trainers = 1;
    sc.quiet = true;
    struct pss_server *own = NULL;
    CO_TRY(pss_server_start(&sc, &own, err));
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", pss_server_port(own));
    struct psc_client_config config = {.trainers = 1,
        .servers = 1,
        .endpoints = (const char *const[]){endpoint},
        .job = job->topology->job,
        .token = rt_job_token(job)};
    int rc = psc_client_connect(&config, options, specs, n_specs, ret, err);
    if (rc < 0) {
        pss_server_stop(own);
        return rc;
    }
    (*ret)->own = own;
    return 0;
}

static int open_client(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret_client,
    struct co_err *err) {
    const struct role_topology *t = job->topology;
    if (t->role != ROLE_WORKER) {
        return co_err_set(err, CO_INVALID, "this process is %s, no worker", role_name(t->role));
    }
    for (size_t i = 0; i < n_specs; i++) {
        CO_TRY(CO_SPARE_CHECK(&specs[i], "rt_table_spec", err));
    }
    if (t->servers.n == 0 && t->n_workers == 1) {
        return open_own(job, options, specs, n_specs, ret_client, err);
    }
    if (t->servers.n == 0) {
        return co_err_set(err, CO_INVALID,
            "%u workers but no parameter servers: PADDLE_PSERVERS_IP_PORT_LIST is empty",
            t->n_workers);
    }
    net_raise_files();
    struct psc_client_config config = {
        .trainer = t->index,
        .trainers = t->n_workers,
        .servers = t->servers.n,
        .endpoints = (const char *const *)t->servers.item,
        .job = job->topology->job,
        .token = rt_job_token(job),
    };
    enum rt_encrypt said = options ? options->encrypt : RT_ENCRYPT_UNSET;
    CO_TRY(get_encrypt(job, said, &config.encrypt, err));
    ps_log_info("init rpc client with trainer_id %u", t->index);
    CO_TRY(psc_client_connect(&config, options, specs, n_specs, ret_client, err));
    ps_log_info(
        "Communicator start, %u servers, trainer %u of %u", t->servers.n, t->index, t->n_workers);
    return 0;
}

int rt_client_open(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret_client,
    struct co_err *err) {
    bool metered = psc_report_metrics();
    int rc = open_client(job, options, specs, n_specs, ret_client, err);
    if (rc == 0) {
        meter_add(METER_M_STEPS, 0, 0);
        (*ret_client)->metered = metered;
    } else if (metered) {
        meter_close();
    }
    return rc;
}
