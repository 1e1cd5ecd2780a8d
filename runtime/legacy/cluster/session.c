/* One ssh session: parses the lines of the script that runs on the host, and sends it commands. */
#include "runtime/legacy/cluster/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/launch/process/spawn.h"

enum { LINE_MAX_BYTES = 16 << 10, LINES_MAX = 64 << 10 };

void cluster_ssh_session_init(struct cluster_ssh_session *s, struct co_loop *loop, size_t index,
    const struct cluster_host *host, const struct cluster_session_ops *ops, void *arg) {
    *s = (struct cluster_ssh_session){.ops = ops,
        .arg = arg,
        .loop = loop,
        .index = index,
        .host = host,
        .in = -1,
        .out.fd = -1,
        .err.fd = -1,
        .line = CO_BUF(LINE_MAX_BYTES),
        .lines = CO_BUF(LINES_MAX)};
}

static void close_end(int *fd, struct co_poll **poll) {
    co_poll_free(co_steal_ptr(*poll));
    co_closep(fd);
    *fd = -1;
}

static void close_all(struct cluster_ssh_session *s) {
    close_end(&s->out.fd, &s->out.poll);
    close_end(&s->err.fd, &s->err.poll);
    co_closep(&s->in);
    s->in = -1;
}

void cluster_ssh_session_done(struct cluster_ssh_session *s) {
    co_timer_free(s->again);
    close_all(s);
    co_buf_done(&s->line);
    co_buf_done(&s->lines);
}

/* ---- what the host prints ---------------------------------------------------------------- */

/* An exit code outside of 0 to 255 counts as a failure. */
static int exit_code(int code) {
    return code >= 0 && code <= 255 ? code : 1;
}

static void take_line(struct cluster_ssh_session *s, const char *text) {
    int code = 0;
    if (strcmp(text, "@connected") == 0) {
        s->connected = true;
        s->ops->connected(s->arg, s);
    } else if (strcmp(text, "@ready") == 0) {
        s->ops->ready(s->arg, s);
    } else if (sscanf(text, "@server %d", &code) == 1) {
        s->server_ended = true;
        s->ops->ended(s->arg, s, "server", exit_code(code));
    } else if (sscanf(text, "@train %d", &code) == 1) {
        s->ops->ended(s->arg, s, "train", exit_code(code));
    } else if (strncmp(text, "@| ", 3) == 0) {
        (void)snprintf(s->last, sizeof(s->last), "%s", text + 3);
        (void)!co_buf_addf(&s->lines, NULL, "    %s\n", text + 3);
    } else if (strcmp(text, "@.") == 0) {
        s->ops->tail(s->arg, s);
        co_buf_clear(&s->lines);
    }
}

/* Control characters of a log must not reach the terminal. */
static void clean(char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

static void take_bytes(struct cluster_ssh_session *s, const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            /* A line beyond the bound loses its end. */
            (void)!co_buf_add(&s->line, &data[i], data[i] != '\0', NULL);
        } else if (s->line.len) {
            clean(s->line.data);
            take_line(s, s->line.data);
            co_buf_clear(&s->line);
        }
    }
}

static bool read_out(struct cluster_ssh_session *s) {
    char buf[8192];
    /* no wait: the descriptor is non-blocking */
    ssize_t n = s->out.fd < 0 ? 0 : read(s->out.fd, buf, sizeof(buf));
    if (n > 0) {
        take_bytes(s, buf, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_end(&s->out.fd, &s->out.poll);
    }
    return n > 0;
}

static bool read_err(struct cluster_ssh_session *s) {
    char buf[4096];
    /* no wait: the descriptor is non-blocking */
    ssize_t n = s->err.fd < 0 ? 0 : read(s->err.fd, buf, sizeof(buf));
    if (n > 0) {
        proc_tail_add(&s->complaint, buf, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_end(&s->err.fd, &s->err.poll);
    }
    return n > 0;
}

static void out_readable(void *arg, int events) {
    (void)events;
    (void)read_out(arg);
}

static void err_readable(void *arg, int events) {
    (void)events;
    (void)read_err(arg);
}

void cluster_ssh_session_drain(struct cluster_ssh_session *s) {
    while (read_out(s)) {
    }
    while (read_err(s)) {
    }
    close_all(s);
}

/* ---- commands to it -------------------------------------------------------------------- */

/* Never blocks: all commands together fit the pipe's buffer. */
void cluster_ssh_session_send(struct cluster_ssh_session *s, const char *line) {
    if (s->in >= 0 && write(s->in, line, strlen(line)) < 0) {
        co_closep(&s->in);
        s->in = -1;
    }
}

bool cluster_ssh_session_reaped(struct cluster_ssh_session *s, pid_t pid, int status) {
    if (pid == s->tar) {
        s->tar = 0;
        s->tar_status = status;
    }
    if (pid != s->pid) {
        return false;
    }
    s->pid = 0;
    return true;
}

/* ---- start ------------------------------------------------------------------------------ */

struct pipes {
    int in[2], out[2], err[2];
};

static void pipes_done(struct pipes *p) {
    int *all[] = {p->in, p->out, p->err};
    for (size_t i = 0; i < CO_ARRAY_LEN(all); i++) {
        co_closep(&all[i][0]);
        co_closep(&all[i][1]);
    }
}

static int watch(struct cluster_ssh_session *s, struct pipes *p, struct co_err *err) {
    s->out.fd = co_steal_fd(&p->out[0]);
    s->err.fd = co_steal_fd(&p->err[0]);
    CO_TRY(co_poll_new(s->loop, s->out.fd, out_readable, s, &s->out.poll, err));
    CO_TRY(co_poll_new(s->loop, s->err.fd, err_readable, s, &s->err.poll, err));
    co_poll_set(s->out.poll, CO_POLL_IN);
    co_poll_set(s->err.poll, CO_POLL_IN);
    return 0;
}

int cluster_ssh_session_start(struct cluster_ssh_session *s, const struct cluster_options *options,
    const char *script, int from, struct co_err *err) {
    CO_CLEANUP(pipes_done) struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    if ((from < 0 && pipe2(p.in, O_CLOEXEC) < 0) || pipe2(p.out, O_CLOEXEC) < 0 ||
        pipe2(p.err, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    char **argv = cluster_ssh(options, s->host, script);
    struct proc_spawn spawn = {.argv = argv,
        .in = from < 0 ? p.in[0] : from,
        .out = p.out[1],
        .err = p.err[1],
        .session = true};
    int r = proc_spawn(&spawn, &s->pid, err);
    cluster_words_free(argv);
    if (r) {
        return r;
    }
    memset(&s->complaint, 0, sizeof(s->complaint));
    co_buf_clear(&s->line); /* what ssh said of the session before, half a line of a greeting */
    co_buf_clear(&s->lines);
    s->last[0] = '\0';
    s->connected = false;
    s->in = co_steal_fd(&p.in[1]);
    return watch(s, &p, err);
}
