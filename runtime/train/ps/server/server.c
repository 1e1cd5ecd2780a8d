/* Starts and stops a parameter server, on the caller's thread.  The rpc's thread does the rest
 * (session.c, watch.c); it also starts the shards, when the first hello brings the tables. */
#include "runtime/train/ps/server/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/listen.h"
#include "common/parse.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server_internal.h"
#include "runtime/train/table/rocks.h"

enum { TICK_MS = 50, HELLO_MS = 10000, WINDOW = 64 << 20 };

/* From here on the kernel keeps those who connect. */
static int take_port(struct pss_server *s, struct co_err *err) {
    struct co_hostport hp;
    CO_TRY(net_listen(s->config.listen, &s->listen_fd, err));
    CO_TRY(co_parse_hostport("address", s->config.listen, &hp, err));
    s->port = co_listen_port(s->listen_fd);
    co_hostport_format(hp.host, s->port, s->address, sizeof(s->address));
    return 0;
}

static int accept_trainers(struct pss_server *s, struct co_err *err) {
    int fd = s->listen_fd;
    s->listen_fd = -1;
    CO_TRY(rpc_accept(s->rpc, fd, err));
    if (!s->config.quiet) {
        ps_log_info("Server listening on %s selected port: %u", s->address, s->port);
        if (s->config.encrypt) {
            ps_log_info("connections are encrypted (TLS 1.3)");
        }
    }
    return 0;
}

size_t pss_server_window(const struct pss_server *s) {
    uint64_t share = s->config.memory_max / 8;
    return share > 0 && share < WINDOW ? share : WINDOW;
}

void pss_server_set_list(struct pss_server *s, const char *const *list) {
    s->list = co_xcalloc(s->config.servers, sizeof(char *));
    for (uint32_t i = 0; i < s->config.servers; i++) {
        s->list[i] = co_xstrdup(list[i]);
    }
}

/* The directory is named after the server's index.  A server that learns its index from trainers
 * uses its port instead. */
static int open_cold(struct pss_server *s, struct co_err *err) {
    struct co_hostport at = {0};
    if (!*s->config.cold_dir) {
        return 0;
    }
    CO_TRY(co_parse_hostport("address", s->config.listen, &at, err));
    CO_AUTOFREE char *name = s->config.servers > 0 ? co_xasprintf("server-%u", s->config.index)
                                                   : co_xasprintf("server-at-%u", at.port);
    int rc = table_rocks_open(s->config.cold_dir, name, &s->budget, &s->rocks, err);
    return rc < 0 ? co_err_wrap(err, "%s", co_contract[CO_VAR_PS_COLD_DIR].name) : 0;
}

/* Trainers name directories from the root on. */
static char *directory(const char *dir) {
    return dir && *dir ? co_path_absolute(dir) : co_xstrdup("");
}

CO_DEFINE_CLEANUP(struct pss_server *, pss_server_stop)

int pss_server_start(
    const struct pss_server_config *config, struct pss_server **ret, struct co_err *err) {
    CO_CLEANUP(pss_server_stopp) struct pss_server *s = co_xcalloc(1, sizeof(*s));
    s->config = *config;
    s->budget.max = config->memory_max;
    s->config.listen = co_xstrdup(config->listen);
    s->config.endpoint = co_xstrdup(config->endpoint ? config->endpoint : config->listen);
    s->config.job = co_xstrdup(config->job ? config->job : "");
    s->config.token = co_xstrdup(config->token ? config->token : "");
    s->config.restore_dir = directory(config->restore_dir);
    s->config.checkpoint_dir = directory(config->checkpoint_dir);
    s->config.cold_dir = co_xstrdup(config->cold_dir ? config->cold_dir : "");
    s->config.hello_ms = config->hello_ms ? config->hello_ms : HELLO_MS;
    if (config->endpoints) {
        pss_server_set_list(s, config->endpoints);
    }
    s->incarnation = ps_incarnation();
    pss_members_init(&s->members, config->trainers);
    pss_server_meter_open(s);
    pthread_mutex_init(&s->doors_m, NULL);
    pthread_mutex_init(&s->load_m, NULL);
    s->doors = co_xcalloc(config->trainers, sizeof(*s->doors));
    s->listen_fd = -1;
    s->fd = eventfd(0, EFD_CLOEXEC);
    struct rpc_options options = {.tick_ms = TICK_MS,
        .max_streams = (size_t)config->trainers * 2 + 64,
        .prove_ms = (int)s->config.hello_ms,
        .token = s->config.token,
        .encrypt = s->config.encrypt,
        .window = pss_server_window(s),
        .backlog = config->backlog};
    if (s->fd < 0) {
        return co_err_errno(err, errno, "eventfd");
    }
    CO_TRY(take_port(s, err)); /* who cannot have it changes nothing on disks */
    CO_TRY(pss_server_claim(s, err));
    if (config->restore_dir && *config->restore_dir) {
        CO_TRY(pss_server_find_restored(s, config->restore_dir, err));
    }
    CO_TRY(rpc_open(&pss_session_ops, s, &options, &s->rpc, err));
    CO_TRY(open_cold(s, err));
    CO_TRY(accept_trainers(s, err));
    *ret = co_steal_ptr(s);
    return 0;
}

uint16_t pss_server_port(const struct pss_server *s) {
    return s->port;
}

int pss_server_fd(const struct pss_server *s) {
    return s->fd;
}

int pss_server_wait(struct pss_server *s, struct co_err *err) {
    uint64_t one;
    /* no deadline: until the job is over, as the server decides: trainers have leases */
    while (read(s->fd, &one, sizeof(one)) < 0) {
        if (errno != EINTR) {
            return co_err_errno(err, errno, "cannot wait for the job's end");
        }
    }
    return s->result.code ? co_err_set(err, s->result.code, "%s", s->result.msg) : 0;
}

bool pss_server_has_trained(const struct pss_server *s) {
    return atomic_load(&s->trained);
}

void pss_server_stop(struct pss_server *s) {
    if (!s) {
        return;
    }
    meter_detach(&s->meter);
    atomic_store(&s->stopping, true);
    /* No other thread uses s after this.  The shards must still run: rpc_close waits for streams
     * and frames that they hold. */
    struct co_err held = {0};
    if (rpc_close(s->rpc, &held) < 0) {
        ps_log_warn("while the server stops: %s", held.msg);
    }
    for (uint32_t i = 0; s->shards && i < s->config.shards; i++) {
        shard_stop(s->shards[i]);
    }
    shard_saver_free(s->saver);
    ckpt_claim_drop(s->claim); /* no saver took it */
    table_rocks_close(s->rocks);
    ckpt_chain_close(s->restored);
    free(s->shards);
    pss_members_done(&s->members);
    pthread_mutex_destroy(&s->doors_m);
    pthread_mutex_destroy(&s->load_m);
    free(s->doors);
    free(s->tables);
    for (uint32_t i = 0; s->list && i < s->config.servers; i++) {
        free(s->list[i]);
    }
    free(s->list);
    if (s->fd >= 0) {
        co_close(s->fd);
    }
    if (s->listen_fd >= 0) {
        co_close(s->listen_fd);
    }
    free((char *)(uintptr_t)s->config.listen);
    free((char *)(uintptr_t)s->config.endpoint);
    free((char *)(uintptr_t)s->config.job);
    free((char *)(uintptr_t)s->config.token);
    free((char *)(uintptr_t)s->config.restore_dir);
    free((char *)(uintptr_t)s->config.checkpoint_dir);
    free((char *)(uintptr_t)s->config.cold_dir);
    free(s);
}
