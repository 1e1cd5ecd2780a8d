/* What a request carries to say who we are: a static token, a token file read again, a name and
 * password, or a credential plugin's answer until it expires.
 * Owned by the loop's thread; nothing here blocks but the reading of a small token file. */
#pragma once

#include "common/loop.h"
#include "operator/kube/config.h"

struct op_kube_cred;

/* cfg is borrowed.  changed runs from the loop when a pending credential has come or failed. */
struct op_kube_cred *op_kube_cred_new(
    struct co_loop *loop, const struct op_kube_config *cfg, void (*changed)(void *arg), void *arg);
void op_kube_cred_free(struct op_kube_cred *c); /* NULL allowed */

struct op_kube_cred_view {
    /* Valid until the next turn. */
    const char *authorization; /* "Authorization: Bearer ..." or NULL */
    const char *cert, *key;    /* of a plugin; or NULL */
    unsigned generation;       /* for reject */
};

/* 0: *ret is good now.  CO_UNAVAILABLE with *ret_pending true: changed will be called.  Else why
 * there is none. */
CO_MUST_CHECK int op_kube_cred_get(
    struct op_kube_cred *c, struct op_kube_cred_view *ret, bool *ret_pending, struct co_err *err);
/* The server said 401 to what get gave: forget it.  False when a new one cannot be had now. */
bool op_kube_cred_reject(struct op_kube_cred *c, unsigned generation);
