/* Runs one server per port, as `paddle pserver --ports_num` did, until all have finished or a
 * signal comes. */
#include "runtime/legacy/pserver/pserver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/contract.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/legacy/pserver/flags.h"
#include "runtime/legacy/pserver/nics.h"
#include "runtime/train/ps/client/options.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server.h"

struct instances {
    struct pss_server **server; /* owned; NULL once it has ended */
    size_t n, running;
};

static void instances_done(struct instances *all) {
    for (size_t i = 0; i < all->n; i++) {
        pss_server_stop(all->server[i]);
    }
    free(all->server);
}

static int start_one(struct instances *all, const char *host, int64_t port, struct co_err *err) {
    struct rt_server_options o = {.shards = (uint32_t)pserver_options.num_threads};
    char listen[CO_HOST_MAX + 10];
    CO_TRY(psc_options_server(&o, err));
    co_hostport_format(host, (unsigned)port, listen, sizeof(listen));
    struct pss_server_config config = {.listen = listen,
        .trainers = (uint32_t)pserver_options.num_gradient_servers,
        .token = psc_options_token(),
        .lease_ms = o.lease_ms,
        .start_timeout_ms = o.start_timeout_ms,
        .return_ms = o.return_ms,
        .shards = o.shards,
        .memory_max = o.memory_max,
        .cold_dir = o.cold_dir,
        .nonfinite = o.nonfinite};
    CO_TRY(psc_options_encrypt(
        o.encrypt, psc_options_encrypt_text(), config.token, &config.encrypt, err));
    ps_log_info("Starting parameterServer[%zu]", all->n);
    CO_TRY(pss_server_start(&config, &all->server[all->n], err));
    all->n++;
    all->running++;
    return 0;
}

static int start_instances(struct instances *all, struct co_err *err) {
    const struct pserver_options *o = &pserver_options;
    struct pserver_nics nics;
    int64_t ports = o->ports_num + o->ports_num_for_sparse;
    CO_TRY(pserver_nics_find(o->nics, &nics, err));
    if (o->port + ports - 1 > UINT16_MAX) {
        return co_err_set(err, CO_INVALID, "--port is %lld, expected room for %lld ports above it",
            (long long)o->port, (long long)ports);
    }
    ps_log_info("number of parameterServer instances: %lld", (long long)nics.n * ports);
    all->server = co_xcalloc(nics.n * (size_t)ports, sizeof(struct pss_server *));
    for (size_t i = 0; i < nics.n; i++) {
        for (int64_t p = 0; p < ports; p++) {
            CO_TRY(start_one(all, nics.address[i], o->port + p, err));
        }
    }
    for (size_t i = 0; i < all->n; i++) {
        ps_log_info("Waiting parameterServer[%zu]", i);
    }
    return 0;
}

/* Waits until all servers have ended or a signal comes. The first failure is the result; the other
 * servers still end by themselves, because each knows its own trainers. */
static int wait_all(struct instances *all, int signals, int *ret_signal, struct co_err *err) {
    CO_AUTOFREE struct pollfd *fds = co_xcalloc(all->n + 1, sizeof(*fds));
    for (size_t i = 0; i < all->n; i++) {
        fds[i] = (struct pollfd){.fd = pss_server_fd(all->server[i]), .events = POLLIN};
    }
    fds[all->n] = (struct pollfd){.fd = signals, .events = POLLIN};
    int result = 0;
    while (all->running) {
        /* no deadline: until the jobs are over, as their servers decide, or a signal */
        if (poll(fds, all->n + 1, -1) < 0) {
            if (errno == EINTR) {
                continue; /* revents are left from the previous poll */
            }
            return co_err_errno(err, errno, "poll");
        }
        if (fds[all->n].revents) {
            struct signalfd_siginfo info = {0};
            /* no wait: a poll has seen it */
            (void)!read(signals, &info, sizeof(info));
            *ret_signal = (int)info.ssi_signo;
            return co_err_set(err, CO_CANCELED, "ended by signal %d", *ret_signal);
        }
        for (size_t i = 0; i < all->n; i++) {
            if (fds[i].revents) {
                struct co_err one = {0};
                int rc = pss_server_wait(all->server[i], &one);
                if (rc < 0 && result == 0) {
                    result = rc;
                    *err = one;
                }
                fds[i].fd = -1;
                all->running--;
            }
        }
    }
    return result;
}

static bool truthy(const char *name) {
    const char *text = co_contract_getenv_of(name);
    bool on = false;
    return text && co_parse_bool(name, text, &on, NULL) == 0 && on;
}

/* As glog did: INFO goes to a file in the log directory; only warnings and errors go to stderr. */
static int redirect(int *ret_stderr, struct co_err *err) {
    const char *dir = pserver_options.log_dir;
    const char *env = co_contract_getenv_of("GLOG_log_dir");
    dir = *dir ? dir : env && !truthy("GLOG_logtostderr") ? env : "";
    if (!*dir) {
        return 0;
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/paddle_pserver2.INFO", dir);
    (void)mkdir(dir, 0777);
    CO_AUTOCLOSE int fd = -1;
    CO_TRY(co_file_open_log(path, O_APPEND, 0666, &fd, err));
    co_fd_wait(fd);
    *ret_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    (void)dup2(fd, STDERR_FILENO);
    return 0;
}

static int run_instances(int *ret_signal, struct co_err *err) {
    CO_CLEANUP(instances_done) struct instances all = {.n = 0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* before threads: they inherit it */
    CO_AUTOCLOSE int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0) {
        return co_err_errno(err, errno, "signalfd");
    }
    CO_TRY(start_instances(&all, err));
    return wait_all(&all, signals, ret_signal, err);
}

static int run(int argc, char **argv, int *ret_original, int *ret_signal, struct co_err *err) {
    CO_TRY(co_flags_parse_all(
        "paddle-pserver [flags]", pserver_flags, pserver_n_flags, argc, argv, err));
    if (strcmp(pserver_options.rdma_tcp, "tcp") != 0) {
        return co_err_set(
            err, CO_UNSUPPORTED, "--rdma_tcp is \"%.40s\", expected tcp", pserver_options.rdma_tcp);
    }
    CO_TRY(redirect(ret_original, err));
    return run_instances(ret_signal, err);
}

int pserver_run(int argc, char **argv) {
    struct co_err err = {0};
    int signo = 0, original = STDERR_FILENO;
    pserver_argv(argc, argv);
    int rc = run(argc, argv, &original, &signo, &err);
    if (rc == CO_CANCELED && !signo) { /* --help */
        return 0;
    }
    if (rc < 0) {
        ps_log_error("%s", co_err_text(&err));
        if (original != STDERR_FILENO) {
            (void)dprintf(original, "paddle-pserver: %s\n", co_err_text(&err));
        }
    }
    return rc == 0 ? 0
           : signo ? 128 + signo
                   : (rc == CO_INVALID || rc == CO_NOTFOUND || rc == CO_UNSUPPORTED ? 2 : 1);
}
