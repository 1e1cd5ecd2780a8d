/* An etcd, asked over its JSON gateway: one request at a time on one connection, and one watch on
 * another.
 *
 * Knows tokens, transactions, leases and watches; which keys there are, and what to do when
 * something fails, is its owner's business.  Owned by the loop's thread.  Callbacks may free the
 * client. */
#pragma once

#include "common/httpc.h"
#include "common/json.h"

struct rl_etcd_client;

enum rl_etcd_failure {
    RL_ETCD_TROUBLE,   /* may pass: try again */
    RL_ETCD_EXPIRED,   /* what the request was about, a lease, is no more */
    RL_ETCD_FORBIDDEN, /* and will be */
};

struct rl_etcd_client_opts {
    const char *server; /* its name in messages; borrowed, as is user */
    const char *host;
    uint16_t port;
    const struct co_conn_tls *tls; /* NULL: none */
    const char *user;              /* name:password; NULL: no token is needed */
    /* A request of any kind has failed; its `then` does not run. */
    void (*failed)(void *arg, enum rl_etcd_failure how, const struct co_err *err);
    /* The watch tells that something has changed; it has ended. */
    void (*stirred)(void *arg);
    void (*unwatched)(void *arg);
    void *arg; /* also of `then` */
};

typedef void (*rl_etcd_then_fn)(void *arg, const json_t *answer);

struct rl_etcd_client *rl_etcd_client_new(
    struct co_loop *l, const struct rl_etcd_client_opts *opts);
void rl_etcd_client_free(struct rl_etcd_client *c); /* NULL allowed */

bool rl_etcd_client_busy(const struct rl_etcd_client *c); /* with a request */
bool rl_etcd_client_watching(const struct rl_etcd_client *c);
/* Gives up the request and the watch; no callback runs for them. */
void rl_etcd_client_cancel(struct rl_etcd_client *c);

/* A user was given and has no token, or none any more: nothing else will be answered. */
bool rl_etcd_client_lacks_token(const struct rl_etcd_client *c);
/* Not while busy, all of these. */
void rl_etcd_authenticate(struct rl_etcd_client *c, rl_etcd_then_fn then);
/* compare NULL: whatever there is. */
void rl_etcd_transact(
    struct rl_etcd_client *c, json_t *ops_own, json_t *compare_own, rl_etcd_then_fn then);
void rl_etcd_grant(struct rl_etcd_client *c, int64_t seconds, rl_etcd_then_fn then);
void rl_etcd_keep_alive(struct rl_etcd_client *c, const char *lease, rl_etcd_then_fn then);
void rl_etcd_revoke(struct rl_etcd_client *c, const char *lease, rl_etcd_then_fn then);
/* What was answered: the lease (to be freed; NULL: none); it lives on. */
char *rl_etcd_lease_granted(const json_t *answer);
bool rl_etcd_lease_alive(const json_t *answer);

/* All keys that begin with one of the prefixes.  Not while watching. */
void rl_etcd_watch(struct rl_etcd_client *c, const char *const *prefixes, size_t n);
