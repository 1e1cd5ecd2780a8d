/* The loop of `paddlerun top`: asks all processes at the same time, prints a table when all have
 * answered or their time is over, waits, and begins again until q, Ctrl-C or --count. */
#include "runtime/tools/top/top.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "common/http/httpc.h"
#include "common/json/json.h"
#include "common/loop.h"
#include "common/parse.h"
#include "runtime/tools/top/kubectl.h"
#include "runtime/tools/top/podlist.h"
#include "runtime/tools/top/table.h"

enum { BODY_MAX = 4 << 20, LIST_MAX = 64 << 20, TABLE_MAX = 1 << 20 };

struct top;

/* A process; or a job, that has no samples and finds processes. */
struct target {
    struct top *top;
    char name[256];
    char path[512];
    struct co_httpc *http;    /* NULL: a pod that cannot be asked; `why` says why */
    const struct target *job; /* whose pod it is; NULL: it was named */
    bool is_job, listed;      /* still a pod of the job */
    struct top_samples now, before;
    bool answered;
    char why[CO_ERR_MAX];
};

struct top {
    const struct top_options *o;
    struct co_loop *loop;
    struct co_timer *timer;
    struct co_signal *signals[2];
    struct co_poll *keys;
    struct target **targets; /* [n], each owned; named ones first */
    size_t n, waiting;
    struct top_kubectl kubectl;
    int64_t reads;
    bool terminal, raw;
    struct termios saved;
};

/* ---- the terminal ---- */

static void open_terminal(struct top *t) {
    t->terminal = isatty(STDOUT_FILENO) && t->o->count != 1;
    if (t->terminal && isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &t->saved) == 0) {
        struct termios raw = t->saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        t->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    if (t->terminal) {
        (void)fputs("\033[?25l", stdout);
    }
}

static void close_terminal(struct top *t) {
    if (t->raw) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
    }
    if (t->terminal) {
        (void)fputs("\033[?25h", stdout);
        (void)fflush(stdout);
    }
}

/* ---- reading and printing ---- */

static void print_table(struct top *t) {
    CO_AUTOFREE struct top_target *rows = co_xcalloc(t->n, sizeof(*rows));
    CO_AUTOBUF struct co_buf text = CO_BUF(TABLE_MAX);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct target *g = t->targets[i];
        if (!g->is_job || g->why[0]) {
            rows[n++] = (struct top_target){.name = g->name,
                .now = g->answered ? &g->now : NULL,
                .why = g->why[0] ? g->why : NULL,
                .before = g->before.text && !t->o->life ? &g->before : NULL};
        }
    }
    if (top_table_print(rows, n, &text, NULL) < 0) {
        return;
    }
    /* Line by line over what is there, then the rest of the screen: nothing flickers. */
    (void)fputs(t->terminal ? "\033[H" : "", stdout);
    char *state = NULL;
    for (char *line = strtok_r(text.data, "\n", &state); line;
         line = strtok_r(NULL, "\n", &state)) {
        (void)printf(t->terminal ? "%s\033[K\n" : "%s\n", line);
    }
    (void)fputs(t->terminal ? "\033[J" : t->o->count == 1 ? "" : "\n", stdout);
    (void)fflush(stdout);
}

static void finish_read(struct top *t) {
    t->reads++;
    print_table(t);
    if (ferror(stdout) || (t->o->count > 0 && t->reads >= t->o->count)) { /* no more is shown */
        co_loop_stop(t->loop);
    } else {
        co_timer_start(t->timer, t->o->interval_ms);
    }
}

static void take_answer(void *arg, const struct co_httpc_result *r) {
    struct target *g = arg;
    struct co_err err = {0};
    struct top_samples s = {0};
    if (r->code) {
        (void)snprintf(g->why, sizeof(g->why), "%s", co_err_text(r->err));
    } else if (r->status != 200) {
        (void)snprintf(g->why, sizeof(g->why), "HTTP status %d", r->status);
    } else if (top_samples_parse(r->body, r->len, (double)co_wall_ms() / 1e3, &s, &err) < 0) {
        (void)snprintf(g->why, sizeof(g->why), "%s", err.msg);
    } else {
        top_samples_done(&g->before);
        g->before = g->now;
        g->now = s;
        g->why[0] = '\0';
    }
    g->answered = g->why[0] == '\0';
    if (--g->top->waiting == 0) {
        finish_read(g->top);
    }
}

static void ask(struct target *g, void (*done)(void *arg, const struct co_httpc_result *r)) {
    g->top->waiting++;
    co_httpc_send(g->http, &(struct co_httpc_request){"GET", g->path,
                               .timeout_ms = g->top->o->timeout_ms, .done = done, .arg = g});
}

static void read_processes(void *arg) {
    struct top *t = arg;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->targets[i]->is_job && t->targets[i]->http) {
            ask(t->targets[i], take_answer);
        }
    }
    if (t->waiting == 0) {
        finish_read(t);
    }
}

/* ---- jobs ---- */

static void free_target(struct target *g) {
    co_httpc_free(g->http);
    top_samples_done(&g->now);
    top_samples_done(&g->before);
    free(g);
}

static struct target *add_target(struct top *t) {
    struct target *g = co_xcalloc(1, sizeof(*g));
    g->top = t;
    t->targets = co_xrealloc(t->targets, t->n + 1, sizeof(*t->targets));
    return t->targets[t->n++] = g;
}

/* The pod's target, a new one if need be; NULL: there are TOP_TARGETS already. */
static struct target *pod_of(struct target *job, const char *name) {
    struct top *t = job->top;
    for (size_t i = 0; i < t->n; i++) {
        if (t->targets[i]->job == job && strcmp(t->targets[i]->name, name) == 0) {
            return t->targets[i];
        }
    }
    if (t->n == TOP_TARGETS) {
        return NULL;
    }
    struct target *g = add_target(t);
    g->job = job;
    (void)snprintf(g->name, sizeof(g->name), "%s", name);
    return g;
}

static void set_pod(struct target *g, const struct top_listed_pod *pod) {
    g->listed = true;
    const char *path = pod->path ? pod->path : "";
    if (strcmp(g->path, path) != 0 || (!g->http && pod->path)) {
        co_httpc_free(co_steal_ptr(g->http));
        (void)snprintf(g->path, sizeof(g->path), "%s", path);
        if (pod->path) {
            g->http = co_httpc_new(g->top->loop, "127.0.0.1", g->top->kubectl.port, NULL, BODY_MAX);
        }
    }
    if (pod->state) {
        g->answered = false;
        (void)snprintf(g->why, sizeof(g->why), "%s", pod->state);
    }
}

static void set_pods(struct target *job, const struct top_podlist *pods) {
    struct top *t = job->top;
    for (size_t i = 0; i < t->n; i++) {
        t->targets[i]->listed = t->targets[i]->job != job;
    }
    for (size_t i = 0; i < pods->n; i++) {
        struct target *g = pod_of(job, pods->all[i].name);
        if (g) {
            set_pod(g, &pods->all[i]);
        }
    }
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->targets[i]->listed) {
            t->targets[n++] = t->targets[i];
        } else {
            free_target(t->targets[i]);
        }
    }
    t->n = n;
}

static void take_pods(void *arg, const struct co_httpc_result *r) {
    struct target *g = arg;
    struct top *t = g->top;
    struct co_err err = {0};
    CO_CLEANUP(top_podlist_done) struct top_podlist pods = {0};
    CO_AUTOJSON json_t *status = NULL;
    g->why[0] = '\0';
    if (r->code) {
        (void)snprintf(g->why, sizeof(g->why), "%s", co_err_text(r->err));
    } else if (r->status != 200) {
        const char *said = co_json_parse_odd(r->body, r->len, &status, NULL) == 0
                               ? co_json_str(status, "message")
                               : r->body;
        said = said ? said : "";
        (void)snprintf(g->why, sizeof(g->why), "HTTP status %d: %.*s", r->status,
            (int)strcspn(said, "\n"), said);
    } else if (top_podlist_read(r->body, r->len, &pods, &err) < 0) {
        (void)snprintf(g->why, sizeof(g->why), "%s", err.msg);
    } else {
        set_pods(g, &pods);
        if (pods.n == 0) {
            (void)snprintf(g->why, sizeof(g->why), "no pod of such a job");
        }
    }
    if (--t->waiting == 0) {
        read_processes(t);
    }
}

static void read_all(void *arg) {
    struct top *t = arg;
    for (size_t i = 0; i < t->n; i++) {
        if (t->targets[i]->is_job) {
            ask(t->targets[i], take_pods);
        }
    }
    if (t->waiting == 0) {
        read_processes(t);
    }
}

/* ---- beginning and end ---- */

/* As it was given; of a pod behind the API server's proxy, .../pods/NAME:PORT/proxy, its own name.
 */
static void put_name(const char *given, char *ret, size_t size) {
    static const char pods[] = "/pods/";
    const char *pod = strstr(given, pods);
    const char *from = pod ? pod + strlen(pods) : given;
    (void)snprintf(ret, size, "%.*s", pod ? (int)strcspn(from, "/") : -1, from);
}

static bool is_label(const char *s) {
    size_t len = strlen(s);
    return len > 0 && len <= 63 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len;
}

/* kubectl's proxy and namespace, for the first job. */
static int open_job(struct top *t, const char *name, struct co_err *err) {
    CO_AUTOFREE char *space = t->o->space[0] ? co_xstrdup(t->o->space) : NULL;
    if (!space) {
        CO_TRY(top_kubectl_space(&space, err));
    }
    if (!is_label(space)) {
        return co_err_set(err, CO_INVALID, "\"%.80s\" is not a namespace", space);
    }
    if (!t->kubectl.pid) {
        CO_TRY(top_kubectl_proxy(&t->kubectl, err));
    }
    struct target *g = add_target(t);
    CO_AUTOFREE char *path = top_podlist_path(space, name);
    g->is_job = true;
    (void)snprintf(g->name, sizeof(g->name), "%s", name);
    (void)snprintf(g->path, sizeof(g->path), "%s", path);
    g->http = co_httpc_new(t->loop, "127.0.0.1", t->kubectl.port, NULL, LIST_MAX);
    return 0;
}

static int open_address(struct top *t, const char *name, struct co_err *err) {
    static const char scheme[] = "http://";
    const char *host = strncmp(name, scheme, strlen(scheme)) == 0 ? name + strlen(scheme) : name;
    size_t len = strcspn(host, "/");
    const char *path = host + len;
    CO_AUTOFREE char *address = co_xstrndup(host, len);
    struct co_hostport hp;
    CO_TRY(co_parse_hostport("target", address, &hp, err));
    struct target *g = add_target(t);
    put_name(name, g->name, sizeof(g->name));
    size_t end = strlen(path);
    end -= end > 0 && path[end - 1] == '/';
    if (snprintf(g->path, sizeof(g->path), "%.*s/metrics", (int)end, path) >=
        (int)sizeof(g->path)) {
        return co_err_set(err, CO_INVALID, "target \"%.80s...\" is too long", name);
    }
    g->http = co_httpc_new(t->loop, hp.host[0] ? hp.host : "127.0.0.1", hp.port, NULL, BODY_MAX);
    return 0;
}

static int open_target(struct top *t, const char *name, struct co_err *err) {
    if (*name == '-') {
        return co_err_set(err, CO_INVALID, "%s: flags go before addresses", name);
    }
    if (strpbrk(name, ":/") || !t->o->space) {
        return open_address(t, name, err);
    }
    return is_label(name) ? open_job(t, name, err)
                          : co_err_set(err, CO_INVALID,
                                "\"%.80s\" is neither a job's name nor HOST:PORT", name);
}

static void on_signal(void *arg, int signo) {
    struct top *t = arg;
    (void)signo;
    co_loop_stop(t->loop);
}

static void on_key(void *arg, int events) {
    struct top *t = arg;
    char key[16];
    (void)events;
    /* no wait: the loop has seen it */
    ssize_t n = read(STDIN_FILENO, key, sizeof(key));
    if (n == 0) {
        co_poll_set(t->keys, 0);
    } else if (n > 0 && memchr(key, 'q', (size_t)n)) {
        co_loop_stop(t->loop);
    }
}

static int open_run(struct top *t, struct co_err *err) {
    CO_TRY(co_loop_new(&t->loop, err));
    for (size_t i = 0; i < t->o->n; i++) {
        CO_TRY(open_target(t, t->o->targets[i], err));
    }
    /* Behind kubectl, which may take its time: until here Ctrl-C ends both at once. */
    CO_TRY(co_signal_new(t->loop, SIGINT, on_signal, t, &t->signals[0], err));
    CO_TRY(co_signal_new(t->loop, SIGTERM, on_signal, t, &t->signals[1], err));
    t->timer = co_timer_new(t->loop, read_all, t);
    open_terminal(t);
    if (t->raw) {
        CO_TRY(co_poll_new(t->loop, STDIN_FILENO, on_key, t, &t->keys, err));
        co_poll_set(t->keys, CO_POLL_IN);
    }
    (void)fputs(t->terminal ? "\033[2J" : "", stdout);
    return 0;
}

static bool anybody_answers(const struct top *t) {
    for (size_t i = 0; i < t->n; i++) {
        if (t->targets[i]->answered) {
            return true;
        }
    }
    return false;
}

int top_run(const struct top_options *o, struct co_err *err) {
    struct top t = {.o = o};
    int rc = open_run(&t, err);
    if (rc == 0) {
        co_timer_start(t.timer, 0);
        co_loop_run(t.loop);
        rc = o->count > 0 && !anybody_answers(&t)
                 ? co_err_set(err, CO_UNAVAILABLE, "nobody answers")
                 : 0;
    }
    close_terminal(&t);
    for (size_t i = 0; i < t.n; i++) {
        free_target(t.targets[i]);
    }
    free(t.targets);
    top_kubectl_done(&t.kubectl);
    co_poll_free(t.keys);
    co_timer_free(t.timer);
    co_signal_free(t.signals[0]);
    co_signal_free(t.signals[1]);
    co_loop_free(t.loop);
    return rc;
}
