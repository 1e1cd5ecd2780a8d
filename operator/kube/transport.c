/* HTTP transfers over libcurl, in two pools of connections.
 *
 *   requests: HTTP/2, many transfers share a connection; retired after a timeout
 *   streams:  watches; retired when a watch has received nothing for too long
 *
 * A retired pool takes no new transfers and is freed after its last one. */
#include "operator/kube/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/buf.h"
#include "operator/kube/clock.h"
#include "operator/kube/endpoint.h"
#include "operator/kube/multi.h"
#include "operator/kube/status.h"

enum {
    CONNECT_MS = 10 * 1000,
    /* The next connection gets twice the time, up to 40 s.  Otherwise each TLS handshake with a
     * server that has hardly any processor would be abandoned and begun again. */
    SLOW_MAX = 2,
    /* A connection with unacknowledged data or keep-alives for so long is dead. */
    USER_TIMEOUT_MS = 20 * 1000,
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    STREAMS_A_CONNECTION = 100, /* transfers that share a connection at most */
    SPARE_MAX = 64,
    /* During a burst a connection is read every REST_MS only (bench/measured.md says what that
     * saves).  For requests this needs BURST transfers in flight: a list alone must not wait. */
    REST_MS = 30,
    BURST = 8,
    /* libcurl's minimum.  With its default of 64 KiB for each request in flight, these buffers
     * were most of the operator's heap. */
    UPLOAD_BUFFER = 16 * 1024,
};

/* Connections that are given up together. */
struct pool {
    struct kube_transport *t;
    struct pool *next; /* in t->retired */
    struct kube_multi multi;
    bool streams;                 /* for streams; else for requests */
    size_t active;                /* transfers */
    bool retired;                 /* takes no new transfers; freed after the last one */
    LIST_HEAD(, kube_xfer) fresh; /* streams with data that is not delivered yet */
};

struct kube_transport {
    struct co_loop *loop;
    struct kube_endpoint endpoint;
    char *user_agent;
    int64_t rest_ms; /* see multi.h; used in a burst */
    struct pool *requests, *streams;
    struct pool *retired;
    struct co_timer *reaper; /* frees retired pools, outside of their own callbacks */
    CURL *spare[SPARE_MAX];  /* handles for later transfers */
    size_t n_spare;
    /* The server uses HTTP/1.1, or may do so (on a plain connection it is not known before the
     * first answer).  Then a transfer must not wait to share another one's connection: behind a
     * watch it would wait forever. */
    bool one_each;
    unsigned slow; /* doublings of the time that a connection may take; 0 after any answer */
    char date[64]; /* the last Date header, "Sat, 21 Nov 2026 22:43:57 GMT"; "" at first */
    time_t stamp;  /* the same, parsed; -1: invalid */
};

struct kube_xfer {
    struct pool *pool;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    struct co_buf reply;
    size_t received;
    int64_t connect_ms; /* before doublings */
    int64_t retry_after_ms;
    char *warnings; /* KUBE_WARNINGS_MAX bytes; NULL: none */
    bool stream;
    bool too_big;  /* the answer exceeds reply.max */
    bool is_fresh; /* in pool->fresh */
    LIST_ENTRY(kube_xfer) fresh;
    void (*data)(void *arg, const char *data, size_t len);
    void (*done)(void *arg, const struct kube_xfer_result *r);
    void *arg;
    char curl_error[CURL_ERROR_SIZE];
};

/* ---- a pool ---- */

static void fresh_remove(struct kube_xfer *x) {
    if (x->is_fresh) {
        LIST_REMOVE(x, fresh);
        x->is_fresh = false;
    }
}

static void fresh_add(struct kube_xfer *x) {
    if (!x->is_fresh) {
        LIST_INSERT_HEAD(&x->pool->fresh, x, fresh);
        x->is_fresh = true;
    }
}

static void count_xfer(struct pool *p, int more) {
    p->active += (size_t)more;
    p->multi.rest_ms = p->streams || p->active >= BURST ? p->t->rest_ms : 0;
}

void kube_xfer_cancel(struct kube_xfer *x) {
    if (!x) {
        return;
    }
    struct pool *p = x->pool;
    struct kube_transport *t = p->t;
    fresh_remove(x);
    curl_multi_remove_handle(p->multi.curl, x->easy);
    if (t->n_spare < SPARE_MAX) {
        curl_easy_reset(x->easy);
        t->spare[t->n_spare++] = x->easy;
    } else {
        curl_easy_cleanup(x->easy);
    }
    count_xfer(p, -1);
    if (p->retired && !p->active) {
        co_timer_start(t->reaper, 0);
    }
    curl_slist_free_all(x->headers);
    co_buf_done(&x->reply);
    free(x->warnings);
    free(x->url);
    free(x);
}

static void retire_pool(struct kube_transport *t, struct pool **slot) {
    struct pool *p = *slot;
    if (!p) {
        return;
    }
    *slot = NULL;
    p->retired = true;
    p->next = t->retired;
    t->retired = p;
    co_timer_start(t->reaper, 0);
}

static int translate_code(CURLcode rc, const struct kube_xfer *x) {
    switch (rc) {
    case CURLE_OK:
        return 0;
    case CURLE_OPERATION_TIMEDOUT:
        return CO_TIMEOUT;
    case CURLE_OUT_OF_MEMORY:
        return CO_NOMEMORY;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
        return CO_PERMISSION;
    case CURLE_WRITE_ERROR:
        return x->too_big ? CO_NORESOURCE : CO_UNAVAILABLE;
    default:
        return CO_UNAVAILABLE;
    }
}

static void note_protocol(const struct kube_xfer *x) {
    struct kube_transport *t = x->pool->t;
    long version = 0;
    curl_easy_getinfo(x->easy, CURLINFO_HTTP_VERSION, &version);
    if (version) {
        t->one_each = version < CURL_HTTP_VERSION_2_0;
    }
}

static void note_connection(const struct kube_xfer *x, int code, long status) {
    struct kube_transport *t = x->pool->t;
    curl_off_t ready_us = 0, us = 0;
    curl_easy_getinfo(x->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
    curl_easy_getinfo(x->easy, CURLINFO_TOTAL_TIME_T, &us);
    if (status) {
        t->slow = 0;
    } else if (code == CO_TIMEOUT && !ready_us && us / 1000 >= x->connect_ms << t->slow) {
        t->slow += t->slow < SLOW_MAX; /* once for all that waited for the same connection */
    }
}

static void finish_xfer(struct kube_xfer *x, CURLcode rc) {
    struct kube_transport *t = x->pool->t;
    struct co_err err = {0};
    long status = 0;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    int code = translate_code(rc, x);
    note_protocol(x);
    note_connection(x, code, status);
    if (x->too_big) {
        co_err_set(&err, code, "the answer has more than %zu bytes", x->reply.max);
    } else if (code) {
        const char *detail = x->curl_error[0] ? x->curl_error : curl_easy_strerror(rc);
        co_err_set(&err, code, "%s: %s", t->endpoint.cfg->server, detail);
    }
    /* After a timeout the connection may be dead without our knowing.  Use new ones from now on. */
    if (code == CO_TIMEOUT && !x->stream && x->pool == t->requests) {
        retire_pool(t, &t->requests);
    }
    struct kube_xfer_result r = {
        .code = code,
        .status = (int)status,
        .text = x->reply.data ? x->reply.data : "",
        .len = x->reply.len,
        .received = x->received,
        .retry_after_ms = x->retry_after_ms,
        .warnings = x->warnings ? x->warnings : "",
        .err = &err,
    };
    /* Free x before done runs, which may start the next transfer; the buffers live until after. */
    struct co_buf reply = x->reply;
    x->reply = CO_BUF(0);
    char *warnings = co_steal_ptr(x->warnings);
    void (*done)(void *, const struct kube_xfer_result *) = x->done;
    void *arg = x->arg;
    kube_xfer_cancel(x);
    done(arg, &r);
    co_buf_done(&reply);
    free(warnings);
}

/* Delivers a stream's data.  Runs outside of libcurl's callbacks, so that the stream's owner may
 * start and cancel transfers. */
static void deliver_first(struct kube_xfer *x) {
    fresh_remove(x);
    CO_AUTOBUF struct co_buf bytes = x->reply;
    x->reply = CO_BUF(bytes.max);
    if (bytes.len) {
        x->data(x->arg, bytes.data, bytes.len);
    }
}

/* The body goes to `data`: a stream with a 2xx status.  Other bodies are collected for `done`. */
static bool is_delivering(struct kube_xfer *x) {
    long status = 0;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    return x->stream && status >= 200 && status < 300;
}

static void after_action(void *arg) {
    struct pool *p = arg;
    while (!LIST_EMPTY(&p->fresh)) {
        deliver_first(LIST_FIRST(&p->fresh));
    }
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(p->multi.curl, &left))) {
        if (m->msg == CURLMSG_DONE) {
            struct kube_xfer *x = NULL;
            CURLcode rc = m->data.result;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
            finish_xfer(x, rc);
        }
    }
}

static void pool_free(struct pool *p) {
    if (p) {
        kube_multi_done(&p->multi);
        free(p);
    }
}

static struct pool *pool_new(struct kube_transport *t, bool streams) {
    struct pool *p = co_xcalloc(1, sizeof(*p));
    p->t = t;
    p->streams = streams;
    if (!kube_multi_init(&p->multi, t->loop, STREAMS_A_CONNECTION, after_action, p)) {
        free(p);
        return NULL;
    }
    return p;
}

static void reap_pools(void *arg) {
    struct kube_transport *t = arg;
    for (struct pool **at = &t->retired; *at;) {
        struct pool *p = *at;
        if (p->active) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        pool_free(p);
    }
}

void kube_transport_shrink(struct kube_transport *t) {
    while (t->n_spare) {
        curl_easy_cleanup(t->spare[--t->n_spare]);
    }
}

void kube_transport_distrust_streams(struct kube_transport *t) {
    retire_pool(t, &t->streams);
}

/* ---- the transport ---- */

int kube_transport_new(struct co_loop *loop, const struct kube_config *cfg, const char *user_agent,
    bool rests, struct kube_transport **ret, struct co_err *err) {
    static bool initialised;
    if (!initialised && curl_global_init(CURL_GLOBAL_DEFAULT)) {
        return co_err_set(err, CO_INTERNAL, "cannot initialise libcurl");
    }
    initialised = true;
    CO_CLEANUP(kube_transport_freep) struct kube_transport *t = co_xcalloc(1, sizeof(*t));
    t->loop = loop;
    t->rest_ms = rests ? REST_MS : 0;
    t->one_each = strncmp(cfg->server, "https:", 6) != 0;
    t->user_agent = co_xstrdup(user_agent);
    t->reaper = co_timer_new(loop, reap_pools, t);
    CO_TRY(kube_endpoint_init(&t->endpoint, cfg, err));
    *ret = co_steal_ptr(t);
    return 0;
}

void kube_transport_free(struct kube_transport *t) {
    if (!t) {
        return;
    }
    pool_free(t->requests);
    pool_free(t->streams);
    while (t->retired) {
        struct pool *p = t->retired;
        t->retired = p->next;
        pool_free(p);
    }
    kube_transport_shrink(t);
    co_timer_free(t->reaper);
    kube_endpoint_done(&t->endpoint);
    free(t->user_agent);
    free(t);
}

/* ---- a transfer ---- */

static size_t on_body(char *data, size_t size, size_t n, void *arg) {
    struct kube_xfer *x = arg;
    size_t len = size * n;
    if (co_buf_add(&x->reply, data, len, NULL)) {
        x->too_big = true;
        return 0;
    }
    x->received += len;
    if (is_delivering(x)) {
        fresh_add(x);
    }
    return len;
}

/* The header's value if it has this name (with its colon), else NULL. */
static const char *header_value(const char *data, size_t len, const char *name) {
    size_t n = strlen(name);
    return len > n && !strncasecmp(data, name, n) ? data + n : NULL;
}

/* Parses the Date header.  In a burst many answers have the same one, so the last is cached. */
static void read_date(struct kube_transport *t, const char *value, size_t len) {
    char text[sizeof(t->date)];
    snprintf(text, sizeof(text), "%.*s", (int)len, value);
    if (strcmp(text, t->date) != 0) {
        memcpy(t->date, text, strlen(text) + 1);
        t->stamp = curl_getdate(text, NULL);
    }
    if (t->stamp > 0) {
        kube_clock_observe(t->stamp);
    }
}

static size_t on_header(char *data, size_t size, size_t n, void *arg) {
    struct kube_xfer *x = arg;
    size_t len = size * n;
    const char *value = header_value(data, len, "retry-after:");
    if (value) {
        x->retry_after_ms = kube_retry_header_ms(value, (size_t)(data + len - value));
    }
    value = header_value(data, len, "warning:");
    if (value) {
        x->warnings = x->warnings ? x->warnings : co_xcalloc(1, KUBE_WARNINGS_MAX);
        kube_warnings_add(x->warnings, value, (size_t)(data + len - value));
    }
    value = header_value(data, len, "date:");
    if (value) {
        read_date(x->pool->t, value, (size_t)(data + len - value));
    }
    return len;
}

static int on_new_socket(void *arg, curl_socket_t fd, curlsocktype purpose) {
    (void)arg;
    (void)purpose;
    unsigned ms = USER_TIMEOUT_MS;
    /* Fails only for sockets that are not TCP, where it does not matter. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
    return CURL_SOCKOPT_OK;
}

static void set_connection(CURL *e, struct kube_xfer *x, const struct kube_xfer_opts *opts) {
    const struct kube_transport *t = x->pool->t;
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(e, CURLOPT_PIPEWAIT, t->one_each ? 0L : 1L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    /* Otherwise libcurl would block the loop for the DNS resolver of a canceled transfer. */
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BUFFER);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(x->connect_ms << t->slow));
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)opts->timeout_ms);
    if (opts->silence_ms) { /* costs a timer each second, so watches measure it themselves */
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)((opts->silence_ms + 999) / 1000));
    }
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
    curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_new_socket);
    curl_easy_setopt(e, CURLOPT_PRIVATE, x);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->curl_error);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
}

static int add_header(struct kube_xfer *x, const char *line, struct co_err *err) {
    if (!line) {
        return 0;
    }
    struct curl_slist *longer = curl_slist_append(x->headers, line);
    if (!longer) {
        return co_err_set(err, CO_NOMEMORY, "no memory for a header");
    }
    x->headers = longer;
    return 0;
}

static int set_message(
    CURL *e, struct kube_xfer *x, const struct kube_xfer_opts *opts, struct co_err *err) {
    const struct kube_transport *t = x->pool->t;
    CO_AUTOFREE char *type =
        opts->content_type ? co_xasprintf("Content-Type: %s", opts->content_type) : NULL;
    CO_AUTOFREE char *accept = co_xasprintf("Accept: %s", opts->accept);
    CO_TRY(add_header(x, accept, err));
    CO_TRY(add_header(x, "Expect:", err));
    CO_TRY(add_header(x, type, err));
    CO_TRY(add_header(x, t->endpoint.host_header, err));
    CO_TRY(add_header(x, opts->authorization, err));
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, t->user_agent);
    curl_easy_setopt(e, CURLOPT_URL, x->url);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    if (opts->body) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)opts->body_len);
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, opts->body);
    }
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, opts->method);
    return 0;
}

static struct pool *pool_for(struct kube_transport *t, bool stream) {
    struct pool **slot = stream ? &t->streams : &t->requests;
    if (!*slot) {
        *slot = pool_new(t, stream);
    }
    return *slot;
}

int kube_xfer_start(struct kube_transport *t, struct kube_xfer_opts *opts, struct kube_xfer **ret,
    struct co_err *err) {
    struct pool *pool = pool_for(t, opts->stream);
    CURL *easy = t->n_spare ? t->spare[--t->n_spare] : curl_easy_init();
    if (!pool || !easy) {
        curl_easy_cleanup(easy);
        return co_err_set(err, CO_NOMEMORY, "no memory for a transfer");
    }
    struct kube_xfer *x = co_xcalloc(1, sizeof(*x));
    *x = (struct kube_xfer){
        .pool = pool,
        .easy = easy,
        .url = co_xasprintf("%s%s", t->endpoint.base, opts->path),
        .reply = CO_BUF(opts->reply_max),
        .connect_ms = opts->connect_ms ? opts->connect_ms : CONNECT_MS,
        .retry_after_ms = -1,
        .stream = opts->stream,
        .data = opts->data,
        .done = opts->done,
        .arg = opts->arg,
    };
    count_xfer(pool, 1);
    set_connection(easy, x, opts);
    kube_endpoint_apply(&t->endpoint, easy, opts->cert, opts->key);
    int rc = set_message(easy, x, opts, err);
    if (!rc && curl_multi_add_handle(pool->multi.curl, easy)) {
        rc = co_err_set(err, CO_INTERNAL, "libcurl rejected a transfer");
    }
    if (rc) {
        kube_xfer_cancel(x);
        return rc;
    }
    *ret = x;
    return 0;
}
