/* TLS 1.3 with a pre-shared key, by GnuTLS, with I/O by the caller after the handshake. */
#include "common/tls.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <gnutls/gnutls.h>

#include "common/buf.h"
#include "common/mem.h"

enum {
    WAITING_MAX = 4 << 20,
    SMALL_BYTES = 4 << 10, /* after a larger record many follow: reserve ROOM_BYTES at once */
    ROOM_BYTES = 72 << 10,
    KEPT_BYTES = 16 << 10, /* a larger buffer is freed when nothing waits */
};

/* ECDHE-PSK is a handshake with a pre-shared key and a key exchange.  Only ciphers with SHA-256 are
 * allowed, because a key belongs to one hash. */
static const char priority[] = "NONE:+VERS-TLS1.3:+ECDHE-PSK:+GROUP-X25519:+GROUP-SECP256R1:"
                               "+AES-128-GCM:+CHACHA20-POLY1305:+AEAD:+SHA256:+SIGN-ALL";
static const char identity[] = "job"; /* constant, as there is only one key */

struct co_tls {
    gnutls_session_t session;
    gnutls_psk_client_credentials_t dials; /* one of the two is set */
    gnutls_psk_server_credentials_t accepts;
    unsigned char key[CO_TLS_KEY_BYTES]; /* wiped after the handshake */
    int fd;                              /* during the handshake; then -1 */
    const unsigned char *fed;            /* encrypted bytes to be read */
    size_t fed_bytes;
    struct co_buf waiting; /* encrypted bytes to be sent */
    bool ended;
};

/* ---- callbacks of GnuTLS ---- */

static ssize_t fail_io(struct co_tls *t, int e) {
    gnutls_transport_set_errno(t->session, e);
    return -1;
}

static ssize_t pull(gnutls_transport_ptr_t arg, void *to, size_t size) {
    struct co_tls *t = arg;
    if (t->fd >= 0) {
        ssize_t n = recv(t->fd, to, size, MSG_DONTWAIT);
        return n < 0 ? fail_io(t, errno) : n;
    }
    size_t n = t->fed_bytes < size ? t->fed_bytes : size;
    if (n == 0) {
        return fail_io(t, EAGAIN);
    }
    memcpy(to, t->fed, n);
    t->fed += n;
    t->fed_bytes -= n;
    return (ssize_t)n;
}

static ssize_t push(gnutls_transport_ptr_t arg, const giovec_t *iov, int n) {
    struct co_tls *t = arg;
    if (t->fd >= 0) {
        struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(t->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        return sent < 0 ? fail_io(t, errno) : sent;
    }
    size_t had = t->waiting.len;
    if (n > 0 && iov[n - 1].iov_len > SMALL_BYTES && t->waiting.cap < ROOM_BYTES) {
        (void)!co_buf_reserve(&t->waiting, ROOM_BYTES - had, NULL);
    }
    for (int i = 0; i < n; i++) {
        if (co_buf_add(&t->waiting, iov[i].iov_base, iov[i].iov_len, NULL) < 0) {
            t->waiting.len = had;
            return fail_io(t, ENOBUFS);
        }
    }
    return (ssize_t)(t->waiting.len - had);
}

static int find_key(gnutls_session_t session, const char *name, gnutls_datum_t *ret) {
    const struct co_tls *t = gnutls_session_get_ptr(session);
    ret->data = strcmp(name, identity) == 0 ? gnutls_malloc(sizeof(t->key)) : NULL;
    if (!ret->data) {
        return -1;
    }
    memcpy(ret->data, t->key, sizeof(t->key));
    ret->size = sizeof(t->key);
    return 0;
}

/* ---- life ---- */

static int set_key(struct co_tls *t, bool accepts) {
    const gnutls_datum_t key = {t->key, sizeof(t->key)};
    CO_TRY(accepts ? gnutls_psk_allocate_server_credentials(&t->accepts)
                   : gnutls_psk_allocate_client_credentials(&t->dials));
    if (accepts) {
        gnutls_psk_set_server_credentials_function(t->accepts, find_key);
        return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->accepts);
    }
    CO_TRY(gnutls_psk_set_client_credentials(t->dials, identity, &key, GNUTLS_PSK_KEY_RAW));
    return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->dials);
}

static int open_session(struct co_tls *t, bool accepts) {
    /* No tickets: each connection has keys of its own. */
    CO_TRY(gnutls_init(&t->session, (accepts ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK |
                                        GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS));
    CO_TRY(gnutls_priority_set_direct(t->session, priority, NULL));
    return set_key(t, accepts);
}

int co_tls_new(bool accepts, const unsigned char key[CO_TLS_KEY_BYTES], struct co_tls **ret,
    struct co_err *err) {
    struct co_tls *t = co_xcalloc(1, sizeof(*t));
    memcpy(t->key, key, sizeof(t->key));
    t->fd = -1;
    t->waiting = CO_BUF(WAITING_MAX);
    int rc = open_session(t, accepts);
    if (rc < 0) {
        co_tls_free(t);
        return co_err_set(err, CO_INTERNAL, "cannot start TLS 1.3: %s", gnutls_strerror(rc));
    }
    gnutls_session_set_ptr(t->session, t);
    gnutls_transport_set_ptr(t->session, t);
    gnutls_transport_set_pull_function(t->session, pull);
    gnutls_transport_set_vec_push_function(t->session, push);
    gnutls_handshake_set_timeout(t->session, 0); /* the caller has a deadline */
    *ret = t;
    return 0;
}

static void drop_credentials(struct co_tls *t) {
    if (t->dials) {
        gnutls_psk_free_client_credentials(co_steal_ptr(t->dials));
    }
    if (t->accepts) {
        gnutls_psk_free_server_credentials(co_steal_ptr(t->accepts));
    }
    gnutls_memset(t->key, 0, sizeof(t->key));
}

void co_tls_free(struct co_tls *t) {
    if (t) {
        if (t->session) {
            gnutls_deinit(t->session);
        }
        drop_credentials(t);
        co_buf_done(&t->waiting);
        free(t);
    }
}

/* ---- the handshake ---- */

static int fail_shake(struct co_tls *t, int rc, struct co_err *err) {
    if (rc == GNUTLS_E_PREMATURE_TERMINATION || rc == GNUTLS_E_PULL_ERROR ||
        rc == GNUTLS_E_PUSH_ERROR) {
        return co_err_set(err, CO_PEERLOST, "it hung up in the TLS handshake");
    }
    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        return co_err_set(err, CO_PERMISSION, "it refuses the TLS handshake: %s",
            gnutls_alert_get_name(gnutls_alert_get(t->session)));
    }
    (void)gnutls_alert_send_appropriate(t->session, rc);
    return co_err_set(
        err, CO_PERMISSION, "the TLS handshake is not right: %s", gnutls_strerror(rc));
}

int co_tls_shake(struct co_tls *t, int fd, struct co_err *err) {
    int rc;
    t->fd = fd;
    do {
        rc = gnutls_handshake(t->session);
    } while (rc == GNUTLS_E_INTERRUPTED ||
             (rc < 0 && rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(rc)));
    if (rc < 0 && rc != GNUTLS_E_AGAIN) {
        rc = fail_shake(t, rc, err);
        t->fd = -1;
        return rc;
    }
    t->fd = -1;
    if (rc == 0) {
        drop_credentials(t);
    }
    return rc == 0 ? 1 : 0;
}

/* ---- bytes ---- */

int co_tls_write(struct co_tls *t, const void *bytes, size_t n, struct co_err *err) {
    const unsigned char *p = bytes;
    while (n > 0) {
        ssize_t sent = gnutls_record_send(t->session, p, n);
        if (sent < 0) {
            return co_err_set(err, CO_PEERLOST, "TLS: %s", gnutls_strerror((int)sent));
        }
        p += sent;
        n -= (size_t)sent;
    }
    return 0;
}

void co_tls_end(struct co_tls *t) {
    if (!t->ended) {
        t->ended = true;
        (void)gnutls_bye(t->session, GNUTLS_SHUT_WR);
    }
}

size_t co_tls_waiting(const struct co_tls *t, const char **ret) {
    *ret = t->waiting.data;
    return t->waiting.len;
}

void co_tls_sent(struct co_tls *t, size_t n) {
    co_buf_consume(&t->waiting, n);
    if (t->waiting.len == 0 && t->waiting.cap > KEPT_BYTES) {
        co_buf_done(&t->waiting);
    }
}

void co_tls_feed(struct co_tls *t, const void *bytes, size_t n) {
    t->fed = bytes;
    t->fed_bytes = n;
}

int co_tls_read(struct co_tls *t, void *to, size_t size, size_t *ret_n, struct co_err *err) {
    *ret_n = 0;
    for (;;) {
        ssize_t n = gnutls_record_recv(t->session, to, size);
        bool wait = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
        if (n > 0 || (wait && t->fed_bytes == 0)) {
            *ret_n = n > 0 ? (size_t)n : 0;
            return 0;
        }
        if (n == 0) {
            return co_err_set(err, CO_PEERLOST, "connection closed");
        }
        if (!wait && gnutls_error_is_fatal((int)n)) {
            return co_err_set(err, CO_PEERLOST, "what came was changed on its way (TLS: %s)",
                gnutls_strerror((int)n));
        }
    }
}
