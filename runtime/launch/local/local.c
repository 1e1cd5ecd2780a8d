/* Runs the processes of a rendered job on one loop: their output, their ends, and who is stopped
 * then (local.h). */
#include "runtime/launch/local/local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/loop.h"
#include "runtime/launch/process/children.h"
#include "runtime/launch/process/output.h"
#include "runtime/launch/process/signals.h"
#include "runtime/launch/process/tail.h"

enum {
    GRACE_MS = 10000,
    STRAY_MS = 1000, /* for the end of a pipe that a stranger still holds */
    READ_BYTES = 16384,
    LAST_READS = 64, /* of a pipe whose member has ended: all that a pipe holds, and more */
    LOCK_PORT = 35999,
    BLOCKS = 250,
};

struct local;

struct pod_process {
    struct local *local;
    const struct local_pod *pod;
    struct proc_source source;
    struct proc_tail tail;
    int fd; /* its stdout and stderr; -1: ended */
    struct co_poll *poll;
};

struct local {
    const struct local_pods *pods;
    const struct local_options *options;
    struct co_loop *loop;
    struct proc_output *out;
    struct proc_children *children;
    struct pod_process *member;
    size_t n_open; /* pipes */
    size_t n_workers_left;
    bool servers_only; /* a job of servers has them for its workers */
    int64_t start;
    int code;          /* of the job; meaning has it once `over` */
    bool over;         /* the job's result is known */
    const char *ended; /* "completed", "failed", ... */
    bool stopping;     /* all have got SIGTERM */
    struct proc_signals signals;
    bool gone;              /* all have */
    struct co_timer *timer; /* the servers' grace, then that of a pipe that a stranger holds */
};

static void stop_all(struct local *l);

/* ---- output ----------------------------------------------------------------------------- */

static void close_stream(struct pod_process *m) {
    proc_output_end(m->local->out, &m->source);
    co_poll_free(co_steal_ptr(m->poll));
    co_close(m->fd);
    m->fd = -1;
    m->local->n_open--;
}

static void finish_if_done(struct local *l) {
    if (l->gone && l->n_open == 0) {
        co_loop_stop(l->loop);
    }
}

/* False when there is nothing more now. */
static bool read_some(struct pod_process *m) {
    char buf[READ_BYTES];
    /* no wait: the descriptor is non-blocking */
    ssize_t n = read(m->fd, buf, sizeof(buf));
    if (n > 0) {
        proc_tail_add(&m->tail, buf, (size_t)n);
        proc_output_add(m->local->out, &m->source, buf, (size_t)n);
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_stream(m);
    }
    return false;
}

/* What its member has left there, unless nobody takes it; a stranger may write for ever. */
static void read_last(struct pod_process *m) {
    for (int i = 0; i < LAST_READS && m->fd >= 0 && !proc_output_full(m->local->out); i++) {
        if (!read_some(m)) {
            return;
        }
    }
}

static void member_readable(void *arg, int events) {
    struct pod_process *m = arg;
    (void)events;
    (void)read_some(m);
    finish_if_done(m->local);
}

static void output_changed(void *arg) {
    struct local *l = arg;
    bool full = proc_output_full(l->out);
    for (size_t i = 0; i < l->pods->n; i++) {
        if (l->member[i].poll) {
            co_poll_set(l->member[i].poll, full ? 0 : CO_POLL_IN);
        }
    }
    if (proc_output_broken(l->out) && !l->over) {
        l->over = true;
        l->ended = "stopped, as nobody reads its output,";
        l->code = 128 + SIGPIPE;
        stop_all(l);
    }
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Nobody runs, yet somebody holds a pipe: what is in it counts, then it does not. */
static void read_strangers(struct local *l) {
    for (size_t i = 0; i < l->pods->n; i++) {
        read_last(&l->member[i]);
    }
    if (proc_output_full(l->out)) {
        co_timer_start(l->timer, STRAY_MS);
    } else {
        co_loop_stop(l->loop);
    }
}

static void time_is_up(void *arg) {
    struct local *l = arg;
    if (l->gone) {
        read_strangers(l);
    } else {
        stop_all(l);
    }
}

static int64_t get_grace_ms(const struct local *l) {
    int64_t said = l->pods->says_grace ? l->pods->grace_s * 1000 : GRACE_MS;
    return l->options->grace_ms >= 0 ? l->options->grace_ms : said;
}

static void stop_all(struct local *l) {
    l->stopping = true;
    proc_children_stop(l->children, get_grace_ms(l));
}

static void workers_done(struct local *l) {
    int64_t ms = l->options->server_grace_ms;
    l->over = true;
    l->ended = "completed";
    if (proc_children_running(l->children)) {
        proc_output_say(l->out, "paddlerun: all workers have succeeded, servers have %.1f s to end",
            (double)ms / 1000);
        co_timer_start(l->timer, ms);
    }
}

/* Writes "exit code 3", or "killed by SIGKILL (exit code 137)": also where a shell or a launcher in
 * the pod reports the signal that has killed its program.  Returns the signal, or 0. */
static int write_end(int status, char *ret, size_t size) {
    int code = proc_exit_code(status);
    const char *name = code > 128 ? sigabbrev_np(code - 128) : NULL;
    if (!name) {
        proc_exit_text(status, ret, size);
        return 0;
    }
    bool core = WIFSIGNALED(status) && WCOREDUMP(status);
    (void)snprintf(
        ret, size, "killed by SIG%s (exit code %d%s)", name, code, core ? ", core dumped" : "");
    return code - 128;
}

static void pod_failed(struct local *l, struct pod_process *m, int status) {
    char how[64];
    char why[512] = "";
    if (write_end(status, how, sizeof(how)) != SIGKILL) { /* no program can say why that came */
        proc_tail_cause(&m->tail, why, sizeof(why));
    }
    proc_output_say(
        l->out, "paddlerun: pod %s failed: %s%s%s", m->pod->name, how, *why ? ": " : "", why);
    l->over = true;
    l->ended = "failed";
    l->code = proc_exit_code(status);
    stop_all(l);
}

static void on_ended(void *arg, size_t i, int status) {
    struct local *l = arg;
    struct pod_process *m = &l->member[i];
    read_last(m);
    bool counts = !m->pod->server || l->servers_only;
    if (!l->over && proc_exit_code(status) != 0) {
        pod_failed(l, m, status);
    } else if (!l->over && counts && --l->n_workers_left == 0) {
        workers_done(l);
    }
}

static void on_killing(void *arg, size_t n, bool strays) {
    struct local *l = arg;
    if (!strays) {
        proc_output_say(l->out, "paddlerun: %zu did not end after SIGTERM: SIGKILL", n);
    }
}

static void on_empty(void *arg, size_t n_lost) {
    struct local *l = arg;
    (void)n_lost;
    l->gone = true;
    co_timer_start(l->timer, STRAY_MS);
    finish_if_done(l);
}

static const struct proc_children_fns children_fns = {
    .ended = on_ended, .killing = on_killing, .empty = on_empty};

static void on_stop_signal(void *arg, int signo, int n) {
    struct local *l = arg;
    (void)n;
    if (l->stopping) {
        proc_children_stop(l->children, 0);
        return;
    }
    proc_output_say(l->out,
        "paddlerun: stopping (SIG%s; once more to kill), pods have %.1f s to end",
        sigabbrev_np(signo), (double)get_grace_ms(l) / 1000);
    if (!l->over) {
        l->over = true;
        l->ended = "stopped";
        l->code = 128 + signo;
    }
    stop_all(l);
}

static void on_pause(void *arg, bool on) {
    const struct local *l = arg;
    proc_children_pause(l->children, on);
}

/* ---- the start -------------------------------------------------------------------------- */

static int start_pod(struct local *l, struct pod_process *m, int null, struct co_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    struct proc_spawn s = {.argv = m->pod->argv,
        .envp = m->pod->env.item,
        .in = null,
        .out = ends[1],
        .err = ends[1],
        .session = true};
    int r = proc_children_start(l->children, &s, err);
    co_close(ends[1]);
    if (r) {
        co_close(ends[0]);
        return co_err_wrap(err, "pod \"%s\"", m->pod->name);
    }
    m->fd = ends[0];
    l->n_open++;
    CO_TRY(co_poll_new(l->loop, m->fd, member_readable, m, &m->poll, err));
    co_poll_set(m->poll, CO_POLL_IN);
    return 0;
}

static void start_pods(struct local *l) {
    CO_AUTOCLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < l->pods->n; i++) {
        struct co_err err = {0};
        int r = start_pod(l, &l->member[i], null, &err);
        if (r) {
            proc_output_say(l->out, "paddlerun: %s", co_err_text(&err));
            l->over = true;
            l->ended = "failed";
            l->code = proc_spawn_exit_code(r);
            stop_all(l);
            break;
        }
    }
    proc_children_started(l->children);
}

static size_t find_widest(const struct local_pods *pods) {
    size_t n = 0;
    for (size_t i = 0; i < pods->n; i++) {
        size_t len = strlen(pods->item[i].name);
        n = len > n ? len : n;
    }
    return n < 64 ? n : 64;
}

static void open_members(struct local *l) {
    static const int colours[] = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
    l->member = co_xcalloc(l->pods->n, sizeof(*l->member));
    for (size_t i = 0; i < l->pods->n; i++) {
        l->member[i].local = l;
        l->member[i].pod = &l->pods->item[i];
        l->member[i].fd = -1;
        l->member[i].source.name = l->pods->item[i].name;
        l->member[i].source.colour = l->options->colour ? colours[i % CO_ARRAY_LEN(colours)] : 0;
    }
    for (size_t i = 0; i < l->pods->n; i++) {
        l->n_workers_left += !l->pods->item[i].server;
    }
    l->servers_only = l->n_workers_left == 0;
    l->n_workers_left = l->servers_only ? l->pods->n : l->n_workers_left;
    (void)signal(SIGPIPE, SIG_IGN);
}

static void say_start(struct local *l) {
    const struct local_pods *p = l->pods;
    const char *first = p->item[0].address, *last = p->item[p->n - 1].address;
    proc_output_say(l->out, "paddlerun: job %s: %zu pod%s on %s%s%s", p->job, p->n,
        p->n == 1 ? "" : "s", first, p->n == 1 ? "" : " to ", p->n == 1 ? "" : last);
    for (const char *line = p->notes.data; line && *line;) {
        size_t n = strcspn(line, "\n");
        proc_output_say(l->out, "paddlerun: note: %.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void end_local(struct local *l) {
    for (size_t i = 0; i < l->pods->n; i++) {
        if (l->member[i].fd >= 0) {
            close_stream(&l->member[i]);
        }
    }
    proc_output_say(l->out, "job %s %s %s %.1fs", l->pods->job, l->ended,
        strcmp(l->ended, "completed") == 0 ? "in" : "after",
        (double)(co_now_ms() - l->start) / 1000);
}

static int run_pods(struct local *l, struct co_err *err) {
    CO_TRY(proc_children_new(l->loop, &children_fns, l, &l->children, err));
    l->signals = (struct proc_signals){.stop = on_stop_signal, .pause = on_pause, .arg = l};
    CO_TRY(proc_signals_take(&l->signals, l->loop, err));
    proc_children_leave_nothing(l->children);
    l->timer = co_timer_new(l->loop, time_is_up, l);
    say_start(l);
    start_pods(l);
    co_loop_run(l->loop);
    end_local(l);
    return 0;
}

static void local_done(struct local *l) {
    proc_children_free(l->children);
    proc_output_close(l->out);
    free(l->member);
    co_loop_free(l->loop);
}

int local_run(const struct local_pods *pods, const struct local_options *options, int *ret_code,
    struct co_err *err) {
    proc_files_raise();
    CO_CLEANUP(local_done)
    struct local l = {.pods = pods, .options = options, .start = co_now_ms(), .ended = "stopped"};
    CO_TRY(co_loop_new(&l.loop, err));
    open_members(&l);
    struct proc_output_options output = {
        .fd = options->out, .width = find_widest(pods), .change = output_changed, .arg = &l};
    l.out = proc_output_open(l.loop, &output);
    CO_TRY(run_pods(&l, err));
    *ret_code = l.code;
    return 0;
}

int local_block(unsigned *ret_block, int *ret_lock, struct co_err *err) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (unsigned block = 0; fd >= 0 && block < BLOCKS;
         block += LOCAL_PODS_MAX / LOCAL_PODS_BLOCK) {
        struct sockaddr_in a = {.sin_family = AF_INET,
            .sin_port = htons(LOCK_PORT),
            .sin_addr.s_addr = htonl(0x7f000009U + (block << 8))};
        if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
            *ret_block = block;
            *ret_lock = fd;
            return 0;
        }
    }
    int e = errno;
    co_closep(&fd);
    return co_err_errno(err, e, "no free loopback addresses for a job");
}
