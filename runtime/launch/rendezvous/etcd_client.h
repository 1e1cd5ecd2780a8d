/* A client of etcd's JSON gateway: one request at a time on one connection, and one watch on
 * another.
 *
 * It knows tokens, transactions, leases and watches.  Its owner (etcd.c) knows the keys and decides
 * what to do after a failure.  It belongs to the loop's thread.  Callbacks may free the client. */
#pragma once

#include "common/http/httpc.h"
#include "common/json/json.h"

struct rdzv_etcd_client;

enum rdzv_etcd_failure {
    RDZV_ETCD_TROUBLE,   /* it may pass: try again */
    RDZV_ETCD_EXPIRED,   /* the lease of the request does not exist any more */
    RDZV_ETCD_FORBIDDEN, /* trying again is useless */
};

struct rdzv_etcd_client_opts {
    const char *server; /* its name in messages; borrowed, as is user */
    const char *host;
    uint16_t port;
    const struct co_conn_tls *tls; /* NULL: none */
    const char *user;              /* name:password; NULL: no token is needed */
    /* A request of any kind has failed.  Its `then` does not run. */
    void (*failed)(void *arg, enum rdzv_etcd_failure how, const struct co_err *err);
    /* stirred: the watch has reported a change.  unwatched: the watch has ended. */
    void (*stirred)(void *arg);
    void (*unwatched)(void *arg);
    void *arg; /* of all callbacks, `then` included */
};

typedef void (*rdzv_etcd_then_fn)(void *arg, const json_t *answer);

struct rdzv_etcd_client *rdzv_etcd_client_new(
    struct co_loop *l, const struct rdzv_etcd_client_opts *opts);
void rdzv_etcd_client_free(struct rdzv_etcd_client *c); /* NULL allowed */

bool rdzv_etcd_client_busy(const struct rdzv_etcd_client *c); /* a request is running */
bool rdzv_etcd_client_watching(const struct rdzv_etcd_client *c);
/* Cancels the request and the watch.  No callback runs for them. */
void rdzv_etcd_client_cancel(struct rdzv_etcd_client *c);

/* True when a user was given and there is no valid token: etcd refuses all other requests then. */
bool rdzv_etcd_client_lacks_token(const struct rdzv_etcd_client *c);
/* None of the following requests may be made while the client is busy. */
void rdzv_etcd_authenticate(struct rdzv_etcd_client *c, rdzv_etcd_then_fn then);
/* Runs the operations when the comparison holds; compare NULL: always. */
void rdzv_etcd_transact(
    struct rdzv_etcd_client *c, json_t *ops_own, json_t *compare_own, rdzv_etcd_then_fn then);
void rdzv_etcd_grant(struct rdzv_etcd_client *c, int64_t seconds, rdzv_etcd_then_fn then);
void rdzv_etcd_keep_alive(struct rdzv_etcd_client *c, const char *lease, rdzv_etcd_then_fn then);
void rdzv_etcd_revoke(struct rdzv_etcd_client *c, const char *lease, rdzv_etcd_then_fn then);
/* Read an answer: the ID of the granted lease (the caller frees it; NULL: none), and whether the
 * lease of a keep-alive still lives. */
char *rdzv_etcd_lease_granted(const json_t *answer);
bool rdzv_etcd_lease_alive(const json_t *answer);

/* Watches all keys that begin with one of the prefixes.  Must not be called while watching. */
void rdzv_etcd_watch(struct rdzv_etcd_client *c, const char *const *prefixes, size_t n);
