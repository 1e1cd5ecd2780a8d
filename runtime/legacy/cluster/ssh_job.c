/* A cluster_train job from start to end: one ssh session per host; the first failure stops all
 * hosts, and its last log lines are shown. */
#include "runtime/legacy/cluster/ssh_job.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/parse.h"
#include "runtime/launch/process/signals.h"
#include "runtime/launch/process/spawn.h"
#include "runtime/legacy/cluster/session.h"

enum {
    LAST_EVERY_MS = 10000, /* how often the last line of the first host's log is shown */
    TAIL_MS = 3000,        /* how long a failed host has to send its last log lines */
    SLACK_MS = 5000,       /* how long ssh has to end after its host has stopped everything */
    AGAIN_MS = 2000,       /* until ssh is tried again on a host that it did not reach */
    ADDRESSES_MAX = 64 << 10,
};

struct cluster {
    const struct cluster_conf *conf;
    const struct cluster_options *options;
    struct co_loop *loop;
    struct cluster_ssh_session *session;
    char *dir, *addresses; /* owned */
    size_t n_copied, n_ready, n_trained, n_gone;
    bool stopping, killed;
    struct proc_signals signals;
    bool stop_signaled;                        /* a signal asked us to stop */
    const struct cluster_ssh_session *failing; /* sends its last log lines before all are stopped */
    int code;                                  /* the exit code, valid once stopping */
    struct co_timer *timer; /* deadline of the current wait: reached, ready, grace, tail or stop */
    void (*due)(struct cluster *c);
    struct co_timer *last;
    int64_t start;
};

static void say(const char *fmt, ...) CO_PRINTF(1, 2);
static void say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    (void)fputs("paddlerun: ", stdout);
    (void)vprintf(fmt, ap);
    (void)putchar('\n');
    (void)fflush(stdout);
    va_end(ap);
}

static void wait_for(struct cluster *c, int64_t ms, void (*due)(struct cluster *c)) {
    c->due = due;
    co_timer_start(c->timer, ms);
}

static void timer_due(void *arg) {
    struct cluster *c = arg;
    c->due(c);
}

/* ---- the end ---------------------------------------------------------------------------- */

static void kill_all(struct cluster *c) {
    c->killed = true;
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        struct cluster_ssh_session *s = &c->session[i];
        if (s->pid) {
            say("node %zu (%s) does not answer, giving up its ssh", i, s->host->name);
            (void)kill(-s->pid, SIGKILL);
        }
        if (s->tar) {
            (void)kill(-s->tar, SIGKILL);
        }
    }
}

static void gone(struct cluster *c, struct cluster_ssh_session *s) {
    s->state = CLUSTER_SESSION_GONE;
    c->n_gone++;
    if (c->stopping && c->n_gone == c->conf->n_hosts) {
        co_loop_stop(c->loop);
    }
}

static void stop_all(struct cluster *c) {
    co_timer_stop(c->last);
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        struct cluster_ssh_session *s = &c->session[i];
        s->leaving = true;
        if (co_timer_armed(s->again)) {
            co_timer_stop(s->again);
            gone(c, s);
        } else if (s->state == CLUSTER_SESSION_COPYING) {
            if (s->pid) {
                (void)kill(-s->pid, SIGTERM);
            }
        } else {
            cluster_ssh_session_send(s, "stop\n");
        }
    }
    wait_for(c, c->options->stop_ms + SLACK_MS, kill_all);
    if (c->n_gone == c->conf->n_hosts) {
        co_loop_stop(c->loop);
    }
}

static void end(struct cluster *c, int code) {
    if (!c->stopping) {
        c->stopping = true;
        c->code = code;
        stop_all(c);
    }
}

/* Asks the failed host for the last lines of its log; then all hosts are stopped. */
static void end_with_tail(
    struct cluster *c, struct cluster_ssh_session *s, const char *log, int code) {
    char ask[64];
    (void)snprintf(ask, sizeof(ask), "tail %s 20\n", log);
    c->stopping = true;
    c->failing = s;
    c->code = code;
    cluster_ssh_session_send(s, ask);
    wait_for(c, TAIL_MS, stop_all);
}

static void fail(struct cluster *c, struct cluster_ssh_session *s, const char *log, int code) {
    if (c->stopping) {
        return;
    }
    say("node %zu (%s): %s ended with exit code %d; last lines of %s/log/%s.log:", s->index,
        s->host->name, strcmp(log, "train") == 0 ? "the trainer" : "the server", code, c->dir, log);
    end_with_tail(c, s, log, code ? code : 1);
}

/* ---- output of hosts -------------------------------------------------------------------- */

static void no_server(struct cluster *c) {
    for (size_t i = 0; i < c->conf->n_hosts && !c->stopping; i++) {
        struct cluster_ssh_session *s = &c->session[i];
        if (s->state == CLUSTER_SESSION_STARTING) {
            say("node %zu (%s): no server on port %lld within %.0f s", i, s->host->name,
                (long long)c->conf->port, (double)c->options->ready_ms / 1000);
            end_with_tail(c, s, "server", 1);
        }
    }
}

/* Returns the number of the first host that ssh has not reached; the number of hosts: none. */
static size_t first_unreached(const struct cluster *c) {
    size_t i = 0;
    while (i < c->conf->n_hosts &&
           (c->session[i].connected || c->session[i].state != CLUSTER_SESSION_STARTING)) {
        i++;
    }
    return i;
}

static void not_reached(struct cluster *c) {
    size_t i = first_unreached(c);
    const char *why = proc_tail_last_line(&c->session[i].complaint);
    say("node %zu (%s): not reached within %.0f s: %s", i, c->session[i].host->name,
        (double)c->options->connect_ms / 1000, *why ? why : "ssh says nothing");
    end(c, 1);
}

/* An ssh that ends says why, so the last try may be over first. */
static void wait_for_hosts(struct cluster *c) {
    wait_for(c, c->options->connect_ms + SLACK_MS, not_reached);
}

/* Servers have their time from when all hosts are reached. */
static void connected(void *arg, struct cluster_ssh_session *s) {
    struct cluster *c = arg;
    if (s->state == CLUSTER_SESSION_STARTING && !c->stopping &&
        first_unreached(c) == c->conf->n_hosts) {
        wait_for(c, c->options->ready_ms, no_server);
    }
}

static void ready(void *arg, struct cluster_ssh_session *s) {
    struct cluster *c = arg;
    if (s->state != CLUSTER_SESSION_STARTING || c->stopping) {
        return;
    }
    s->state = CLUSTER_SESSION_READY;
    if (++c->n_ready < c->conf->n_hosts) {
        return;
    }
    say("servers listen on all %zu hosts, %.1f s; starting trainers", c->n_ready,
        (double)(co_now_ms() - c->start) / 1000);
    co_timer_stop(c->timer);
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        c->session[i].state = CLUSTER_SESSION_TRAINING;
        cluster_ssh_session_send(&c->session[i], "go\n");
    }
    co_timer_start(c->last, LAST_EVERY_MS);
}

static void grace_over(struct cluster *c) {
    end(c, 0);
}

static void check_completed(struct cluster *c) {
    size_t servers = 0;
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        servers += !c->session[i].server_ended;
    }
    if (c->n_trained == c->conf->n_hosts && servers == 0) {
        end(c, 0);
    }
}

static void trained(struct cluster *c, struct cluster_ssh_session *s) {
    s->state = CLUSTER_SESSION_TRAINED;
    c->n_trained++;
    say("node %zu (%s): trainer has finished, %zu of %zu", s->index, s->host->name, c->n_trained,
        c->conf->n_hosts);
    if (c->n_trained == c->conf->n_hosts) {
        co_timer_stop(c->last);
        wait_for(c, c->options->grace_ms, grace_over);
    }
}

static void ended(void *arg, struct cluster_ssh_session *s, const char *what, int code) {
    struct cluster *c = arg;
    bool trainer = strcmp(what, "train") == 0;
    if (c->stopping) {
        return;
    }
    if (code || (trainer && s->state != CLUSTER_SESSION_TRAINING)) {
        fail(c, s, what, code);
    } else if (trainer) {
        trained(c, s);
    } else if (c->n_ready < c->conf->n_hosts) {
        fail(c, s, what, 1);
    }
    if (!c->stopping) {
        check_completed(c);
    }
}

static void print_tail(void *arg, struct cluster_ssh_session *s) {
    struct cluster *c = arg;
    if (c->failing == s) {
        c->failing = NULL;
        (void)fputs(s->lines.data ? s->lines.data : "    (nothing)\n", stdout);
        stop_all(c);
    } else if (*s->last && !c->stopping) {
        say("%.0f s, node %zu: %s", (double)(co_now_ms() - c->start) / 1000, s->index, s->last);
    }
}

static const struct cluster_session_ops ops = {
    .connected = connected, .ready = ready, .ended = ended, .tail = print_tail};

static void look_at_log(void *arg) {
    struct cluster *c = arg;
    cluster_ssh_session_send(&c->session[0], "tail train 1\n");
    co_timer_start(c->last, LAST_EVERY_MS);
}

/* ---- ssh processes ---------------------------------------------------------------------- */

static int start_job(struct cluster *c, struct cluster_ssh_session *s, struct co_err *err) {
    CO_AUTOFREE char *script =
        cluster_run_script(c->conf, c->options, c->dir, s->index, c->addresses);
    s->state = CLUSTER_SESSION_STARTING;
    return cluster_ssh_session_start(s, c->options, script, -1, err);
}

static int start_copy(struct cluster *c, struct cluster_ssh_session *s, struct co_err *err) {
    CO_AUTOFREE char *script = cluster_receive_script(c->dir);
    const char *const argv[] = {"tar", "-C", c->options->package, "-cf", "-", ".", NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    CO_AUTOCLOSE int from = ends[0];
    CO_AUTOCLOSE int to = ends[1];
    struct proc_spawn tar = proc_spawn_session(argv);
    tar.out = to;
    CO_TRY(proc_spawn(&tar, &s->tar, err));
    return cluster_ssh_session_start(s, c->options, script, from, err);
}

static void lost(struct cluster *c, struct cluster_ssh_session *s, int status) {
    char how[64];
    proc_exit_text(status, how, sizeof(how));
    const char *why = proc_tail_last_line(&s->complaint);
    char tried[48] = "";
    if (s->unreached_since) {
        (void)snprintf(tried, sizeof(tried), " (tried for %.0f s)",
            (double)(co_now_ms() - s->unreached_since) / 1000);
    }
    say("node %zu (%s): %s: ssh ended with %s%s%s%s", s->index, s->host->name,
        s->state == CLUSTER_SESSION_COPYING ? "the package was not copied"
        : s->connected                      ? "connection lost"
                                            : "not reached",
        how, *why ? ": " : "", why, tried);
    end(c, 1);
}

/* Whether the host may answer later, by ssh's last line: a pod that starts has no name yet, then no
 * sshd; a busy sshd greets late or refuses.  A wrong key is no better in a minute. */
static bool is_passing(int status, const char *complaint) {
    static const char *const passing[] = {"timed out", "not responding", "Connection refused",
        "Connection reset", "onnection closed", "closed by remote host", "Broken pipe",
        "No route to host", "Network is unreachable", "Temporary failure in name resolution",
        "Name or service not known"};
    bool ret = !*complaint;
    for (size_t i = 0; i < CO_ARRAY_LEN(passing) && !ret; i++) {
        ret = strstr(complaint, passing[i]);
    }
    return ret && WIFEXITED(status) && WEXITSTATUS(status) == 255;
}

/* ssh has ended before the host's script started the server; false: trying again is of no use, or
 * was for long. */
static bool try_again(struct cluster *c, struct cluster_ssh_session *s, int status) {
    const char *why = proc_tail_last_line(&s->complaint);
    int64_t now = co_now_ms();
    bool copying = s->state == CLUSTER_SESSION_COPYING;
    if ((s->connected && !copying) || !is_passing(status, why)) {
        return false;
    }
    if (!s->unreached_since) {
        s->unreached_since = now;
        say("node %zu (%s): %s, trying for %.0f s: %s", s->index, s->host->name,
            s->connected ? "ssh has lost it" : "ssh does not reach it yet",
            (double)c->options->connect_ms / 1000, *why ? why : "ssh does not say why");
    }
    if (now - s->unreached_since >= c->options->connect_ms) {
        return false;
    }
    co_timer_start(s->again, AGAIN_MS);
    return true;
}

static void not_started(struct cluster *c, struct cluster_ssh_session *s, const char *why) {
    say("node %zu (%s): %s", s->index, s->host->name, why);
    gone(c, s);
    end(c, 1);
}

static void start_again(void *arg) {
    struct cluster_ssh_session *s = arg;
    struct cluster *c = s->arg;
    struct co_err err = {0};
    int r = s->state == CLUSTER_SESSION_COPYING ? start_copy(c, s, &err) : start_job(c, s, &err);
    if (r) {
        not_started(c, s, co_err_text(&err));
    }
}

/* The package has been copied and tar has ended. Its code 1 means that a file changed meanwhile. */
static void copied(struct cluster *c, struct cluster_ssh_session *s) {
    struct co_err err = {0};
    if (WIFEXITED(s->tar_status) && WEXITSTATUS(s->tar_status) > 1) {
        not_started(c, s, "the package could not be read whole, see tar's message");
        return;
    }
    s->unreached_since = 0;
    c->n_copied++;
    if (c->n_copied == c->conf->n_hosts) {
        say("copied to all %zu hosts, %.1f s", c->n_copied,
            (double)(co_now_ms() - c->start) / 1000);
        wait_for_hosts(c);
    }
    if (start_job(c, s, &err)) {
        not_started(c, s, co_err_text(&err));
    }
}

static void ssh_ended(struct cluster *c, struct cluster_ssh_session *s, int status) {
    cluster_ssh_session_drain(s);
    if (s->state == CLUSTER_SESSION_COPYING && status == 0 && !c->stopping) {
        s->received = true;
        return;
    }
    bool expected = s->leaving || c->killed;
    if (!expected && !c->stopping) {
        if (try_again(c, s, status)) {
            return;
        }
        lost(c, s, status);
    } else if (c->failing && c->due == stop_all) {
        stop_all(c); /* it will not print its last lines any more */
    }
    gone(c, s);
}

/* Both processes that copy have ended, in whatever order. */
static void copy_ended(struct cluster *c, struct cluster_ssh_session *s) {
    s->received = false;
    if (c->stopping) {
        gone(c, s);
    } else {
        copied(c, s);
    }
}

static void child_ended(void *arg, int signo) {
    struct cluster *c = arg;
    int status = 0;
    pid_t pid;
    (void)signo;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < c->conf->n_hosts; i++) {
            struct cluster_ssh_session *s = &c->session[i];
            if (cluster_ssh_session_reaped(s, pid, status)) {
                ssh_ended(c, s, status);
            }
            if (s->received && !s->tar) {
                copy_ended(c, s);
            }
        }
    }
}

static void interrupted(void *arg, int signo, int n) {
    struct cluster *c = arg;
    (void)n;
    if (c->stopping) {
        kill_all(c);
        return;
    }
    say("%s: stopping the job on all hosts", signo == SIGINT ? "interrupted" : "terminated");
    c->stop_signaled = true;
    end(c, 128 + signo);
}

/* On the hosts; ssh keeps running, so that the connections live. */
static void on_pause(void *arg, bool on) {
    struct cluster *c = arg;
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        cluster_ssh_session_send(&c->session[i], on ? "pause\n" : "continue\n");
    }
}

/* ---- start ------------------------------------------------------------------------------ */

/* The address that trainers get: numeric if this machine can resolve it, otherwise the name. */
static char *resolve(const char *name) {
    char text[NI_MAXHOST];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *a = NULL;
    /* no deadline: the resolver has one of its own */
    if (getaddrinfo(name, NULL, &hints, &a) || !a) {
        return co_xstrdup(name);
    }
    int r = getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(a);
    return co_xstrdup(r ? name : text);
}

static int resolve_all(struct cluster *c, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(ADDRESSES_MAX);
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        CO_AUTOFREE char *address = resolve(c->conf->hosts[i].name);
        CO_TRY(co_buf_addf(&b, err, "%s%s", i ? "," : "", address));
    }
    c->addresses = co_buf_take(&b);
    return 0;
}

static int start_all(struct cluster *c, struct co_err *err) {
    for (size_t i = 0; i < c->conf->n_hosts; i++) {
        struct cluster_ssh_session *s = &c->session[i];
        CO_TRY(c->options->package ? start_copy(c, s, err) : start_job(c, s, err));
    }
    if (!c->options->package) {
        wait_for_hosts(c);
    }
    return 0;
}

static int take_signals(struct cluster *c, struct co_err *err) {
    struct co_signal *s = NULL; /* the loop frees it */
    CO_TRY(co_signal_new(c->loop, SIGCHLD, child_ended, c, &s, err));
    c->signals = (struct proc_signals){.stop = interrupted, .pause = on_pause, .arg = c};
    return proc_signals_take(&c->signals, c->loop, err);
}

static int run_all(struct cluster *c, struct co_err *err) {
    CO_TRY(resolve_all(c, err));
    CO_TRY(take_signals(c, err));
    int r = start_all(c, err);
    if (r) {
        kill_all(c);
        return r;
    }
    co_loop_run(c->loop);
    return 0;
}

int cluster_run(const struct cluster_conf *conf, const struct cluster_options *options,
    int *ret_code, struct co_err *err) {
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    struct cluster c = {.conf = conf, .options = options, .start = co_now_ms()};
    time_t now = time(NULL);
    struct tm tm;
    proc_files_raise();
    CO_TRY(co_loop_new(&loop, err));
    (void)signal(SIGPIPE, SIG_IGN);
    c.loop = loop;
    c.timer = co_timer_new(loop, timer_due, &c);
    c.last = co_timer_new(loop, look_at_log, &c);
    c.dir = cluster_dir(conf, options, localtime_r(&now, &tm));
    c.session = co_xcalloc(conf->n_hosts, sizeof(*c.session));
    for (size_t i = 0; i < conf->n_hosts; i++) {
        cluster_ssh_session_init(&c.session[i], loop, i, &conf->hosts[i], &ops, &c);
        c.session[i].again = co_timer_new(loop, start_again, &c.session[i]);
    }
    say("job of %zu hosts in %s", conf->n_hosts, c.dir);
    int r = run_all(&c, err);
    if (!r) {
        *ret_code = c.code;
        say("job %s after %.1f s",
            c.stop_signaled ? "stopped"
            : c.code == 0   ? "completed"
                            : "failed",
            (double)(co_now_ms() - c.start) / 1000);
    }
    for (size_t i = 0; i < conf->n_hosts; i++) {
        cluster_ssh_session_done(&c.session[i]);
    }
    free(c.session);
    free(c.dir);
    free(c.addresses);
    return r;
}
