/* The public doors: from the environment to a server or a client. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/train/role/role.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client.h"
#include "runtime/train/ps/client_internal.h"
#include "runtime/train/ps/options.h"
#include "runtime/train/ps/say.h"
#include "runtime/train/ps/server.h"

struct rt_job {
    struct rt_topology *topology;
};

int rt_init(struct rt_job **ret_job, struct co_err *err) {
    struct rt_topology *t = NULL;
    int rc = rt_topology_load(NULL, NULL, &t, err);
    if (rc < 0) {
        return rc;
    }
    struct rt_job *job = co_xcalloc(1, sizeof(*job));
    job->topology = t;
    *ret_job = job;
    return 0;
}

void rt_done(struct rt_job *job) {
    if (job) {
        rt_topology_free(job->topology);
        free(job);
    }
}

bool rt_is_server(const struct rt_job *job) {
    return job->topology->role == RT_ROLE_SERVER;
}

bool rt_is_worker(const struct rt_job *job) {
    return job->topology->role == RT_ROLE_WORKER;
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

uint32_t rt_job_gloo(const struct rt_job *job) {
    const struct rt_gloo *gloo = &job->topology->gloo;
    return gloo->servers ? 2 : gloo->workers;
}

const char *rt_job_name(const struct rt_job *job) {
    return job->topology->job;
}

/* ---- server ---- */

/* What does not depend on whether the server is one of the job's or a worker's own. */
static struct rt_server_config common_config(
    const struct rt_job *job, const struct rt_server_options *o) {
    return (struct rt_server_config){.job = job->topology->job,
        .token = rt_options_token(),
        .lease_ms = o->lease_ms,
        .start_timeout_ms = o->start_timeout_ms,
        .shards = o->shards,
        .memory_max = o->memory_max,
        .nonfinite = o->nonfinite};
}

/* Waits for the job's end or for one of the signals, which are blocked. */
static int wait_signals(struct rt_server *s, const sigset_t *signals, struct co_err *err) {
    CO_AUTOCLOSE int fd = signalfd(-1, signals, SFD_CLOEXEC);
    struct pollfd fds[2] = {
        {.fd = rt_server_fd(s), .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    if (fds[0].revents) {
        return rt_server_wait(s, err);
    }
    struct signalfd_siginfo info = {0};
    (void)!read(fd, &info, sizeof(info));
    return co_err_set(err, CO_CANCELED, "the server was ended by signal %u", info.ssi_signo);
}

/* gRPC never listens again once it has had no descriptor for a connection. */
static void raise_descriptors(void) {
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l);
    }
}

int rt_server_run(
    const struct rt_job *job, const struct rt_server_options *options, struct co_err *err) {
    const struct rt_topology *t = job->topology;
    struct rt_server_options o = options ? *options : (struct rt_server_options){0};
    char listen[300];
    int rc = rt_options_server(&o, err);
    if (rc == 0 && (t->role != RT_ROLE_SERVER || t->n_workers < 1)) {
        rc = co_err_set(err, CO_INVALID, "this process is %s, and there are %u workers",
            rt_role_name(t->role), t->n_workers);
    }
    const char *endpoint = t->servers.n > t->index ? t->servers.item[t->index] : "";
    rc = rc < 0 ? rc : net_listen_address(endpoint, listen, sizeof(listen), err);
    struct rt_server_config config = common_config(job, &o);
    config.listen = listen;
    config.endpoint = endpoint;
    config.index = t->index;
    config.servers = t->servers.n;
    config.endpoints = t->servers.n > 0 ? (const char *const *)t->servers.item : NULL;
    config.trainers = t->n_workers;
    sigset_t signals, old;
    sigemptyset(&signals);
    if (o.handle_signals) {
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
    }
    pthread_sigmask(SIG_BLOCK, &signals, &old); /* from the first moment: PID 1 has no default */
    struct rt_server *s = NULL;
    raise_descriptors();
    rc = rc < 0 ? rc : rt_server_start(&config, &s, err);
    if (rc == 0) {
        rc = o.handle_signals ? wait_signals(s, &signals, err) : rt_server_wait(s, err);
    }
    rt_server_stop(s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* ---- client ---- */

/* Not distributed: a server inside the process, reached like any other. */
static int open_own(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret, struct co_err *err) {
    struct rt_server_options o = {0};
    int rc = rt_options_server(&o, err);
    struct rt_server_config sc = common_config(job, &o);
    sc.listen = "127.0.0.1:0";
    sc.servers = sc.trainers = 1;
    sc.quiet = true;
    struct rt_server *own = NULL;
    rc = rc < 0 ? rc : rt_server_start(&sc, &own, err);
    if (rc < 0) {
        return rc;
    }
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", rt_server_port(own));
    struct rt_client_config config = {.trainers = 1,
        .servers = 1,
        .endpoints = (const char *const[]){endpoint},
        .job = job->topology->job,
        .token = rt_options_token()};
    rc = rt_client_connect(&config, options, specs, n_specs, ret, err);
    if (rc < 0) {
        rt_server_stop(own);
        return rc;
    }
    (*ret)->own = own;
    return 0;
}

int rt_client_open(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret_client,
    struct co_err *err) {
    const struct rt_topology *t = job->topology;
    if (t->role != RT_ROLE_WORKER) {
        return co_err_set(err, CO_INVALID, "this process is %s, no worker", rt_role_name(t->role));
    }
    if (t->servers.n == 0 && t->n_workers == 1) {
        return open_own(job, options, specs, n_specs, ret_client, err);
    }
    if (t->servers.n == 0) {
        return co_err_set(err, CO_INVALID,
            "%u workers but no parameter servers: PADDLE_PSERVERS_IP_PORT_LIST is empty",
            t->n_workers);
    }
    struct rt_client_config config = {
        .trainer = t->index,
        .trainers = t->n_workers,
        .servers = t->servers.n,
        .endpoints = (const char *const *)t->servers.item,
        .job = job->topology->job,
        .token = rt_options_token(),
    };
    rt_say_info("init rpc client with trainer_id %u", t->index);
    int rc = rt_client_connect(&config, options, specs, n_specs, ret_client, err);
    if (rc == 0) {
        rt_say_info("Communicator start, %u servers, trainer %u of %u", t->servers.n, t->index,
            t->n_workers);
    }
    return rc;
}
