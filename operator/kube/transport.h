/* HTTP over libcurl on the loop.  Beside this file only multi.h and endpoint.h use libcurl.
 *
 * There are two pools of connections: one for requests (multiplexed), one for streams (watches), so
 * that a burst of requests never delays a watch.  Knows HTTP and TLS, but not Kubernetes.  Owned by
 * the loop's thread.  Callbacks run from the loop only, never inside a call to this file; a
 * callback may call everything here except kube_transport_free. */
#pragma once

#include "common/loop.h"
#include "operator/kube/config.h"

struct kube_transport;
struct kube_xfer;

struct kube_xfer_result {
    int code;               /* 0: an HTTP answer has arrived, with any status; else none */
    int status;             /* HTTP status; 0: none */
    const char *text;       /* body; NUL-terminated, never NULL; empty for a stream's data */
    size_t len;             /* of text */
    size_t received;        /* body bytes, streamed ones included */
    int64_t retry_after_ms; /* of the header; -1: none */
    const char *warnings;   /* of the headers, one line; never NULL */
    const struct co_err *err;
};

struct kube_xfer_opts {
    const char *method;        /* static */
    const char *path;          /* beginning with a slash, escaped; copied */
    const char *authorization; /* whole header line or NULL; copied */
    const char *accept;        /* copied */
    const char *content_type;  /* or NULL; copied */
    const char *cert, *key;    /* PEM, instead of the config's; copied; or NULL */
    const char *body;          /* or NULL; borrowed until done or kube_xfer_cancel */
    size_t body_len;
    int64_t timeout_ms; /* for the whole transfer; 0: none (streams) */
    int64_t connect_ms; /* for the connection at first; 0: 10 s */
    int64_t silence_ms; /* longest time without a byte; rounded up to seconds; 0: no limit */
    size_t reply_max;
    bool stream; /* use the pool of streams, and pass the body of a 2xx to data */
    void (*data)(void *arg, const char *data, size_t len);
    void (*done)(void *arg, const struct kube_xfer_result *r); /* exactly once; x is gone after */
    void *arg;
};

/* cfg is borrowed and must outlive the transport.  rests: read connections in batches during a
 * burst (multi.h). */
CO_MUST_CHECK int kube_transport_new(struct co_loop *loop, const struct kube_config *cfg,
    const char *user_agent, bool rests, struct kube_transport **ret, struct co_err *err);
void kube_transport_free(struct kube_transport *t); /* after all transfers have ended */
CO_DEFINE_CLEANUP(struct kube_transport *, kube_transport_free)

CO_MUST_CHECK int kube_xfer_start(struct kube_transport *t, struct kube_xfer_opts *opts,
    struct kube_xfer **ret, struct co_err *err);
/* done does not run. NULL allowed. */
void kube_xfer_cancel(struct kube_xfer *x);
/* Frees the spare handles kept for later transfers: about 40 KB each, with their buffers. */
void kube_transport_shrink(struct kube_transport *t);
/* The streams' connection seems dead: new streams do not use it. */
void kube_transport_distrust_streams(struct kube_transport *t);
