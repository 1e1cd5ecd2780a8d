/* Runs a credential plugin, a program that prints an ExecCredential, without blocking the loop.
 *
 * Knows the client.authentication.k8s.io protocol (v1, v1beta1), but nothing of HTTP.  The program
 * gets no terminal; interactiveMode Always is rejected when the config is read.  Owned by the
 * loop's thread. */
#pragma once

#include "common/loop.h"
#include "operator/kube/config.h"

struct kube_exec_result {
    char *token;      /* or NULL; owned */
    char *cert, *key; /* PEM, both or none; owned */
    int64_t expires;  /* seconds since the epoch; 0: none given */
};

void kube_exec_result_done(struct kube_exec_result *r); /* overwrites the secrets */

/* Parses a plugin's output.  Pure.  CO_INVALID. */
CO_MUST_CHECK int kube_exec_parse(const struct kube_exec *e, const char *text, size_t len,
    struct kube_exec_result *ret, struct co_err *err);
/* The value of KUBERNETES_EXEC_INFO for the plugin; the caller frees it. */
char *kube_exec_info(const struct kube_exec *e);

struct kube_exec_run;
/* code 0: the callee may steal strings from result; the rest is freed after the call. */
typedef void (*kube_exec_fn)(
    void *arg, int code, struct kube_exec_result *result, const struct co_err *err);

/* Starts the program; fn runs once, from the loop, within KUBE_EXEC_MS.  e is borrowed.
 * CO_NOTFOUND (with the install hint) when there is no such program. */
enum { KUBE_EXEC_MS = 60 * 1000 };
CO_MUST_CHECK int kube_exec_start(struct co_loop *loop, const struct kube_exec *e, kube_exec_fn fn,
    void *arg, struct kube_exec_run **ret, struct co_err *err);
/* Kills the program; fn does not run; NULL allowed. */
void kube_exec_cancel(struct kube_exec_run *r);
