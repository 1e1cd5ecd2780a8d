/* The ExecCredential protocol: parses a plugin's output, and writes the input that it gets in its
 * environment.  Pure. */
#include <string.h>

#include "common/json/json.h"
#include "common/parse.h"
#include "operator/kube/exec.h"

void kube_exec_result_done(struct kube_exec_result *r) {
    kube_secret_free(r->token);
    kube_secret_free(r->cert);
    kube_secret_free(r->key);
    *r = (struct kube_exec_result){0};
}

static char *copy_text(const char *s) {
    return s && *s ? co_xstrdup(s) : NULL;
}

/* A string of status; an empty one counts as absent. */
static const char *given_text(const json_t *j, const char *key) {
    const char *s = co_json_str(j, "status", key);
    return s && *s ? s : NULL;
}

int kube_exec_parse(const struct kube_exec *e, const char *text, size_t len,
    struct kube_exec_result *ret, struct co_err *err) {
    CO_AUTOJSON json_t *j = NULL;
    int rc = co_json_parse(text, len, &j, err);
    if (rc) {
        return co_err_wrap(err, "its output");
    }
    const char *version = co_json_str(j, "apiVersion");
    const char *kind = co_json_str(j, "kind");
    if (!co_streq(kind, "ExecCredential") || !co_streq(version, e->api_version)) {
        return co_err_set(err, CO_INVALID, "it printed a %s of %s, expected ExecCredential of %s",
            kind ? kind : "value without kind", version ? version : "no apiVersion",
            e->api_version);
    }
    const char *token = given_text(j, "token");
    const char *cert = given_text(j, "clientCertificateData");
    const char *key = given_text(j, "clientKeyData");
    const char *expires = co_json_str(j, "status", "expirationTimestamp");
    if (!cert != !key) {
        return co_err_set(err, CO_INVALID, "it printed status.%s without status.%s",
            cert ? "clientCertificateData" : "clientKeyData",
            cert ? "clientKeyData" : "clientCertificateData");
    }
    if (!token && !cert) {
        return co_err_set(
            err, CO_INVALID, "it printed neither status.token nor status.clientCertificateData");
    }
    if (token && strpbrk(token, "\r\n")) {
        return co_err_set(err, CO_INVALID, "it printed a status.token with a line break");
    }
    int64_t at = 0;
    rc = expires ? co_parse_time("status.expirationTimestamp", expires, &at, err) : 0;
    if (!rc) {
        *ret = (struct kube_exec_result){copy_text(token), copy_text(cert), copy_text(key), at};
    }
    return rc;
}

char *kube_exec_info(const struct kube_exec *e) {
    CO_AUTOJSON json_t *j = json_object();
    json_t *spec = json_object();
    co_json_set(j, "kind", json_string("ExecCredential"));
    co_json_set(j, "apiVersion", co_json_string(e->api_version));
    if (e->cluster_json) {
        json_t *cluster = NULL;
        if (!co_json_parse(e->cluster_json, strlen(e->cluster_json), &cluster, NULL)) {
            co_json_set(spec, "cluster", cluster);
        }
    }
    co_json_set(spec, "interactive", json_false());
    co_json_set(j, "spec", spec);
    return co_json_dump(j);
}
