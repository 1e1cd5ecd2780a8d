/* The endpoint of /metrics: plain, or over TLS for those whom the API server lets read it. */
#pragma once

#include "operator/control/controller.h"

struct op_exporter_opts {
    const char *addr;
    bool secure;          /* TLS, and a review of the bearer token */
    const char *cert_dir; /* of tls.crt and tls.key, re-read when they change; "": self-signed */
    struct op_kube_client *client;
    struct op_controller *controller;
    struct op_metrics *metrics;
};

struct op_exporter;

/* What opts point to is borrowed for the exporter's life. */
CO_MUST_CHECK int op_exporter_open(struct co_loop *loop, const struct op_exporter_opts *opts,
    struct op_exporter **ret, struct co_err *err);
void op_exporter_close(struct op_exporter *x); /* NULL allowed */
