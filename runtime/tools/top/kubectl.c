/* Starts `kubectl proxy` and reads its port from its first line. */
#include "runtime/tools/top/kubectl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/loop.h"
#include "runtime/launch/process/spawn.h"

enum { SAID_MAX = 64 << 10, WAIT_MS = 30000 };

/* errors: what it writes to stderr is read, too. */
static int start(
    const char *const *argv, bool errors, struct top_kubectl *ret, struct co_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    CO_AUTOCLOSE int to = ends[1];
    CO_AUTOCLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct proc_spawn s = proc_spawn_session(argv);
    s.out = to;
    s.err = errors ? to : null;
    struct top_kubectl k = {0};
    int rc = proc_spawn(&s, &k.pid, err);
    if (rc < 0) {
        co_close(ends[0]);
        return rc;
    }
    k.said = ends[0];
    *ret = k;
    return 0;
}

/* Reads on until `line` is in what it said, or it has ended: 1, 0. */
static int listen_to(
    const struct top_kubectl *k, const char *line, struct co_buf *text, struct co_err *err) {
    int64_t deadline = co_now_ms() + WAIT_MS;
    for (;;) {
        const char *at = line && text->len ? strstr(text->data, line) : NULL;
        if (at && strchr(at, '\n')) {
            return 1;
        }
        struct pollfd p = {.fd = k->said, .events = POLLIN};
        int64_t left = deadline - co_now_ms();
        if (left <= 0 || (poll(&p, 1, co_poll_ms(left)) < 0 && errno != EINTR)) {
            return co_err_set(err, CO_TIMEOUT, "kubectl has not answered in %d s", WAIT_MS / 1000);
        }
        char some[4096];
        /* no wait: a poll has seen it */
        ssize_t n = p.revents ? read(k->said, some, sizeof(some)) : -1;
        int rc = n > 0 ? co_buf_add(text, some, (size_t)n, err) : 0;
        if (rc < 0 || n == 0) {
            return rc;
        }
    }
}

void top_kubectl_done(struct top_kubectl *k) {
    if (k->pid > 0) {
        (void)kill(-k->pid, SIGKILL); /* and what helps it to log in */
        /* no deadline: a program cannot delay SIGKILL */
        (void)waitpid(k->pid, NULL, 0);
        (void)close(k->said);
    }
    *k = (struct top_kubectl){0};
}

int top_kubectl_space(char **ret, struct co_err *err) {
    static const char *const argv[] = {
        "kubectl", "config", "view", "--minify", "-o", "jsonpath={..namespace}", NULL};
    CO_CLEANUP(top_kubectl_done) struct top_kubectl k = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(SAID_MAX);
    int status = -1;
    CO_TRY(start(argv, false, &k, err)); /* a warning is no part of a namespace's name */
    CO_TRY(listen_to(&k, NULL, &text, err));
    /* It fails where there is no context, as in a pod. */
    /* no deadline: it has closed its output, which is the last that it does */
    (void)waitpid(k.pid, &status, 0);
    (void)close(k.said);
    k.pid = 0;
    *ret = co_xstrdup(status == 0 && text.len ? text.data : "default");
    return 0;
}

int top_kubectl_proxy(struct top_kubectl *ret, struct co_err *err) {
    static const char *const argv[] = {"kubectl", "proxy", "--port=0", NULL};
    static const char serves[] = "Starting to serve on 127.0.0.1:";
    CO_CLEANUP(top_kubectl_done) struct top_kubectl k = {0};
    CO_AUTOBUF struct co_buf text = CO_BUF(SAID_MAX);
    CO_TRY(start(argv, true, &k, err));
    int rc = listen_to(&k, serves, &text, err);
    CO_TRY(rc);
    if (rc == 1 && sscanf(strstr(text.data, serves) + strlen(serves), "%hu", &k.port) == 1) {
        *ret = k;
        k = (struct top_kubectl){0};
        return 0;
    }
    return co_err_set(err, CO_UNAVAILABLE, "kubectl proxy: %.*s",
        (int)strcspn(text.len ? text.data : "it ended", "\n"), text.len ? text.data : "it ended");
}
