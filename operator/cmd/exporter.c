/* Serves /metrics. With --metrics-secure it re-reads its certificate when the files change, and
 * asks the API server whether the bearer of a token may read. */
#include "operator/cmd/exporter.h"

#include "common/cert.h"
#include "common/http/httpd.h"
#include "common/log.h"
#include "operator/control/access.h"

enum { TEXT_MAX = 4 << 20, PEM_MAX = 1 << 20, REREAD_MS = 3000 };

struct opc_exporter {
    struct opc_exporter_opts opts;
    struct co_httpd *httpd;
    struct ctl_access *access; /* NULL: whoever asks may read */
    struct co_timer *reread;   /* NULL: there are no files */
    uint64_t seen;             /* hash of the pair read last; 0: it could not be read */
};

static void serve_metrics(void *arg, struct co_http_req *req) {
    const struct opc_exporter *x = arg;
    CO_AUTOBUF struct co_buf text = CO_BUF(TEXT_MAX);
    struct co_err err = {0};
    ctl_controller_gauges(x->opts.controller);
    if (ctl_metrics_render(x->opts.metrics, &text, &err)) {
        co_http_replyf(req, 500, "%s\n", co_err_text(&err));
        return;
    }
    co_http_reply(req, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
}

static void metrics_asked(void *arg, struct co_http_req *req) {
    struct opc_exporter *x = arg;
    if (x->access) {
        ctl_access_check(x->access, req, serve_metrics, x);
    } else {
        serve_metrics(x, req);
    }
}

static const struct co_http_route routes[] = {{"GET", "/metrics", metrics_asked}};

/* ---- certificates ----------------------------------------------------------------------- */

static int read_pem(const char *dir, const char *name, struct co_buf *ret, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    return co_file_read(path, PEM_MAX, ret, err);
}

static int read_pair(const char *dir, struct co_buf *cert, struct co_buf *key, uint64_t *ret_hash,
    struct co_err *err) {
    CO_TRY(read_pem(dir, "tls.crt", cert, err));
    CO_TRY(read_pem(dir, "tls.key", key, err));
    *ret_hash = co_hash(cert->data, cert->len) ^ co_hash(key->data, key->len) * 31;
    return 0;
}

/* A Secret's files are replaced one after the other for whoever reads between: what does not fit is
 * tried again with the next change. */
static void reread_cert(void *arg) {
    struct opc_exporter *x = arg;
    CO_AUTOBUF struct co_buf cert = CO_BUF(PEM_MAX);
    CO_AUTOBUF struct co_buf key = CO_BUF(PEM_MAX);
    struct co_err err = {0};
    uint64_t hash = 0;
    co_timer_start(x->reread, REREAD_MS);
    int r = read_pair(x->opts.cert_dir, &cert, &key, &hash, &err);
    if (hash == x->seen) {
        return;
    }
    x->seen = hash;
    if (r || co_httpd_secure(x->httpd, cert.data, key.data, &err)) {
        co_log_warn("metrics certificate not renewed, still using the old one",
            CO_S("path", x->opts.cert_dir), CO_E(&err));
    } else {
        co_log_info("metrics certificate renewed", CO_S("path", x->opts.cert_dir));
    }
}

static int open_secure(struct co_loop *loop, struct opc_exporter *x, struct co_err *err) {
    CO_AUTOFREE char *own_cert = NULL;
    CO_AUTOFREE char *own_key = NULL;
    CO_AUTOBUF struct co_buf cert = CO_BUF(PEM_MAX);
    CO_AUTOBUF struct co_buf key = CO_BUF(PEM_MAX);
    bool files = *x->opts.cert_dir;
    int r = files ? read_pair(x->opts.cert_dir, &cert, &key, &x->seen, err)
                  : co_cert_self_signed("paddle-operator", &own_cert, &own_key, err);
    if (r) {
        return co_err_wrap(err, "certificate of metrics");
    }
    x->access = ctl_access_new(x->opts.client);
    struct co_httpd_options options = {
        .cert = files ? cert.data : own_cert, .key = files ? key.data : own_key};
    CO_TRY(co_httpd_open(
        loop, x->opts.addr, routes, CO_ARRAY_LEN(routes), x, &options, &x->httpd, err));
    if (files) {
        x->reread = co_timer_new(loop, reread_cert, x);
        co_timer_start(x->reread, REREAD_MS);
    }
    return 0;
}

int opc_exporter_open(struct co_loop *loop, const struct opc_exporter_opts *opts,
    struct opc_exporter **ret, struct co_err *err) {
    struct opc_exporter *x = co_xcalloc(1, sizeof(*x));
    x->opts = *opts;
    int r = opts->secure ? open_secure(loop, x, err)
                         : co_httpd_open(loop, opts->addr, routes, CO_ARRAY_LEN(routes), x, NULL,
                               &x->httpd, err);
    if (r) {
        opc_exporter_close(x);
        return co_err_wrap(err, "metrics");
    }
    *ret = x;
    return 0;
}

void opc_exporter_close(struct opc_exporter *x) {
    if (x) {
        co_timer_free(x->reread);
        co_httpd_close(x->httpd);
        ctl_access_free(x->access);
        free(x);
    }
}
