/* libcurl's sockets and timer on the loop, with batched reads in bursts. */
#include "operator/kube/multi.h"

#include "common/log.h"
#include "common/mem.h"

static void act_on_socket(struct kube_multi *m, curl_socket_t fd, int mask) {
    int running;
    curl_multi_socket_action(m->curl, fd, mask, &running);
    m->acted(m->arg);
}

static void on_timer(void *arg) {
    act_on_socket(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int timer_changed(CURLM *curl, long timeout_ms, void *arg) {
    (void)curl;
    struct kube_multi *m = arg;
    if (timeout_ms < 0) {
        co_timer_stop(m->timer);
    } else {
        co_timer_start(m->timer, timeout_ms);
    }
    return 0;
}

/* A socket of libcurl. */
struct sock {
    struct kube_multi *multi;
    struct co_poll *poll;
    struct co_timer *rest; /* while armed, the socket is not polled for reading */
    int64_t read_ms;       /* monotonic ms of the last read; 0: never */
    curl_socket_t fd;
    int wanted; /* CO_POLL_* that libcurl asks for */
};

static void sock_poll(struct sock *s) {
    int now = co_timer_armed(s->rest) ? s->wanted & ~CO_POLL_IN : s->wanted;
    co_poll_set(s->poll, now);
}

static void on_rested(void *arg) {
    sock_poll(arg);
}

/* The socket is being read.  A second read within two rests begins a burst; a single event, and
 * the answer that it causes, do not. */
static void read_again(struct sock *s, int64_t rest_ms) {
    int64_t now = co_now_ms();
    bool burst = s->read_ms > 0 && now - s->read_ms < 2 * rest_ms;
    s->read_ms = now;
    if (burst) {
        co_timer_start(s->rest, rest_ms);
        sock_poll(s);
    }
}

static void on_socket(void *arg, int events) {
    struct sock *s = arg;
    int mask = ((events & CO_POLL_IN) ? CURL_CSELECT_IN : 0) |
               ((events & CO_POLL_OUT) ? CURL_CSELECT_OUT : 0);
    if (events & CO_POLL_IN) {
        read_again(s, s->multi->rest_ms);
    }
    act_on_socket(s->multi, s->fd, mask);
}

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg) {
    (void)easy;
    struct kube_multi *m = arg;
    struct sock *s = socket_arg;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            co_poll_free(s->poll);
            co_timer_free(s->rest);
            free(s);
            curl_multi_assign(m->curl, fd, NULL);
        }
        return 0;
    }
    if (!s) {
        struct co_err err = {0};
        s = co_xcalloc(1, sizeof(*s));
        *s = (struct sock){.multi = m, .fd = fd};
        if (co_poll_new(m->loop, fd, on_socket, s, &s->poll, &err)) {
            co_log_error("cannot watch a socket", CO_E(&err));
            free(s);
            return -1;
        }
        s->rest = co_timer_new(m->loop, on_rested, s);
        curl_multi_assign(m->curl, fd, s);
    }
    s->wanted =
        ((what & CURL_POLL_IN) ? CO_POLL_IN : 0) | ((what & CURL_POLL_OUT) ? CO_POLL_OUT : 0);
    sock_poll(s);
    return 0;
}

bool kube_multi_init(struct kube_multi *m, struct co_loop *loop, long streams_a_connection,
    void (*acted)(void *arg), void *arg) {
    *m = (struct kube_multi){.curl = curl_multi_init(), .loop = loop, .acted = acted, .arg = arg};
    if (!m->curl) {
        return false;
    }
    m->timer = co_timer_new(loop, on_timer, m);
    curl_multi_setopt(m->curl, CURLMOPT_SOCKETFUNCTION, socket_changed);
    curl_multi_setopt(m->curl, CURLMOPT_SOCKETDATA, m);
    curl_multi_setopt(m->curl, CURLMOPT_TIMERFUNCTION, timer_changed);
    curl_multi_setopt(m->curl, CURLMOPT_TIMERDATA, m);
    curl_multi_setopt(m->curl, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(m->curl, CURLMOPT_MAX_CONCURRENT_STREAMS, streams_a_connection);
    return true;
}

void kube_multi_done(struct kube_multi *m) {
    curl_multi_cleanup(m->curl);
    co_timer_free(m->timer);
    *m = (struct kube_multi){0};
}
