/* Connections that the front door (runtime/net) lets in or refuses: a data lane goes to its owner,
 * a stream to gRPC.  All but rpc_front_report and rpc_front_peer runs on the front door's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/rpc/pass.h"
#include "runtime/train/rpc/rpc_internal.h"

static void count_refused(struct rpc *r, const struct net_peer *from, const struct co_err *why) {
    pthread_mutex_lock(&r->m);
    r->refused.n++;
    (void)snprintf(r->refused.peer, sizeof(r->refused.peer), "%s", from->text);
    r->refused.why = *why;
    pthread_mutex_unlock(&r->m);
}

static void on_refuse(void *arg, const struct net_peer *from, const unsigned char *caller,
    enum net_refusal refusal, const struct co_err *why) {
    (void)caller;
    (void)refusal;
    count_refused(arg, from, why);
}

/* A lane that the server does not take gets an error frame with the reason, then it is closed. */
static void enter_lane(struct rpc *r, int fd_own, struct co_tls *tls_own,
    const struct net_peer *from, const struct rpc_pass *pass) {
    struct rpc_lane *l = rpc_lane_new(fd_own, tls_own, from->text);
    struct co_err why = {0};
    co_err_set(&why, CO_INVALID, "there are no data lanes here");
    if (!r->ops->on_lane || r->ops->on_lane(r->arg, l, pass, &why) < 0) {
        size_t left = 0;
        (void)!rpc_stream_send(
            rpc_lane_stream(l), rpc_frame_error(NULL, why.code, co_err_text(&why)), NULL);
        (void)!rpc_lane_flush(l, &left, NULL);
        count_refused(r, from, &why);
    }
    rpc_stream_unref(rpc_lane_stream(l));
}

int rpc_front_inner(
    struct rpc *r, int fd_own, struct co_tls *tls_own, int *ret_fd, struct co_err *err) {
    if (tls_own) {
        return rpc_relay_add(r->relay, fd_own, tls_own, ret_fd, err);
    }
    *ret_fd = fd_own;
    return 0;
}

static void enter_stream(
    struct rpc *r, int fd_own, struct co_tls *tls_own, const struct net_peer *from) {
    int fd = -1;
    struct co_err why = {0};
    if (rpc_front_inner(r, fd_own, tls_own, &fd, &why) < 0) {
        count_refused(r, from, &why);
        return;
    }
    /* gRPC names such a connection "fd:12" only; rpc_front_peer() finds the address by that number.
     */
    size_t at = (size_t)fd;
    pthread_mutex_lock(&r->m);
    if (at >= r->n_peers) {
        size_t n = at + at / 2 + 16;
        r->peers = co_xrealloc(r->peers, n, sizeof(r->peers[0]));
        memset(r->peers + r->n_peers, 0, (n - r->n_peers) * sizeof(r->peers[0]));
        r->n_peers = n;
    }
    r->peers[at] = *from;
    pthread_mutex_unlock(&r->m);
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(r->server, fd, creds);
    grpc_server_credentials_release(creds);
}

static enum net_refusal on_look(void *arg, const struct net_pending *p, bool proved,
    unsigned char ret_answer[NET_CALLER_BYTES]) { /* NOLINT(readability-non-const-parameter) */
    struct rpc_pass pass;
    (void)arg;
    (void)proved;
    (void)ret_answer; /* who listens here follows from the address */
    return rpc_pass_read(net_caller_bytes(p->shake.hello), &pass);
}

static void on_enter(void *arg, int fd_own, struct co_tls *tls_own, const struct net_peer *from,
    const unsigned char caller[NET_CALLER_BYTES]) {
    struct rpc *r = arg;
    struct rpc_pass pass;
    (void)rpc_pass_read(caller, &pass); /* on_look has accepted it */
    if (pass.purpose == RPC_FOR_LANE) {
        enter_lane(r, fd_own, tls_own, from, &pass);
    } else {
        enter_stream(r, fd_own, tls_own, from);
    }
}

const struct net_acceptor_ops rpc_front_ops = {on_look, on_enter, on_refuse};

void rpc_front_report(struct rpc *r) {
    char peer[64];
    pthread_mutex_lock(&r->m);
    size_t n = r->refused.n;
    struct co_err why = r->refused.why;
    memcpy(peer, r->refused.peer, sizeof(peer));
    r->refused.n = 0;
    pthread_mutex_unlock(&r->m);
    if (n > 0 && r->ops->on_refused) {
        r->ops->on_refused(r->arg, n, peer, &why);
    }
}

void rpc_front_peer(struct rpc *r, grpc_call *call, struct net_peer *ret) {
    char *text = grpc_call_get_peer(call);
    size_t at = strncmp(text, "fd:", 3) == 0 ? (size_t)strtoul(text + 3, NULL, 10) : SIZE_MAX;
    pthread_mutex_lock(&r->m);
    *ret = at < r->n_peers ? r->peers[at] : (struct net_peer){.text = "a connection"};
    pthread_mutex_unlock(&r->m);
    gpr_free(text);
}
