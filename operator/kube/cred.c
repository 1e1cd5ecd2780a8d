/* Builds the Authorization header, rereads the token file, and runs the credential plugin. */
#include "operator/kube/cred.h"

#include <string.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/log.h"
#include "operator/kube/exec.h"

enum {
    TOKEN_FILE_MAX = 1 << 20,
    TOKEN_FILE_MS = 30 * 1000, /* kubelet renews tokens well before they expire */
    /* A plugin that fails, or whose credential is rejected, is not run more often than this. */
    EXEC_PAUSE_MS = 5 * 1000,
    EXPIRY_MARGIN_S = 10, /* a plugin's credential is renewed so long before it expires */
};

struct kube_cred {
    struct co_loop *loop;
    const struct kube_config *cfg;
    void (*changed)(void *arg);
    void *arg;
    char *authorization;
    int64_t token_read; /* loop time; 0: never */
    struct kube_exec_run *run;
    char *cert, *key;    /* owned: from the plugin */
    bool have;           /* the plugin's credential is valid */
    unsigned generation; /* counts the plugin's credentials */
    int64_t expires;     /* wall seconds; 0: never */
    int64_t exec_ran;    /* loop time of the plugin's last answer */
    int64_t exec_next;   /* loop time before which the plugin is not run again */
    struct co_err failure;
};

struct kube_cred *kube_cred_new(
    struct co_loop *loop, const struct kube_config *cfg, void (*changed)(void *arg), void *arg) {
    struct kube_cred *c = co_xcalloc(1, sizeof(*c));
    *c = (struct kube_cred){.loop = loop, .cfg = cfg, .changed = changed, .arg = arg};
    return c;
}

void kube_cred_free(struct kube_cred *c) {
    if (!c) {
        return;
    }
    kube_exec_cancel(c->run);
    kube_secret_free(c->cert);
    kube_secret_free(c->key);
    kube_secret_free(c->authorization);
    free(c);
}

static void set_bearer(struct kube_cred *c, const char *token) {
    kube_secret_free(c->authorization);
    c->authorization = token ? co_xasprintf("Authorization: Bearer %s", token) : NULL;
}

static void set_basic(struct kube_cred *c) {
    CO_AUTOFREE char *plain =
        co_xasprintf("%s:%s", c->cfg->username, c->cfg->password ? c->cfg->password : "");
    CO_AUTOFREE char *text = co_base64(plain, strlen(plain));
    c->authorization = co_xasprintf("Authorization: Basic %s", text);
    explicit_bzero(plain, strlen(plain));
    explicit_bzero(text, strlen(text));
}

/* Reads the token file if the token is old.  If it cannot be read, the earlier token stays in use.
 */
static int read_token(struct kube_cred *c, struct co_err *err) {
    int64_t now = co_loop_now(c->loop);
    if (c->authorization && now - c->token_read < TOKEN_FILE_MS) {
        return 0;
    }
    CO_AUTOBUF struct co_buf b = CO_BUF(TOKEN_FILE_MAX);
    struct co_err local = {0};
    int rc = co_file_read(c->cfg->token_file, TOKEN_FILE_MAX, &b, &local);
    while (!rc && b.len && strchr(" \r\n\t", b.data[b.len - 1])) {
        b.data[--b.len] = '\0';
    }
    if (!rc && (!b.len || strpbrk(b.data, " \r\n") || strlen(b.data) != b.len)) {
        rc = co_err_set(&local, CO_INVALID, "%s: not a token", c->cfg->token_file);
    }
    if (!rc) {
        set_bearer(c, b.data);
        explicit_bzero(b.data, b.cap);
    } else if (c->authorization) {
        co_log_warn("token file not read, using the earlier token", CO_E(&local));
    } else {
        return co_err_set(err, rc, "%s", local.msg);
    }
    c->token_read = now;
    return 0;
}

static void on_exec(
    void *arg, int code, struct kube_exec_result *result, const struct co_err *err) {
    struct kube_cred *c = arg;
    c->run = NULL;
    if (code) {
        c->failure = *err;
        c->exec_next = co_loop_now(c->loop) + EXEC_PAUSE_MS;
    } else {
        set_bearer(c, result->token);
        kube_secret_free(c->cert);
        kube_secret_free(c->key);
        c->cert = co_steal_ptr(result->cert);
        c->key = co_steal_ptr(result->key);
        c->have = true;
        c->generation++;
        c->exec_ran = co_loop_now(c->loop);
        c->expires = result->expires;
        c->failure.code = 0;
    }
    c->changed(c->arg);
}

static int ask_plugin(struct kube_cred *c, bool *ret_pending, struct co_err *err) {
    /* A credential is used for EXEC_PAUSE_MS even if it expires sooner: otherwise the plugin would
     * run again and again. */
    if (c->have && (!c->expires || co_wall_seconds() < c->expires - EXPIRY_MARGIN_S ||
                       co_loop_now(c->loop) - c->exec_ran < EXEC_PAUSE_MS)) {
        return 0;
    }
    if (!c->run && co_loop_now(c->loop) < c->exec_next) {
        return co_err_set(err, c->failure.code ? c->failure.code : CO_PERMISSION, "%s",
            c->failure.code ? c->failure.msg
                            : "the API server rejected the credential plugin's credential");
    }
    if (!c->run) {
        int rc = kube_exec_start(c->loop, c->cfg->exec, on_exec, c, &c->run, &c->failure);
        if (rc) {
            c->exec_next = co_loop_now(c->loop) + EXEC_PAUSE_MS;
            return co_err_set(err, rc, "%s", c->failure.msg);
        }
    }
    *ret_pending = true;
    return co_err_set(err, CO_UNAVAILABLE, "waiting for the credential plugin");
}

int kube_cred_get(
    struct kube_cred *c, struct kube_cred_view *ret, bool *ret_pending, struct co_err *err) {
    const struct kube_config *cfg = c->cfg;
    int rc = 0;
    *ret_pending = false;
    if (cfg->token_file) {
        rc = read_token(c, err);
    } else if (cfg->token && !c->authorization) {
        set_bearer(c, cfg->token);
    } else if (cfg->username && !c->authorization) {
        set_basic(c);
    } else if (cfg->exec) {
        rc = ask_plugin(c, ret_pending, err);
    }
    if (!rc) {
        *ret = (struct kube_cred_view){c->authorization, c->cert, c->key, c->generation};
    }
    return rc;
}

bool kube_cred_reject(struct kube_cred *c, unsigned generation) {
    if (c->cfg->token_file) {
        c->token_read = -TOKEN_FILE_MS;
        return true;
    }
    if (!c->cfg->exec) {
        return false;
    }
    if (c->have && generation == c->generation) {
        c->have = false;
        c->exec_next = c->exec_ran + EXEC_PAUSE_MS;
    }
    /* Otherwise a newer one is there already, or its plugin runs. */
    return c->have || c->run || co_loop_now(c->loop) >= c->exec_next;
}
