/* The address of the API server and our credentials, from kubeconfig files or the in-cluster files.
 *
 * Reading blocks (small files, at start); nothing here opens a connection or runs a program.  Every
 * error names the file, the field and the cause.  Paths in a kubeconfig are relative to that file.
 * Secrets are in struct kube_config only and are never logged.  A config has one owner;
 * kube_client_new takes it. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"

/* A credential plugin (client.authentication.k8s.io/v1 or v1beta1). */
struct kube_exec {
    char *command; /* absolute, or relative with a slash resolved against the file, or in PATH */
    char **args;   /* NULL-terminated, without the command; never NULL */
    char **env;    /* "NAME=value", NULL-terminated, added to our own; never NULL */
    char *api_version;
    char *install_hint; /* or NULL */
    char *cluster_json; /* spec.cluster of KUBERNETES_EXEC_INFO when provideClusterInfo, or NULL */
};

struct kube_config {
    char *source;          /* for messages: "/root/.kube/config: context 'dev'" or "in-cluster" */
    char *server;          /* "https://host:port[/prefix]", no slash at the end */
    char *ns;              /* the context's namespace; "default" when it names none */
    char *ca;              /* PEM text, or NULL: the system's */
    bool insecure;         /* insecure-skip-tls-verify */
    char *tls_server_name; /* or NULL */
    char *proxy_url;       /* or NULL: HTTPS_PROXY and NO_PROXY of the environment decide */
    /* The credentials: any of these, or none (anonymous). */
    char *cert, *key; /* PEM text; both or none */
    char *token;
    char *token_file; /* wins over token; read again when it changes */
    char *username, *password;
    struct kube_exec *exec;
};

struct kube_config_opts {
    const char
        *kubeconfig;     /* --kubeconfig: this one file, which must exist; NULL or "": see load */
    const char *context; /* --context; NULL or "": current-context */
    /* Root of the in-cluster files; NULL: /var/run/secrets/kubernetes.io/serviceaccount. */
    const char *serviceaccount_dir;
};

/* Tries in this order:
 *   1. opts->kubeconfig
 *   2. $KUBECONFIG: a list separated by colons; absent files are skipped; of entries with the same
 *      name the first wins
 *   3. in-cluster: KUBERNETES_SERVICE_HOST is set and there is a token
 *   4. ~/.kube/config
 * CO_NOTFOUND, naming all these places, when there is none; CO_INVALID; CO_UNSUPPORTED
 * (auth-provider). */
CO_MUST_CHECK int kube_config_load(
    const struct kube_config_opts *opts, struct kube_config **ret, struct co_err *err);
void kube_secret_free(char *s);                 /* wipes it; NULL allowed */
void kube_config_free(struct kube_config *cfg); /* wipes the secrets; NULL allowed */
CO_DEFINE_CLEANUP(struct kube_config *, kube_config_free)

/* The pieces of load, for tests and the fuzz target: kubeconfig texts are added in order of
 * precedence, then one context is resolved. */
struct kube_config_set;
/* How the set reads files that a kubeconfig names; NULL: from disk.  A test passes its own. */
typedef int (*kube_config_read_fn)(
    void *arg, const char *path, char **ret_text, size_t *ret_len, struct co_err *err);

struct kube_config_set *kube_config_set_new(kube_config_read_fn read, void *arg);
void kube_config_set_free(struct kube_config_set *set);
CO_DEFINE_CLEANUP(struct kube_config_set *, kube_config_set_free)
/* path names the text in messages and is what relative paths in it start from. */
CO_MUST_CHECK int kube_config_set_add(struct kube_config_set *set, const char *path,
    const char *text, size_t len, struct co_err *err);
CO_MUST_CHECK int kube_config_set_resolve(
    struct kube_config_set *set, const char *context, struct kube_config **ret, struct co_err *err);
