/* The credentials of requests: a static token, a token file that is reread, a name and password, or
 * a credential plugin's answer until it expires.
 * Owned by the loop's thread; nothing here blocks except reading a small token file. */
#pragma once

#include "common/loop.h"
#include "operator/kube/config.h"

struct kube_cred;

/* cfg is borrowed.  changed runs from the loop when a pending credential has arrived or failed. */
struct kube_cred *kube_cred_new(
    struct co_loop *loop, const struct kube_config *cfg, void (*changed)(void *arg), void *arg);
void kube_cred_free(struct kube_cred *c); /* NULL allowed */

struct kube_cred_view {
    /* All are valid until the next turn of the loop. */
    const char *authorization; /* "Authorization: Bearer ..." or NULL */
    const char *cert, *key;    /* of a plugin; or NULL */
    unsigned generation;       /* for reject */
};

/* 0: *ret is valid.  CO_UNAVAILABLE with *ret_pending true: changed will be called.  Any other
 * code: there is no credential, err says why. */
CO_MUST_CHECK int kube_cred_get(
    struct kube_cred *c, struct kube_cred_view *ret, bool *ret_pending, struct co_err *err);
/* The server answered 401 to the credential of this generation, so it is dropped.  True: repeat the
 * request, there is or will be a new one.  False: a new one cannot be had now. */
bool kube_cred_reject(struct kube_cred *c, unsigned generation);
