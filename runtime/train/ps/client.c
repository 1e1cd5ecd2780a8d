#include "runtime/train/ps/client.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/options.h"
#include "runtime/train/ps/say.h"

enum { TICK_MS = 100, LEAVE_MS = 500 };

/* ---- callbacks, on the rpc's thread ---- */

static void on_frame(void *arg, struct rt_stream *stream, struct rt_frame *f_own) {
    struct rt_client *c = arg;
    struct rt_link *l = rt_stream_user(stream);
    pthread_mutex_lock(&c->m);
    l->heard_ms = net_now();
    pthread_mutex_unlock(&c->m);
    if (f_own->head.kind == RT_FRAME_ERROR && f_own->head.seq == 0) {
        struct co_err err = {0};
        rt_frame_error_read(f_own, &err);
        co_err_wrap(&err, "server %u (%s)", l->index, l->endpoint);
        rt_frame_free(f_own);
        pthread_mutex_lock(&c->m);
        struct rt_call *list = rt_client_fail(c, &err);
        pthread_mutex_unlock(&c->m);
        rt_calls_done(list);
        return;
    }
    rt_client_answer(c, l, f_own);
}

/* Ends the hello that waits for it; a link that was up takes the client with it. */
static void on_close(void *arg, struct rt_stream *stream, const struct co_err *why) {
    struct rt_client *c = arg;
    struct rt_link *l = rt_stream_user(stream);
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    if (l->stream == stream && l->state == RT_LINK_HELLO) {
        l->state = RT_LINK_DOWN;
        l->why = *why;
        list = rt_client_end_link(c, l, why);
    } else if (l->stream == stream && l->state == RT_LINK_UP && !c->leaving) {
        struct co_err err = {0};
        co_err_set(&err, CO_PEERLOST, "server %u (%s) lost: %s, last heard %.1f s ago", l->index,
            l->endpoint, why->msg, (double)(net_now() - l->heard_ms) / 1000);
        list = rt_client_fail(c, &err);
    } else if (l->stream == stream && l->state == RT_LINK_UP) {
        list = rt_client_end_link(c, l, why);
    }
    if (l->stream == stream) {
        rt_stream_unref(l->stream);
        l->stream = NULL;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
}

static void ping_link(struct rt_client *c, struct rt_link *l, int64_t now) {
    struct rt_frame *f = NULL;
    l->pinged_ms = now;
    if (rt_frame_new(RT_FRAME_PING, 0, &f, NULL) == 0) {
        (void)!rt_stream_send(l->stream, f, NULL);
    }
    (void)c;
}

static void on_tick(void *arg) {
    struct rt_client *c = arg;
    int64_t now = net_now();
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    /* Stopped ourselves for a while?  Then silence says nothing about the others. */
    bool was_away = c->ticked_ms && now - c->ticked_ms > 20 * TICK_MS;
    c->ticked_ms = now;
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rt_link *l = &c->links[i];
        if (l->state != RT_LINK_UP || !l->stream) {
            continue;
        }
        l->heard_ms = was_away ? now : l->heard_ms;
        if (now - l->pinged_ms >= l->lease_ms / 4) {
            ping_link(c, l, now);
        }
        if (now - l->heard_ms > l->lease_ms && !c->failed.code) {
            struct co_err err = {0};
            co_err_set(&err, CO_PEERLOST, "server %u (%s) lost: no sign of life for %.1f s",
                l->index, l->endpoint, (double)(now - l->heard_ms) / 1000);
            list = rt_client_fail(c, &err);
        }
    }
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
}

static const struct rt_rpc_ops client_ops = {NULL, on_frame, on_close, on_tick};

/* ---- life ---- */

static void client_free(struct rt_client *c) {
    if (c->rpc) {
        rt_rpc_close(c->rpc);
    }
    rt_server_stop(c->own);
    for (uint32_t i = 0; i < c->n_links; i++) {
        free(c->links[i].endpoint);
    }
    for (uint32_t i = 0; i < c->n_tables; i++) {
        rt_exchange_free(&c->exchanges[i]);
    }
    free(c->exchanges);
    free(c->links);
    free(c->base);
    free(c->tables);
    free(c->slots);
    free(c->generation);
    free(c->job);
    free(c->token);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->m);
    free(c);
}

static void init_sync(struct rt_client *c) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&c->m, NULL);
}

static int copy_tables(
    struct rt_client *c, const struct rt_table_spec *specs, size_t n, struct co_err *err) {
    if (n < 1 || n > RT_TABLES_MAX) {
        return co_err_set(err, CO_INVALID, "%zu tables, expected 1 to %d", n, RT_TABLES_MAX);
    }
    c->tables = co_xcalloc(n, sizeof(*c->tables));
    c->exchanges = co_xcalloc(n, sizeof(*c->exchanges));
    for (size_t i = 0; i < n; i++) {
        int rc = rt_table_make(&specs[i], &c->tables[i], err);
        for (size_t k = 0; k < i && rc == 0; k++) {
            if (strcmp(c->tables[k].name, c->tables[i].name) == 0) {
                rc = co_err_set(err, CO_INVALID, "two tables named '%s'", c->tables[i].name);
            }
        }
        if (rc < 0) {
            return rc;
        }
    }
    c->n_tables = (uint32_t)n;
    return 0;
}

static void set_links(struct rt_client *c, const struct rt_client_config *config) {
    c->n_links = config->servers;
    c->links = co_xcalloc(c->n_links, sizeof(*c->links));
    c->base = co_xcalloc((size_t)c->n_links + 1, sizeof(*c->base));
    for (uint32_t i = 0; i < c->n_links; i++) {
        c->links[i] =
            (struct rt_link){.c = c, .index = i, .endpoint = co_xstrdup(config->endpoints[i])};
        c->links[i].queue_end = &c->links[i].queue;
    }
}

int rt_client_connect(const struct rt_client_config *config,
    const struct rt_client_options *options, const struct rt_table_spec *specs, size_t n_specs,
    struct rt_client **ret_client, struct co_err *err) {
    struct rt_client *c = co_xcalloc(1, sizeof(*c));
    c->options = options ? *options : (struct rt_client_options){0};
    c->trainer = config->trainer;
    c->trainers = config->trainers;
    c->job = co_xstrdup(config->job ? config->job : "");
    c->token = co_xstrdup(config->token ? config->token : "");
    c->window = config->window ? config->window : RT_LINK_WINDOW;
    init_sync(c);
    struct rt_rpc_options rpc = {.tick_ms = TICK_MS, .backlog = config->backlog};
    int rc = rt_options_client(&c->options, err);
    rc = rc < 0 ? rc : copy_tables(c, specs, n_specs, err);
    if (rc == 0) {
        set_links(c, config);
        rc = rt_rpc_open(&client_ops, c, &rpc, &c->rpc, err);
    }
    rc = rc < 0 ? rc : rt_client_join(c, err);
    if (rc < 0) {
        rt_client_close(c);
        return rc;
    }
    for (uint32_t i = 0; i < c->n_links; i++) {
        c->base[i + 1] = c->base[i] + c->links[i].shards;
    }
    *ret_client = c;
    return 0;
}

/* Tells the servers why, and lets the message go out: they end the streams. */
static void give_up(struct rt_client *c, const char *why) {
    Rt__Leave l = RT__LEAVE__INIT;
    l.why = (char *)(uintptr_t)why;
    Rt__Control m = RT__CONTROL__INIT;
    m.body_case = RT__CONTROL__BODY_LEAVE;
    m.leave = &l;
    int64_t deadline = net_now() + LEAVE_MS;
    bool open = false, in_time = true;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rt_frame *f = NULL;
        if (c->links[i].state == RT_LINK_UP && c->links[i].stream &&
            rt_control_pack(&m, NULL, &f, NULL) == 0) {
            (void)!rt_stream_send(c->links[i].stream, f, NULL);
        }
    }
    do {
        open = false;
        for (uint32_t i = 0; i < c->n_links; i++) {
            open = open || (c->links[i].state == RT_LINK_UP && c->links[i].stream);
        }
        in_time = !open || rt_client_wait(c, deadline);
    } while (open && in_time);
    pthread_mutex_unlock(&c->m);
}

void rt_client_close(struct rt_client *c) {
    if (!c) {
        return;
    }
    struct co_err err = {0};
    co_err_set(&err, CO_CANCELED, "the client was closed");
    pthread_mutex_lock(&c->m);
    bool finished = c->finished;
    c->leaving = true;
    struct rt_call *list = rt_client_fail(c, &err);
    err = c->failed;
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
    if (!finished) {
        give_up(c, co_err_text(&err));
    }
    client_free(c);
}

int rt_client_table(struct rt_client *c, uint32_t table, enum rt_table_kind kind,
    const struct rt_table **ret, struct co_err *err) {
    if (table >= c->n_tables || c->tables[table].spec.kind != kind) {
        return co_err_set(err, CO_INVALID, "table %u is no %s table of this client", table,
            kind == RT_DENSE ? "dense" : "sparse");
    }
    *ret = &c->tables[table];
    return 0;
}
