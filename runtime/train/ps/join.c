/* Finding the servers: waits until every one of them has welcomed this trainer. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/say.h"
#include "runtime/train/rpc/knock.h"

enum {
    RETRY_MS = 150, /* between two looks at servers that are not ready */
    CONNECT_MS = 1000,
    PROVE_MS = 5000,
    PRINT_MS = 3000, /* between two prints of the classic lines */
    HELLO_MS = 10000,
};

/* ---- one hello ---- */

static int take_welcome(
    struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err) {
    CO_CLEANUP(rt_control_freep) Rt__Control *m = NULL;
    int rc = rt_control_unpack(a, &m, err);
    if (rc < 0) {
        return rc;
    }
    if (m->body_case != RT__CONTROL__BODY_WELCOME || m->welcome->shards < 1 ||
        m->welcome->shards > 4096) {
        return co_err_set(err, CO_INVALID, "not a welcome");
    }
    struct rt_link *l = &call->c->links[p->server];
    int64_t lease = call->c->options.lease_ms;
    if (m->welcome->lease_ms > 0 && m->welcome->lease_ms < (uint64_t)lease) {
        lease = (int64_t)m->welcome->lease_ms;
    }
    pthread_mutex_lock(&call->c->m);
    l->shards = m->welcome->shards;
    l->lease_ms = lease;
    l->state = RT_LINK_UP;
    call->c->barriers_done = p->server == 0 ? m->welcome->barriers : call->c->barriers_done;
    pthread_mutex_unlock(&call->c->m);
    return 0;
}

static int hello_frame(struct rt_link *l, struct rt_frame **ret, struct co_err *err) {
    const struct rt_client *c = l->c;
    Rt__Table tables[RT_TABLES_MAX], *list[RT_TABLES_MAX];
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct rt_table *t = &c->tables[i];
        rt__table__init(&tables[i]);
        tables[i].name = (char *)(uintptr_t)t->name;
        tables[i].kind = t->spec.kind;
        tables[i].size = t->spec.size;
        tables[i].dim = t->spec.dim;
        tables[i].optimizer = (char *)(uintptr_t)t->optimizer;
        tables[i].init = (char *)(uintptr_t)t->init;
        tables[i].seed = t->spec.seed;
        list[i] = &tables[i];
    }
    Rt__Hello h = RT__HELLO__INIT;
    h.job = c->job;
    h.trainer = c->trainer;
    h.trainers = c->trainers;
    h.server = l->index;
    h.servers = c->n_links;
    h.mode = c->options.mode;
    h.n_tables = c->n_tables;
    h.tables = list;
    CO_AUTOFREE char **endpoints = co_xcalloc(c->n_links, sizeof(char *));
    for (uint32_t i = 0; i < c->n_links; i++) {
        endpoints[i] = c->links[i].endpoint;
    }
    h.n_endpoints = c->n_links;
    h.endpoints = endpoints;
    Rt__Control m = RT__CONTROL__INIT;
    m.body_case = RT__CONTROL__BODY_HELLO;
    m.hello = &h;
    return rt_control_pack(&m, NULL, ret, err);
}

/* On a connection whose two ends have proved themselves; *ret_call is to be waited for. */
static int say_hello(struct rt_link *l, int fd_own, const char *address, struct rt_call **ret_call,
    struct co_err *err) {
    struct rt_client *c = l->c;
    CO_CLEANUP(rt_frame_freep) struct rt_frame *f = NULL;
    int rc = hello_frame(l, &f, err);
    if (rc < 0) {
        co_close(fd_own);
        return rc;
    }
    /* The lock keeps on_close away until the link knows its stream. */
    pthread_mutex_lock(&c->m);
    rc = rt_rpc_adopt(c->rpc, fd_own, address, l, &l->stream, err);
    if (rc == 0) {
        l->state = RT_LINK_HELLO;
        l->heard_ms = l->pinged_ms = net_now();
    }
    pthread_mutex_unlock(&c->m);
    if (rc == 0) {
        struct rt_call *call = rt_call_new(c, "hello", NULL, 1);
        call->take = take_welcome;
        call->harmless = true;
        rt_call_frame(call, 0, l->index, co_steal_ptr(f), 0);
        rt_call_start(call);
        *ret_call = call;
    }
    return rc;
}

/* ---- all of them ---- */

/* Worth another try: nobody there yet, still starting, or our former self not yet given up. */
static bool is_passing(int code) {
    return code == CO_UNAVAILABLE || code == CO_PEERLOST || code == CO_CONFLICT ||
           code == CO_TIMEOUT || code == CO_CANCELED;
}

static uint32_t count_up(struct rt_client *c) {
    uint32_t n = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        n += c->links[i].state == RT_LINK_UP;
    }
    pthread_mutex_unlock(&c->m);
    return n;
}

static void list_missing(struct rt_client *c, struct co_buf *text) {
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (c->links[i].state != RT_LINK_UP) {
            (void)!co_buf_addf(
                text, NULL, "%s'%s'", text->len > 0 ? ", " : "", c->links[i].endpoint);
        }
    }
    pthread_mutex_unlock(&c->m);
}

/* The two lines that Paddle prints, and people look for. */
static void print_missing(struct rt_client *c) {
    CO_AUTOBUF struct co_buf list = CO_BUF(60000);
    list_missing(c, &list);
    CO_AUTOFREE char *text = co_xasprintf("server not ready, wait 3 sec to retry...\n"
                                          "not ready endpoints:[%s]\n",
        list.data ? list.data : "");
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void drop_link(struct rt_link *l, const struct co_err *why) {
    struct rt_client *c = l->c;
    pthread_mutex_lock(&c->m);
    l->why = *why;
    struct rt_stream *stream = co_steal_ptr(l->stream);
    l->state = RT_LINK_DOWN;
    pthread_mutex_unlock(&c->m);
    if (stream) {
        rt_stream_cancel(stream);
        rt_stream_unref(stream);
    }
}

/* Why it is not up, for the log and for the end; *ret is what no waiting helps. */
static void note_failure(struct rt_link *l, const struct co_err *e, struct co_err *ret) {
    if (e->code == CO_CONFLICT && l->why.code != CO_CONFLICT) {
        rt_say_warn("%s; waiting in case that one is this trainer's former life", e->msg);
    }
    drop_link(l, e);
    if (!is_passing(e->code) && ret->code == 0) {
        *ret = *e;
    }
}

static uint32_t list_down(struct rt_client *c, const char **ret_endpoints, uint32_t *ret_which) {
    uint32_t n = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (c->links[i].state != RT_LINK_UP) {
            ret_endpoints[n] = c->links[i].endpoint;
            ret_which[n++] = i;
        }
    }
    pthread_mutex_unlock(&c->m);
    return n;
}

/* One attempt at every server that is reachable and not up: connect (names are the resolver's
 * business, with its search list and hosts file), prove, say hello.  A refusal that no waiting
 * helps is the result. */
static int attempt_join(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE const char **endpoints = co_xcalloc(c->n_links, sizeof(char *));
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_links, sizeof(*which));
    CO_AUTOFREE struct net_reached *reached = co_xcalloc(c->n_links, sizeof(*reached));
    CO_AUTOFREE struct rt_knock *knocks = co_xcalloc(c->n_links, sizeof(*knocks));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_links, sizeof(struct rt_call *));
    uint32_t n = list_down(c, endpoints, which);
    if (net_connect(endpoints, n, CONNECT_MS, reached) == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        knocks[i].fd = reached[i].fd;
    }
    rt_knock_all(knocks, n, c->token, PROVE_MS);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n; i++) {
        struct rt_link *l = &c->links[which[i]];
        struct co_err e = knocks[i].err;
        if (e.code) {
            co_err_wrap(&e, "server %u (%s)", l->index, l->endpoint);
        } else if (knocks[i].fd >= 0) {
            (void)!say_hello(l, knocks[i].fd, reached[i].address, &calls[i], &e);
        }
        if (e.code) {
            note_failure(l, &e, &final);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        struct co_err e = {0};
        if (calls[i] && rt_call_wait(calls[i], HELLO_MS, &e) < 0) {
            note_failure(&c->links[which[i]], &e, &final);
        }
    }
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

static int give_up(struct rt_client *c, struct co_err *err) {
    CO_AUTOBUF struct co_buf list = CO_BUF(400);
    list_missing(c, &list);
    struct co_err why = {0};
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links && !why.code; i++) {
        why = c->links[i].state != RT_LINK_UP ? c->links[i].why : why;
    }
    pthread_mutex_unlock(&c->m);
    return co_err_set(err, CO_TIMEOUT, "servers not ready within %.1f s: [%s]%s%s",
        (double)c->options.start_timeout_ms / 1000, list.data ? list.data : "...",
        why.code ? "; " : "", why.code ? why.msg : "");
}

int rt_client_join(struct rt_client *c, struct co_err *err) {
    int64_t begin = net_now(), printed = begin - PRINT_MS;
    for (;;) {
        int rc = attempt_join(c, err);
        if (rc < 0 || count_up(c) == c->n_links) {
            return rc;
        }
        int64_t now = net_now();
        if (now - begin >= c->options.start_timeout_ms) {
            return give_up(c, err);
        }
        if (now - printed >= PRINT_MS) {
            printed = now;
            print_missing(c);
        }
        /* A server that comes up cannot tell us: look again soon. */
        (void)poll(NULL, 0, RETRY_MS);
    }
}
