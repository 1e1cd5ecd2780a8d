/* An etcd, asked over its JSON gateway: one request at a time on one connection, and one watch on
 * another.
 *
 * Knows tokens, transactions, leases and watches; which keys there are, and what to do when
 * something fails, is its owner's business.  Owned by the loop's thread.  Callbacks may free the
 * client. */
#pragma once

#include "common/httpc.h"
#include "common/json.h"

struct rt_etcd_client;

enum rt_etcd_failure {
    RT_ETCD_TROUBLE,   /* may pass: try again */
    RT_ETCD_EXPIRED,   /* what the request was about, a lease, is no more */
    RT_ETCD_FORBIDDEN, /* and will be */
};

struct rt_etcd_client_opts {
    const char *server; /* its name in messages; borrowed, as is user */
    const char *host;
    uint16_t port;
    const struct co_conn_tls *tls; /* NULL: none */
    const char *user;              /* name:password; NULL: no token is needed */
    /* A request of any kind has failed; its `then` does not run. */
    void (*failed)(void *arg, enum rt_etcd_failure how, const struct co_err *err);
    /* The watch tells that something has changed; it has ended. */
    void (*stirred)(void *arg);
    void (*unwatched)(void *arg);
    void *arg; /* also of `then` */
};

typedef void (*rt_etcd_then_fn)(void *arg, const json_t *answer);

struct rt_etcd_client *rt_etcd_client_new(
    struct co_loop *l, const struct rt_etcd_client_opts *opts);
void rt_etcd_client_free(struct rt_etcd_client *c); /* NULL allowed */

bool rt_etcd_client_busy(const struct rt_etcd_client *c); /* with a request */
bool rt_etcd_client_watching(const struct rt_etcd_client *c);
/* Gives up the request and the watch; no callback runs for them. */
void rt_etcd_client_cancel(struct rt_etcd_client *c);

/* A user was given and has no token, or none any more: nothing else will be answered. */
bool rt_etcd_client_lacks_token(const struct rt_etcd_client *c);
/* Not while busy, all of these. */
void rt_etcd_authenticate(struct rt_etcd_client *c, rt_etcd_then_fn then);
/* compare NULL: whatever there is. */
void rt_etcd_transact(
    struct rt_etcd_client *c, json_t *ops_own, json_t *compare_own, rt_etcd_then_fn then);
void rt_etcd_grant(struct rt_etcd_client *c, int64_t seconds, rt_etcd_then_fn then);
void rt_etcd_keep_alive(struct rt_etcd_client *c, const char *lease, rt_etcd_then_fn then);
void rt_etcd_revoke(struct rt_etcd_client *c, const char *lease, rt_etcd_then_fn then);
/* What was answered: the lease (to be freed; NULL: none); it lives on. */
char *rt_etcd_lease_granted(const json_t *answer);
bool rt_etcd_lease_alive(const json_t *answer);

/* All keys that begin with one of the prefixes.  Not while watching. */
void rt_etcd_watch(struct rt_etcd_client *c, const char *const *prefixes, size_t n);
