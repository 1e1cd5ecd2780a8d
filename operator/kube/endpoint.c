/* TLS and routing options for libcurl, from a configuration. */
#include "operator/kube/endpoint.h"

#include <stdint.h>
#include <string.h>

#include "common/mem.h"

/* libcurl verifies the name in the URL.  So with tls-server-name the URL has that name, CONNECT_TO
 * routes the connection to the server, and the Host header remains that of the server. */
int kube_endpoint_init(struct kube_endpoint *e, const struct kube_config *cfg, struct co_err *err) {
    *e = (struct kube_endpoint){.cfg = cfg};
    if (!cfg->tls_server_name || strncmp(cfg->server, "https://", 8) != 0) {
        e->base = co_xstrdup(cfg->server);
        return 0;
    }
    const char *authority = cfg->server + 8;
    size_t n = strcspn(authority, "/");
    const char *prefix = authority + n;
    CO_AUTOFREE char *host = co_xstrndup(authority, n);
    char *bracket = strrchr(host, ']');
    char *colon = strrchr(bracket ? bracket : host, ':');
    CO_AUTOFREE char *port = co_xstrdup(colon ? colon + 1 : "443");
    e->host_header = co_xasprintf("Host: %s", host);
    if (colon) {
        *colon = '\0';
    }
    CO_AUTOFREE char *route = co_xasprintf("%s:%s:%s:%s", cfg->tls_server_name, port, host, port);
    e->route = curl_slist_append(NULL, route);
    e->base = co_xasprintf("https://%s:%s%s", cfg->tls_server_name, port, prefix);
    return e->route ? 0 : co_err_set(err, CO_NOMEMORY, "no memory for a route");
}

void kube_endpoint_done(struct kube_endpoint *e) {
    curl_slist_free_all(e->route);
    free(e->base);
    free(e->host_header);
    *e = (struct kube_endpoint){0};
}

/* own: used instead of pem, and copied.  pem is the configuration's, which outlives all transfers,
 * so libcurl need not copy it. */
static void set_blob(CURL *easy, CURLoption option, const char *own, const char *pem) {
    pem = own ? own : pem;
    if (pem) {
        struct curl_blob blob = {.data = (void *)(uintptr_t)pem,
            .len = strlen(pem),
            .flags = own ? CURL_BLOB_COPY : CURL_BLOB_NOCOPY};
        curl_easy_setopt(easy, option, &blob);
    }
}

void kube_endpoint_apply(
    const struct kube_endpoint *e, CURL *easy, const char *cert, const char *key) {
    const struct kube_config *cfg = e->cfg;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, cfg->insecure ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, cfg->insecure ? 0L : 2L);
    if (cfg->ca) { /* CAPATH NULL: else libcurl would trust the system's CAs as well */
        set_blob(easy, CURLOPT_CAINFO_BLOB, NULL, cfg->ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        set_blob(easy, CURLOPT_PROXY_CAINFO_BLOB, NULL, cfg->ca);
        curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, NULL);
    }
    if (cert || cfg->cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
        curl_easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
        set_blob(easy, CURLOPT_SSLCERT_BLOB, cert, cfg->cert);
        set_blob(easy, CURLOPT_SSLKEY_BLOB, cert ? key : NULL, cfg->key);
    }
    if (cfg->proxy_url) {
        curl_easy_setopt(easy, CURLOPT_PROXY, cfg->proxy_url);
    }
    if (e->route) {
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, e->route);
    }
}
