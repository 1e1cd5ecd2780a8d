/* A TCP connection as a state machine on the loop:
 *
 *   LOOKING_UP -> CONNECTING (address by address) -> [SHAKING_HANDS (TLS) ->] UP -> DOWN
 *
 * Every failure ends in DOWN, with the cause in err. */
#include "common/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <gnutls/gnutls.h>

#include "common/buf.h"

enum {
    OUT_MAX = 4 * 1024 * 1024,
    READ_BYTES = 64 * 1024,
    READS_A_TURN = 16,  /* then other events of the loop have their turn */
    ADDRESS_MS = 2000,  /* to connect to one address while there are others to try */
    TRIED_MAX = 8,      /* addresses of a name */
    ACK_MS = 10 * 1000, /* a peer that does not acknowledge data for so long is dead */
    /* The same where no data flows, as while an answer is waited for: probes, in seconds. */
    PROBE_AFTER_S = 5,
    PROBE_EVERY_S = 3,
};

enum conn_state {
    LOOKING_UP,    /* DNS */
    CONNECTING,    /* to addrs[next - 1] */
    SHAKING_HANDS, /* TLS handshake */
    UP,            /* data flows */
    DOWN,          /* ended; `down` has run or is about to */
};

struct co_conn {
    struct co_loop *loop;
    struct co_lookup *lookup;
    struct co_timer *timer; /* due: try the next address, report a failure, or read on */
    struct co_poll *poll;
    int fd;
    enum conn_state state;
    char *host;
    uint16_t port;
    struct sockaddr_storage addrs[TRIED_MAX];
    socklen_t lens[TRIED_MAX];
    size_t n_addrs, next;
    struct co_buf out; /* waits to be sent */
    gnutls_session_t tls;
    gnutls_certificate_credentials_t creds;
    const struct co_conn_fns *fns;
    void *arg;
    struct co_err err; /* of the last address, then of what ended the connection */
    bool busy, closed; /* a callback runs; co_conn_close was called in it */
};

static void try_next(struct co_conn *c);

static void drop_socket(struct co_conn *c) {
    co_poll_free(co_steal_ptr(c->poll));
    if (c->fd >= 0) {
        co_close(c->fd);
        c->fd = -1;
    }
}

static void conn_free(struct co_conn *c) {
    co_lookup_cancel(c->lookup);
    co_timer_free(c->timer);
    drop_socket(c);
    if (c->tls) {
        gnutls_deinit(c->tls);
    }
    if (c->creds) {
        gnutls_certificate_free_credentials(c->creds);
    }
    co_buf_done(&c->out);
    free(c->host);
    free(c);
}

void co_conn_close(struct co_conn *c) {
    if (!c) {
        return;
    }
    c->closed = true;
    if (!c->busy) {
        conn_free(c);
    }
}

int co_conn_close_later(struct co_conn *c) {
    int fd = -1;
    if (c && c->state == UP) {
        co_poll_free(co_steal_ptr(c->poll));
        fd = c->fd;
        c->fd = -1;
        c->state = DOWN;
    }
    co_conn_close(c);
    return fd;
}

/* True when the callback has closed the connection; c is freed then. */
static bool leave_callback(struct co_conn *c) {
    c->busy = false;
    if (c->closed) {
        conn_free(c);
        return true;
    }
    return false;
}

/* Stops everything; nothing is sent or received any more. */
static void take_down(struct co_conn *c) {
    c->state = DOWN;
    co_lookup_cancel(co_steal_ptr(c->lookup));
    drop_socket(c);
    co_timer_stop(c->timer);
}

static void call_down(struct co_conn *c) {
    take_down(c);
    c->busy = true;
    c->fns->down(c->arg, &c->err);
    (void)leave_callback(c);
}

/* ---- bytes ---- */

/* -EPROTO, with the reason in c->err. */
static ssize_t tls_failed(struct co_conn *c, ssize_t n) {
    const char *why = n == GNUTLS_E_FATAL_ALERT_RECEIVED
                          ? gnutls_alert_get_name(gnutls_alert_get(c->tls))
                          : gnutls_strerror((int)n);
    return co_err_set(&c->err, CO_UNAVAILABLE, "TLS with %s: %s", c->host, why) ? -EPROTO : 0;
}

static void io_failed(struct co_conn *c, ssize_t n, const char *doing) {
    if (n != -EPROTO) {
        (void)co_err_errno(&c->err, (int)-n, "%s %s", doing, c->host);
        c->err.code = CO_UNAVAILABLE;
    }
    call_down(c);
}

static ssize_t raw_read(struct co_conn *c, void *data, size_t len) {
    if (!c->tls) {
        /* no wait: the descriptor is non-blocking */
        ssize_t n = recv(c->fd, data, len, 0);
        return n < 0 ? -errno : n;
    }
    ssize_t n = gnutls_record_recv(c->tls, data, len);
    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) {
        return -EAGAIN;
    }
    if (n == GNUTLS_E_PREMATURE_TERMINATION) {
        return 0;
    }
    if (n < 0) {
        return gnutls_error_is_fatal((int)n) ? tls_failed(c, n) : -EAGAIN;
    }
    return n;
}

static ssize_t raw_write(struct co_conn *c, const void *data, size_t len) {
    if (!c->tls) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
        return n < 0 ? -errno : n;
    }
    ssize_t n = gnutls_record_send(c->tls, data, len);
    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) {
        return -EAGAIN;
    }
    return n < 0 ? tls_failed(c, n) : n;
}

static void set_events(struct co_conn *c) {
    co_poll_set(c->poll, CO_POLL_IN | (c->out.len ? CO_POLL_OUT : 0));
}

/* Sends what waits.  False: the connection is down, and c may be freed. */
static bool send_waiting(struct co_conn *c) {
    while (c->out.len) {
        ssize_t n = raw_write(c, c->out.data, c->out.len);
        if (n == -EAGAIN || n == -EINTR) {
            break;
        }
        if (n < 0) {
            io_failed(c, n, "sending to");
            return false;
        }
        co_buf_consume(&c->out, (size_t)n);
    }
    set_events(c);
    return true;
}

static void receive_data(struct co_conn *c) {
    char data[READ_BYTES];
    for (int i = 0; i < READS_A_TURN; i++) {
        ssize_t n = raw_read(c, data, sizeof(data));
        if (n == -EAGAIN || n == -EINTR) {
            return;
        }
        if (n == 0) {
            (void)co_err_set(&c->err, CO_UNAVAILABLE, "%s closed the connection", c->host);
            call_down(c);
            return;
        }
        if (n < 0) {
            io_failed(c, n, "reading from");
            return;
        }
        c->busy = true;
        c->fns->data(c->arg, data, (size_t)n);
        if (leave_callback(c) || c->state == DOWN) {
            return;
        }
    }
    /* TLS may have buffered data, for which the socket does not become readable again. */
    if (c->tls && gnutls_record_check_pending(c->tls)) {
        co_timer_start(c->timer, 0);
    }
}

/* ---- coming up ---- */

static void come_up(struct co_conn *c) {
    c->state = UP;
    co_timer_stop(c->timer);
    c->busy = true;
    c->fns->up(c->arg);
    if (!leave_callback(c) && c->state == UP) {
        (void)send_waiting(c);
    }
}

static void shake_hands(struct co_conn *c) {
    int r = gnutls_handshake(c->tls);
    if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED) {
        co_poll_set(c->poll, gnutls_record_get_direction(c->tls) ? CO_POLL_OUT : CO_POLL_IN);
        return;
    }
    if (r == GNUTLS_E_SUCCESS) {
        come_up(c);
        return;
    }
    if (!gnutls_error_is_fatal(r)) {
        return; /* a warning; the handshake continues */
    }
    gnutls_datum_t why = {0};
    if (r == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
        gnutls_certificate_verification_status_print(
            gnutls_session_get_verify_cert_status(c->tls), GNUTLS_CRT_X509, &why, 0) == 0) {
        (void)co_err_set(&c->err, CO_PERMISSION, "certificate of %s rejected: %s", c->host,
            (const char *)why.data);
        gnutls_free(why.data);
    } else {
        (void)tls_failed(c, r);
    }
    call_down(c);
}

static int start_tls(struct co_conn *c) {
    unsigned char ip[sizeof(struct in6_addr)];
    if (gnutls_init(&c->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_FORCE_CLIENT_CERT) < 0 ||
        gnutls_priority_set_direct(c->tls, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL) <
            0 ||
        gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->creds) < 0) {
        return co_err_set(&c->err, CO_INTERNAL, "cannot start TLS with %s", c->host);
    }
    if (inet_pton(AF_INET, c->host, ip) != 1 && inet_pton(AF_INET6, c->host, ip) != 1) {
        (void)gnutls_server_name_set(c->tls, GNUTLS_NAME_DNS, c->host, strlen(c->host));
    }
    gnutls_session_set_verify_cert(c->tls, c->host, 0);
    gnutls_transport_set_int(c->tls, c->fd);
    return 0;
}

static void on_connected(struct co_conn *c) {
    int failed = 0;
    socklen_t len = sizeof(failed);
    (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failed, &len);
    if (failed) {
        (void)co_err_connect(&c->err, failed, "cannot connect to %s port %u", c->host, c->port);
        c->err.code = CO_UNAVAILABLE;
        try_next(c);
        return;
    }
    co_timer_stop(c->timer);
    if (!c->creds) {
        come_up(c);
        return;
    }
    c->state = SHAKING_HANDS;
    if (start_tls(c)) {
        call_down(c);
        return;
    }
    shake_hands(c);
}

static void on_poll(void *arg, int events) {
    struct co_conn *c = arg;
    if (c->state == CONNECTING) {
        on_connected(c);
    } else if (c->state == SHAKING_HANDS) {
        shake_hands(c);
    } else if (!(events & CO_POLL_OUT) || send_waiting(c)) {
        receive_data(c);
    }
}

/* A peer whose machine or pod is gone closes nothing. */
static void find_dead_peer(int fd) {
    int on = 1, after = PROBE_AFTER_S, every = PROBE_EVERY_S;
    unsigned ack = ACK_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ack, sizeof(ack));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof(after));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int connect_to(struct co_conn *c, const struct sockaddr_storage *addr, socklen_t len) {
    int on = 1;
    c->fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        return errno;
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    find_dead_peer(c->fd);
    /* no wait: the descriptor is non-blocking */
    if (connect(c->fd, (const struct sockaddr *)addr, len) < 0 && errno != EINPROGRESS) {
        return errno;
    }
    return co_poll_new(c->loop, c->fd, on_poll, c, &c->poll, NULL) ? ENOMEM : 0;
}

static void try_next(struct co_conn *c) {
    drop_socket(c);
    co_timer_stop(c->timer); /* the last address has no time limit of its own */
    c->state = CONNECTING;
    while (c->next < c->n_addrs) {
        size_t i = c->next++;
        int failed = connect_to(c, &c->addrs[i], c->lens[i]);
        if (!failed) {
            co_poll_set(c->poll, CO_POLL_OUT);
            if (c->next < c->n_addrs) {
                co_timer_start(c->timer, ADDRESS_MS);
            }
            return;
        }
        (void)co_err_connect(&c->err, failed, "cannot connect to %s port %u", c->host, c->port);
        c->err.code = CO_UNAVAILABLE;
        drop_socket(c);
    }
    call_down(c);
}

static void on_timer(void *arg) {
    struct co_conn *c = arg;
    if (c->state == DOWN) {
        call_down(c);
    } else if (c->state == UP) {
        receive_data(c);
    } else {
        (void)co_err_set(&c->err, CO_UNAVAILABLE, "%s port %u does not answer", c->host, c->port);
        try_next(c);
    }
}

static void on_lookup(void *arg, const struct addrinfo *list, const struct co_err *err) {
    struct co_conn *c = arg;
    c->lookup = NULL;
    c->err = *err;
    for (const struct addrinfo *a = list; a && c->n_addrs < TRIED_MAX; a = a->ai_next) {
        if (a->ai_addrlen <= sizeof(c->addrs[0])) {
            memcpy(&c->addrs[c->n_addrs], a->ai_addr, a->ai_addrlen);
            c->lens[c->n_addrs++] = a->ai_addrlen;
        }
    }
    try_next(c);
}

static int load_tls(struct co_conn *c, const struct co_conn_tls *tls, struct co_err *err) {
    int r = gnutls_certificate_allocate_credentials(&c->creds);
    if (r < 0) {
        return co_err_set(err, CO_NOMEMORY, "TLS: %s", gnutls_strerror(r));
    }
    r = tls->ca_file
            ? gnutls_certificate_set_x509_trust_file(c->creds, tls->ca_file, GNUTLS_X509_FMT_PEM)
            : gnutls_certificate_set_x509_system_trust(c->creds);
    if (r <= 0) {
        return co_err_set(err, CO_INVALID, "no CA certificate in %s%s%s",
            tls->ca_file ? tls->ca_file : "the system's store", r < 0 ? ": " : "",
            r < 0 ? gnutls_strerror(r) : "");
    }
    if (!tls->cert_file && !tls->key_file) {
        return 0;
    }
    const char *cert = tls->cert_file ? tls->cert_file : tls->key_file;
    const char *key = tls->key_file ? tls->key_file : tls->cert_file;
    r = gnutls_certificate_set_x509_key_file(c->creds, cert, key, GNUTLS_X509_FMT_PEM);
    return r < 0 ? co_err_set(err, CO_INVALID, "no certificate in %s with its key in %s: %s", cert,
                       key, gnutls_strerror(r))
                 : 0;
}

int co_conn_open(struct co_loop *l, const char *host, uint16_t port, const struct co_conn_tls *tls,
    const struct co_conn_fns *fns, void *arg, struct co_conn **ret, struct co_err *err) {
    struct co_conn *c = co_xcalloc(1, sizeof(*c));
    c->loop = l;
    c->fd = -1;
    c->host = co_xstrdup(host);
    c->port = port;
    c->out = CO_BUF(OUT_MAX);
    c->fns = fns;
    c->arg = arg;
    int r = tls ? load_tls(c, tls, err) : 0;
    if (r) {
        conn_free(c);
        return r;
    }
    c->timer = co_timer_new(l, on_timer, c);
    c->lookup = co_lookup_start(l, host, port, on_lookup, c);
    *ret = c;
    return 0;
}

void co_conn_send(struct co_conn *c, const void *data, size_t len) {
    if (c->state == DOWN) {
        return;
    }
    if (co_buf_add(&c->out, data, len, NULL)) {
        (void)co_err_set(&c->err, CO_NORESOURCE, "more than %d MiB wait to be sent to %s port %u",
            OUT_MAX >> 20, c->host, c->port);
        take_down(c);
        co_timer_start(c->timer, 0); /* `down` runs after the caller has returned */
        return;
    }
    if (c->state == UP) {
        set_events(c);
    }
}
