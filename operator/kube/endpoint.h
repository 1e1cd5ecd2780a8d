/* The API server as libcurl is told of it: its URL, the name that its certificate must have, whom
 * to trust and who we are.  Of a configuration; knows no request. */
#pragma once

#include "operator/kube/config.h"

#include <curl/curl.h>

struct op_kube_endpoint {
    const struct op_kube_config *cfg;
    char *base;               /* scheme://host:port/prefix of URLs */
    char *host_header;        /* with tls-server-name: "Host: ..."; else NULL */
    struct curl_slist *route; /* with tls-server-name: CURLOPT_CONNECT_TO; else NULL */
};

/* cfg is borrowed. */
CO_MUST_CHECK int op_kube_endpoint_init(
    struct op_kube_endpoint *e, const struct op_kube_config *cfg, struct co_err *err);
void op_kube_endpoint_done(struct op_kube_endpoint *e);

/* Sets what of it is not in the URL and the headers.  cert, key: PEM, instead of the
 * configuration's, or NULL; copied. */
void op_kube_endpoint_apply(
    const struct op_kube_endpoint *e, CURL *easy, const char *cert, const char *key);
