/* The endpoint of /metrics: plain, or over TLS for those whom the API server lets read it. */
#pragma once

#include "operator/control/controller.h"

struct opc_exporter_opts {
    const char *addr;
    bool secure;          /* TLS, and a review of the bearer token */
    const char *cert_dir; /* of tls.crt and tls.key, re-read when they change; "": self-signed */
    struct kube_client *client;
    struct ctl_controller *controller;
    struct ctl_metrics *metrics;
};

struct opc_exporter;

/* What opts point to is borrowed for the exporter's life. */
CO_MUST_CHECK int opc_exporter_open(struct co_loop *loop, const struct opc_exporter_opts *opts,
    struct opc_exporter **ret, struct co_err *err);
void opc_exporter_close(struct opc_exporter *x); /* NULL allowed */
