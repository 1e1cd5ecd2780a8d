/* Connects a trainer to all servers at its start, and reconnects links that broke later.  greet.c
 * has the messages, muster.c what all welcomes together say.
 *
 *     connect, prove the token (attempt)
 *     hello    ->  identity of this trainer, its tables   <- welcome: the server's identity, step
 *     begin    ->  the step and checkpoint at which this trainer begins
 *
 * The first begin goes out once all servers have sent a welcome: only all welcomes together show
 * where to begin.  The caller's thread joins; the reconnector's thread reconnects. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/interrupt.h"
#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/client/greet.h"
#include "runtime/train/ps/glog.h"

enum {
    RETRY_MS = 150, /* between two attempts at servers that are not ready */
    CONNECT_MS = 1000,
    PROVE_MS = 5000,
    PROVE_AGAIN_MS = 2000, /* shorter, since closing a client waits for this attempt */
    PRINT_MS = 3000,       /* between two prints of Paddle's "server not ready" lines */
    PRINT_NAMES = 64,      /* of a job of 2,000 servers all names are 40 KB */
    HELLO_MS = 10000,
};

int psc_client_left(const struct rt_client *c, int ms) {
    int64_t left = c->join_until_ms - co_now_ms();
    return left > ms ? ms : left > 0 ? (int)left : 0;
}

/* Takes over a connection on which both ends have proved the token, and starts a hello on it.  The
 * caller waits for *ret_call. */
static int say_hello(struct rt_client *c, uint32_t server, const struct net_dial *in,
    const char *address, struct rt_call **ret_call, struct co_err *err) {
    CO_TRY(psc_link_adopt(c, server, in, address, err));
    return psc_greet_hello(c, server, ret_call, err);
}

/* A retry may help: the server is not there yet or still starts, or still has the connection of
 * this trainer's previous process. */
static bool is_passing(int code) {
    return code == CO_UNAVAILABLE || code == CO_PEERLOST || code == CO_CONFLICT ||
           code == CO_TIMEOUT || code == CO_CANCELED;
}

static uint32_t count_missing(struct rt_client *c) {
    return psc_links_in(c, PSC_LINKS_MISSING, NULL);
}

static void list_missing(struct rt_client *c, struct co_buf *text) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    uint32_t n = psc_links_in(c, PSC_LINKS_MISSING, which);
    for (uint32_t i = 0; i < n && i < PRINT_NAMES; i++) {
        (void)!co_buf_addf(text, NULL, "%s'%s'", i > 0 ? ", " : "", psc_link_endpoint(c, which[i]));
    }
    if (n > PRINT_NAMES) {
        (void)!co_buf_addf(text, NULL, ", and %u more", n - PRINT_NAMES);
    }
}

/* Paddle prints these two lines; users search logs for them. */
static void print_missing(struct rt_client *c) {
    CO_AUTOBUF struct co_buf list = CO_BUF(60000);
    list_missing(c, &list);
    CO_AUTOFREE char *text = co_xasprintf("server not ready, wait 3 sec to retry...\n"
                                          "not ready endpoints:[%s]\n",
        list.data ? list.data : "");
    (void)!write(STDERR_FILENO, text, strlen(text));
}

/* The last reason of the first server that is missing, and how many are; none known: 0. */
static uint32_t find_why(struct rt_client *c, struct co_err *ret) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    uint32_t n = psc_links_in(c, PSC_LINKS_MISSING, which);
    for (uint32_t i = 0; i < n; i++) {
        *ret = psc_link_why(c, which[i]);
        if (ret->code) {
            return n;
        }
    }
    return 0;
}

static void warn_missing(struct rt_client *c, int64_t waited_ms) {
    struct co_err why = {0};
    uint32_t n = find_why(c, &why);
    if (n > 0) {
        ps_log_warn("waiting for %u of %u servers for %lld s: %s", n, c->n_servers,
            (long long)(waited_ms / 1000), why.msg);
    }
}

/* Keeps the reason for the log and for the final error.  *ret is set when no retry can help. */
static void note_failure(
    struct rt_client *c, uint32_t server, const struct co_err *e, struct co_err *ret) {
    if (e->code == CO_CONFLICT && !psc_link_is_away(c, server) &&
        psc_link_why(c, server).code != CO_CONFLICT) {
        ps_log_warn("%s; waiting in case it is this trainer's former process", e->msg);
    }
    if (e->code != CO_GONE) {
        psc_link_drop(c, server, e);
    }
    if (!is_passing(e->code) && ret->code == 0) {
        *ret = *e;
    }
}

static void wait_greetings(struct rt_client *c, const uint32_t *which, struct rt_call **calls,
    uint32_t n, struct co_err *ret) {
    for (uint32_t i = 0; i < n; i++) {
        struct co_err e = {0};
        if (calls[i] && psc_call_wait(calls[i], psc_client_left(c, HELLO_MS), &e) < 0) {
            note_failure(c, which[i], &e, ret);
        }
    }
}

static void note_unreached(struct rt_client *c, const uint32_t *which, const char **endpoints,
    struct net_reached *reached, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (reached[i].fd < 0 && reached[i].err.code) {
            co_err_wrap(&reached[i].err, "server %u (%s)", which[i], endpoints[i]);
            psc_link_note(c, which[i], &reached[i].err);
        }
    }
}

/* Makes one attempt at every missing server: connects (the system's resolver finds names, with its
 * search list and hosts file), proves the token and sends hello.  Fails only with an error that no
 * retry can help. */
static int attempt_join(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE const char **endpoints = co_xcalloc(c->n_servers, sizeof(char *));
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    CO_AUTOFREE struct net_reached *reached = co_xcalloc(c->n_servers, sizeof(*reached));
    CO_AUTOFREE struct net_dial *dials = co_xcalloc(c->n_servers, sizeof(*dials));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_servers, sizeof(struct rt_call *));
    uint32_t n = psc_links_in(c, PSC_LINKS_MISSING, which);
    for (uint32_t i = 0; i < n; i++) {
        endpoints[i] = psc_link_endpoint(c, which[i]);
    }
    size_t n_reached = net_connect(endpoints, n, psc_client_left(c, CONNECT_MS), reached);
    note_unreached(c, which, endpoints, reached, n);
    if (n_reached == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        dials[i].fd = reached[i].fd;
        rpc_pass_write(&(struct rpc_pass){.purpose = RPC_FOR_STREAM}, dials[i].hello);
    }
    int prove_ms = psc_links_stage(c) > PSC_JOINING ? PROVE_AGAIN_MS : PROVE_MS;
    net_dial_all(&c->auth, dials, n, co_now_ms() + psc_client_left(c, prove_ms), -1);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n; i++) {
        struct co_err e = dials[i].err;
        if (e.code) {
            co_err_wrap(&e, "server %u (%s)", which[i], endpoints[i]);
        } else if (dials[i].fd >= 0) {
            (void)!say_hello(c, which[i], &dials[i], reached[i].address, &calls[i], &e);
        }
        if (e.code) {
            note_failure(c, which[i], &e, &final);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

/* Opens data lanes, after begin: a shard then counts their frames as this incarnation's. */
static void attempt_lanes(struct rt_client *c, struct co_err *ret_final) {
    CO_AUTOFREE uint32_t *begun = co_xcalloc(c->n_servers, sizeof(*begun));
    CO_AUTOFREE struct co_err *errs = co_xcalloc(c->n_servers, sizeof(*errs));
    uint32_t n = c->reader ? psc_links_in(c, PSC_LINKS_BEGUN, begun) : 0;
    psc_client_open_lanes(c, begun, n, errs);
    for (uint32_t i = 0; i < n; i++) {
        if (errs[i].code) {
            co_err_wrap(
                &errs[i], "data lane to server %u (%s)", begun[i], psc_link_endpoint(c, begun[i]));
            note_failure(c, begun[i], &errs[i], ret_final);
        }
    }
}

/* Sends begin to all servers in state WELCOME, and puts their links in use. */
static int begin_all(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_servers, sizeof(struct rt_call *));
    uint32_t n = psc_links_in(c, PSC_LINKS_WELCOME, which);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n && final.code == 0; i++) {
        (void)!psc_greet_begin(c, which[i], &calls[i], &final);
    }
    wait_greetings(c, which, calls, n, &final);
    attempt_lanes(c, &final);
    for (uint32_t i = 0; i < n; i++) {
        psc_link_raise(c, which[i]);
    }
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

static int give_up(struct rt_client *c, struct co_err *err) {
    CO_AUTOBUF struct co_buf list = CO_BUF(400);
    list_missing(c, &list);
    struct co_err why = {0};
    (void)find_why(c, &why);
    return co_err_set(err, CO_TIMEOUT, "servers not ready within %.1f s: [%s]%s%s",
        (double)c->options.start_timeout_ms / 1000, list.data ? list.data : "...",
        why.code ? "; " : "", why.code ? why.msg : "");
}

/* Sends another hello to doubtful servers, over the existing connections: a server takes a closed
 * one for a lost trainer. */
static int ask_again(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_servers, sizeof(struct rt_call *));
    uint32_t n = psc_muster_doubtful(c, which);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n && final.code == 0; i++) {
        (void)!psc_greet_hello(c, which[i], &calls[i], &final);
    }
    wait_greetings(c, which, calls, n, &final);
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

/* A server was lost before this trainer had begun there, and it has begun at others.  Where the job
 * begins may be another place now, which those must learn, too: leaves them, to join them again.
 * Returns how many. */
static uint32_t leave_begun(struct rt_client *c) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    struct co_err why = {0};
    co_err_set(&why, CO_PEERLOST, "another server was lost while the job began");
    uint32_t n = psc_links_put_down(c, which);
    if (n > 0) {
        psc_links_leave(c, PSC_LINKS_LEFT, why.msg, true);
    }
    for (uint32_t i = 0; i < n; i++) {
        psc_link_drop(c, which[i], &why);
    }
    return n;
}

/* Until all have sent a welcome, none of them before a begin that this trainer has sent since. */
static int greet_all(struct rt_client *c, struct co_err *err) {
    CO_TRY(attempt_join(c, err));
    if (count_missing(c) == 0 && leave_begun(c) > 0) {
        CO_TRY(attempt_join(c, err));
    }
    if (count_missing(c) == 0) {
        return ask_again(c, err);
    }
    return 0;
}

static bool note_joined(struct rt_client *c) {
    for (uint32_t i = 0; i < c->n_servers; i++) {
        c->base[i + 1] = c->base[i] + psc_link_welcomed(c, i).shards;
    }
    bool joined = psc_links_joined(c);
    if (joined) {
        c->progress.lived = c->progress.era;
        psc_saving_joined(c);
    }
    return joined;
}

static int join_until(struct rt_client *c, int64_t until_ms, struct co_err *err) {
    int64_t begun = co_now_ms(), printed = begun - PRINT_MS, warn = PRINT_MS;
    int64_t ask_ms = co_interrupt_next();
    for (;;) {
        CO_TRY(greet_all(c, err));
        if (count_missing(c) == 0) { /* none was lost when it was asked again */
            CO_TRY(psc_muster_choose(c, err));
            CO_TRY(begin_all(c, err));
        }
        if (note_joined(c)) {
            return 0;
        }
        int64_t now = co_now_ms();
        if (now - printed >= PRINT_MS && count_missing(c) > 0) {
            printed = now;
            print_missing(c);
        }
        if (now >= until_ms) {
            return give_up(c, err);
        }
        if (now - begun >= warn && count_missing(c) > 0) {
            warn_missing(c, now - begun);
            warn *= 2;
        }
        if (co_interrupted(&ask_ms)) {
            return co_interrupt_error("connecting to the servers", err);
        }
        /* A server that comes up cannot notify us, so poll. */
        (void)co_interrupt_poll(NULL, 0, co_now_ms() + psc_client_left(c, RETRY_MS), &ask_ms);
    }
}

int psc_client_join(struct rt_client *c, struct co_err *err) {
    c->join_until_ms = co_now_ms() + c->options.start_timeout_ms;
    int rc = join_until(c, c->join_until_ms, err);
    c->join_until_ms = INT64_MAX;
    return rc;
}

/* ---- as a new incarnation ---- */

int psc_client_rejoin(struct rt_client *c, struct co_err *err) {
    struct co_err why = {0};
    co_err_set(&why, CO_GONE, "the job goes back to a checkpoint");
    psc_client_fail(c, &why);
    psc_step_drop(c);
    psc_communicator_clear(c->communicator);
    psc_reconnector_join(c);
    psc_links_leave(c, PSC_LINKS_GREETED, why.msg, true);
    for (uint32_t i = 0; i < c->n_servers; i++) {
        psc_link_drop(c, i, &why);
    }
    psc_links_forget(c);
    c->former = c->incarnation;
    c->incarnation = ps_incarnation();
    (void)psc_client_tear(c, &(struct co_err){0}); /* all tables are those of the checkpoint */
    int rc = psc_client_join(c, err);
    psc_geo_forget(c->geo); /* the steps are the job's now */
    CO_TRY(rc);
    return psc_reconnector_start(c, err);
}

/* ---- reconnecting ---- */

struct psc_reconnector {
    pthread_t thread;
};

static void *run_reconnector(void *client) {
    struct rt_client *c = client;
    int64_t tried_ms = 0;
    while (psc_links_await_broken(c, tried_ms + RETRY_MS)) {
        struct co_err err = {0};
        tried_ms = co_now_ms();
        if (attempt_join(c, &err) < 0 || begin_all(c, &err) < 0) {
            psc_client_fail(c, &err);
        }
    }
    return NULL;
}

int psc_reconnector_start(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE struct psc_reconnector *r = co_xcalloc(1, sizeof(*r));
    int e = co_thread_start(&r->thread, run_reconnector, c);
    c->reconnector = e ? NULL : co_steal_ptr(r);
    return e ? co_err_errno(err, e, "cannot start a thread") : 0;
}

void psc_reconnector_join(struct rt_client *c) {
    if (c->reconnector) {
        /* no deadline: the client has failed, and an attempt to connect has its limits */
        pthread_join(c->reconnector->thread, NULL);
        free(co_steal_ptr(c->reconnector));
    }
}
