#include "runtime/train/ps/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/parse.h"
#include "runtime/train/ps/say.h"
#include "runtime/train/ps/server_internal.h"

enum { TICK_MS = 50, HELLO_MS = 10000 };

static int listen_on(struct rt_server *s, struct co_err *err) {
    int rc = rt_rpc_listen(s->rpc, s->config.listen, &s->port, err);
    if (rc == 0 && !s->config.quiet) {
        struct co_hostport hp;
        char address[CO_HOST_MAX + 10];
        if (co_parse_hostport("address", s->config.listen, &hp, NULL) == 0) {
            co_hostport_format(hp.host, s->port, address, sizeof(address));
            rt_say_info("Server listening on %s selected port: %u", address, s->port);
        }
    }
    return rc;
}

void rt_server_set_list(struct rt_server *s, const char *const *list) {
    s->list = co_xcalloc(s->config.servers, sizeof(char *));
    for (uint32_t i = 0; i < s->config.servers; i++) {
        s->list[i] = co_xstrdup(list[i]);
    }
}

int rt_server_start(
    const struct rt_server_config *config, struct rt_server **ret, struct co_err *err) {
    struct rt_server *s = co_xcalloc(1, sizeof(*s));
    s->config = *config;
    s->budget.max = config->memory_max;
    s->config.listen = co_xstrdup(config->listen);
    s->config.endpoint = co_xstrdup(config->endpoint ? config->endpoint : config->listen);
    s->config.job = co_xstrdup(config->job ? config->job : "");
    s->config.token = co_xstrdup(config->token ? config->token : "");
    s->config.hello_ms = config->hello_ms ? config->hello_ms : HELLO_MS;
    if (config->endpoints) {
        rt_server_set_list(s, config->endpoints);
    }
    rt_members_init(&s->members, config->trainers);
    s->fd = eventfd(0, EFD_CLOEXEC);
    struct rt_rpc_options options = {.tick_ms = TICK_MS,
        .max_streams = (size_t)config->trainers * 2 + 64,
        .prove_ms = (int)s->config.hello_ms,
        .token = s->config.token,
        .backlog = config->backlog};
    int rc = s->fd < 0 ? co_err_errno(err, errno, "eventfd") : 0;
    rc = rc < 0 ? rc : rt_rpc_open(&rt_session_ops, s, &options, &s->rpc, err);
    rc = rc < 0 ? rc : listen_on(s, err);
    if (rc < 0) {
        rt_server_stop(s);
        return rc;
    }
    *ret = s;
    return 0;
}

uint16_t rt_server_port(const struct rt_server *s) {
    return s->port;
}

int rt_server_fd(const struct rt_server *s) {
    return s->fd;
}

int rt_server_wait(struct rt_server *s, struct co_err *err) {
    uint64_t one;
    while (read(s->fd, &one, sizeof(one)) < 0) {
        if (errno != EINTR) {
            return co_err_errno(err, errno, "waiting for the job's end");
        }
    }
    return s->result.code ? co_err_set(err, s->result.code, "%s", s->result.msg) : 0;
}

void rt_server_stop(struct rt_server *s) {
    if (!s) {
        return;
    }
    /* After this nobody else touches s; shards run on until then, as streams are held there. */
    rt_rpc_close(s->rpc);
    for (uint32_t i = 0; s->shards && i < s->config.shards; i++) {
        rt_shard_stop(s->shards[i]);
    }
    free(s->shards);
    rt_members_done(&s->members);
    free(s->tables);
    for (uint32_t i = 0; s->list && i < s->config.servers; i++) {
        free(s->list[i]);
    }
    free(s->list);
    if (s->fd >= 0) {
        co_close(s->fd);
    }
    free((char *)(uintptr_t)s->config.listen);
    free((char *)(uintptr_t)s->config.endpoint);
    free((char *)(uintptr_t)s->config.job);
    free((char *)(uintptr_t)s->config.token);
    free(s);
}
