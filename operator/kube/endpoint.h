/* Translates a configuration to libcurl options: URL, name in the server's certificate, trusted CAs
 * and client certificate.  Knows nothing of requests. */
#pragma once

#include <curl/curl.h>

#include "operator/kube/config.h"

struct kube_endpoint {
    const struct kube_config *cfg;
    char *base;               /* what all URLs begin with: scheme://host:port/prefix */
    char *host_header;        /* with tls-server-name: "Host: ..."; else NULL */
    struct curl_slist *route; /* with tls-server-name: CURLOPT_CONNECT_TO; else NULL */
};

/* cfg is borrowed. */
CO_MUST_CHECK int kube_endpoint_init(
    struct kube_endpoint *e, const struct kube_config *cfg, struct co_err *err);
void kube_endpoint_done(struct kube_endpoint *e);

/* Sets the options of a transfer that are not in its URL or headers.  cert, key: PEM, used instead
 * of the configuration's, or NULL; copied. */
void kube_endpoint_apply(
    const struct kube_endpoint *e, CURL *easy, const char *cert, const char *key);
