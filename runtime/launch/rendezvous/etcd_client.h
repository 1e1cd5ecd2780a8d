/* A client of etcd's JSON gateway: one request at a time on one connection, and one watch on
 * another.
 *
 * It knows tokens, transactions, leases and watches.  Its owner (etcd.c) knows the keys and decides
 * what to do after a failure.  It belongs to the loop's thread.  Callbacks may free the client. */
#pragma once

#include "common/httpc.h"
#include "common/json.h"

struct rl_etcd_client;

enum rl_etcd_failure {
    RL_ETCD_TROUBLE,   /* it may pass: try again */
    RL_ETCD_EXPIRED,   /* the lease of the request does not exist any more */
    RL_ETCD_FORBIDDEN, /* trying again is useless */
};

struct rl_etcd_client_opts {
    const char *server; /* its name in messages; borrowed, as is user */
    const char *host;
    uint16_t port;
    const struct co_conn_tls *tls; /* NULL: none */
    const char *user;              /* name:password; NULL: no token is needed */
    /* A request of any kind has failed.  Its `then` does not run. */
    void (*failed)(void *arg, enum rl_etcd_failure how, const struct co_err *err);
    /* stirred: the watch has reported a change.  unwatched: the watch has ended. */
    void (*stirred)(void *arg);
    void (*unwatched)(void *arg);
    void *arg; /* of all callbacks, `then` included */
};

typedef void (*rl_etcd_then_fn)(void *arg, const json_t *answer);

struct rl_etcd_client *rl_etcd_client_new(
    struct co_loop *l, const struct rl_etcd_client_opts *opts);
void rl_etcd_client_free(struct rl_etcd_client *c); /* NULL allowed */

bool rl_etcd_client_busy(const struct rl_etcd_client *c); /* a request is under way */
bool rl_etcd_client_watching(const struct rl_etcd_client *c);
/* Cancels the request and the watch.  No callback runs for them. */
void rl_etcd_client_cancel(struct rl_etcd_client *c);

/* True when a user was given and there is no valid token: etcd refuses all other requests then. */
bool rl_etcd_client_lacks_token(const struct rl_etcd_client *c);
/* None of the following requests may be made while the client is busy. */
void rl_etcd_authenticate(struct rl_etcd_client *c, rl_etcd_then_fn then);
/* Runs the operations when the comparison holds; compare NULL: always. */
void rl_etcd_transact(
    struct rl_etcd_client *c, json_t *ops_own, json_t *compare_own, rl_etcd_then_fn then);
void rl_etcd_grant(struct rl_etcd_client *c, int64_t seconds, rl_etcd_then_fn then);
void rl_etcd_keep_alive(struct rl_etcd_client *c, const char *lease, rl_etcd_then_fn then);
void rl_etcd_revoke(struct rl_etcd_client *c, const char *lease, rl_etcd_then_fn then);
/* Read an answer: the ID of the granted lease (the caller frees it; NULL: none), and whether the
 * lease of a keep-alive still lives. */
char *rl_etcd_lease_granted(const json_t *answer);
bool rl_etcd_lease_alive(const json_t *answer);

/* Watches all keys that begin with one of the prefixes.  Must not be called while watching. */
void rl_etcd_watch(struct rl_etcd_client *c, const char *const *prefixes, size_t n);
