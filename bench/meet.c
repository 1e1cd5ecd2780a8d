/* Runs nodes that only do the rendezvous and train nothing, to measure it and to test failures.
 *
 *     meet [option value]...      one node; prints a line for each event, and exits at the end
 *     meet --simulate N           N nodes and their master in one process; prints seconds and
 * bytes, and on stderr what it waits for. With --hold-ms also the cost of the nodes watching one
 * another
 *
 * Commands on stdin, one letter per line: d done, r restart, l leave normally, f fail, s stop was
 * requested. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/loop.h"
#include "common/parse.h"
#include "runtime/launch/rendezvous/rendezvous.h"

struct node {
    struct rdzv *m;
    struct co_loop *l;
    struct co_poll *in;
    struct sim *sim;
    bool met, first;
    int code;
};

static void event(const char *what, const char *text) {
    printf("%s%s%s\n", what, *text ? " " : "", text);
    (void)fflush(stdout);
}

static void on_serving(void *arg, const char *endpoint) {
    (void)arg;
    event("serving", endpoint);
}

static void on_note(void *arg, bool warn, const char *line) {
    (void)arg;
    event(warn ? "warning" : "note", line);
}

static void on_met(void *arg, const struct rdzv_roster *r) {
    (void)arg;
    printf("met round %d rank %zu of %zu%s\n", r->round, r->self, r->n,
        r->watched ? "" : " unwatched");
    for (size_t i = 0; i < r->n && r->n <= 16; i++) {
        printf("peer %zu %s %s\n", i, r->peers[i].name, r->peers[i].value);
    }
    (void)fflush(stdout);
}

static void on_changed(void *arg, const char *why) {
    struct node *n = arg;
    event("changed", why);
    rdzv_again(n->m);
}

static void on_all_done(void *arg) {
    (void)arg;
    event("all done", "");
}

static void on_overdue(void *arg, const struct co_err *err) {
    (void)arg;
    event("overdue", err->msg);
}

static void on_ended(void *arg, const struct co_err *err) {
    struct node *n = arg;
    printf("ended %s: %s\n", co_code_name(err->code), err->msg);
    (void)fflush(stdout);
    n->code = 1;
    co_loop_stop(n->l);
}

static void on_gone(void *arg) {
    struct node *n = arg;
    event("gone", "");
    co_loop_stop(n->l);
}

static void on_input(void *arg, int events) {
    struct node *n = arg;
    char c;
    (void)events;
    ssize_t got = read(0, &c, 1);
    if (got <= 0) {
        co_poll_set(n->in, 0);
        return;
    }
    switch (c) {
    case 'd':
        rdzv_done(n->m);
        break;
    case 'r':
        rdzv_restart(n->m, "worker 0: exit code 1");
        break;
    case 'l':
        rdzv_leave(n->m, 0, "", on_gone);
        break;
    case 'f':
        rdzv_leave(n->m, 3, "worker 0: exit code 3", on_gone);
        break;
    case 's':
        rdzv_leave(n->m, -1, "SIGTERM", on_gone);
        break;
    default:
        break;
    }
}

static int run_one(const struct rdzv_options *o) {
    static const struct rdzv_fns fns = {.serving = on_serving,
        .note = on_note,
        .met = on_met,
        .changed = on_changed,
        .all_done = on_all_done,
        .overdue = on_overdue,
        .ended = on_ended};
    struct node n = {0};
    struct co_err err = {0};
    int r = co_loop_new(&n.l, &err);
    r = r ? r : rdzv_open(n.l, o, &fns, &n, &n.m, &err);
    r = r ? r : co_poll_new(n.l, 0, on_input, &n, &n.in, &err);
    if (r) {
        (void)fprintf(stderr, "meet: %s\n", err.msg);
        return 2;
    }
    co_poll_set(n.in, CO_POLL_IN);
    co_loop_run(n.l);
    rdzv_close(n.m);
    co_loop_free(n.l);
    return n.code;
}

/* ---- many nodes in one process ---- */

struct sim {
    size_t n, met, failed;
};

static void sim_met(void *arg, const struct rdzv_roster *r) {
    struct node *n = arg;
    if (r->n != n->sim->n || n->met) {
        event("wrong", "not everybody is there");
        n->code = 1;
    }
    n->met = true;
    if (++n->sim->met == n->sim->n) {
        co_loop_stop(n->l);
    }
}

static void sim_ended(void *arg, const struct co_err *err) {
    struct node *n = arg;
    if (!n->sim->failed++) { /* the others end as it does */
        on_ended(arg, err);
    }
    n->code = 1;
}

/* What the node with the smallest number waits for: the master's word on who is missing. */
static void sim_note(void *arg, bool warn, const char *line) {
    const struct node *n = arg;
    (void)warn;
    if (n->first) {
        (void)fprintf(
            stderr, "meet: %zu of %zu nodes have met; %s\n", n->sim->met, n->sim->n, line);
    }
}

static long loopback_bytes(void) {
    FILE *f = fopen("/proc/net/dev", "re");
    char line[256];
    long bytes = 0;
    while (f && fgets(line, sizeof(line), f)) {
        const char *lo = strstr(line, "lo:");
        bytes = lo ? strtol(lo + 3, NULL, 10) : bytes;
    }
    if (f) {
        (void)fclose(f);
    }
    return bytes;
}

static void options_of(size_t i, size_t n, int64_t master_port, struct rdzv_options *o) {
    static char master[32], name[32], host[32], value[256];
    (void)snprintf(master, sizeof(master), "127.0.0.1:%d", (int)master_port);
    (void)snprintf(name, sizeof(name), "n%05zx", (i * 2654435761u) % 0xfffff);
    (void)snprintf(host, sizeof(host), "10.0.%zu.%zu", i / 256, i % 256);
    (void)snprintf(value, sizeof(value),
        "{\"name\": \"%s\", \"rank\": \"-1\", \"replicas\": 1, \"dtype\": \"cpu\", \"candidate\": "
        "\"%s:%zu\", \"endpoints\": \"%s:%zu\"}",
        name, host, 35100 + i * 7919 % 28000, host, 35101 + i * 7919 % 28000);
    *o = (struct rdzv_options){.master = master,
        .host = host,
        .name = name,
        .value = value,
        .rank = -1,
        .min_nodes = (int)n,
        .max_nodes = (int)n,
        .level = -1};
}

static double cpu_seconds(void) {
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void stop(void *arg) {
    co_loop_stop(arg);
}

/* Returns the CPU seconds per second of all nodes and the master together. */
static double hold(struct co_loop *l, int64_t ms) {
    struct co_timer *t = co_timer_new(l, stop, l);
    const double before = cpu_seconds();
    co_timer_start(t, ms);
    co_loop_run(l);
    co_timer_free(t);
    return ms > 0 ? (cpu_seconds() - before) * 1000 / (double)ms : 0;
}

static int simulate(size_t n, int64_t port, int64_t hold_ms, const struct rdzv_options *given) {
    static const struct rdzv_fns fns = {.note = sim_note, .met = sim_met, .ended = sim_ended};
    struct sim sim = {.n = n};
    struct node *nodes = co_xcalloc(n, sizeof(*nodes));
    struct co_loop *l = NULL;
    struct co_err err = {0};
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    int r = co_loop_new(&l, &err);
    long bytes = loopback_bytes();
    int64_t begin = co_now_ms();
    for (size_t i = 0; i < n && !r; i++) {
        struct rdzv_options o;
        nodes[i].l = l;
        nodes[i].sim = &sim;
        options_of(i, n, port, &o);
        nodes[i].first = i == 0;
        o.token = given->token;
        o.silent_ms = given->silent_ms;
        r = rdzv_open(l, &o, &fns, &nodes[i], &nodes[i].m, &err);
    }
    if (r) {
        (void)fprintf(stderr, "meet: %s\n", err.msg);
        return 2;
    }
    co_loop_run(l);
    int64_t ms = co_now_ms() - begin;
    bytes = loopback_bytes() - bytes;
    const double cpu = hold(l, hold_ms);
    int bad = sim.met != n;
    for (size_t i = 0; i < n; i++) {
        bad |= nodes[i].code;
        rdzv_close(nodes[i].m);
    }
    co_loop_free(l);
    free(nodes);
    printf("{\"nodes\": %zu, \"seconds\": %.3f, \"bytes\": %ld, \"bytes_a_node\": %ld, "
           "\"watching_cpus\": %.3f}\n",
        n, (double)ms / 1000, bytes, n ? bytes / (long)n : 0, cpu);
    return bad;
}

int main(int argc, char **argv) {
    struct rdzv_options o = {.name = "node",
        .host = "127.0.0.1",
        .value = "{}",
        .rank = -1,
        .level = -1,
        .max_restart = 3};
    const char *nnodes = "2";
    int64_t rank = -1, level = -1, restarts = 3, count = 0, port = 36543, hold_ms = 0, min, max;
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
    } options[] = {
        {"--master", &o.master, NULL},
        {"--job", &o.job_id, NULL},
        {"--host", &o.host, NULL},
        {"--name", &o.name, NULL},
        {"--value", &o.value, NULL},
        {"--nnodes", &nnodes, NULL},
        {"--token", &o.token, NULL},
        {"--user", &o.user, NULL},
        {"--ca", &o.ca_file, NULL},
        {"--cert", &o.cert_file, NULL},
        {"--key", &o.key_file, NULL},
        {"--rank", NULL, &rank},
        {"--level", NULL, &level},
        {"--restarts", NULL, &restarts},
        {"--elastic-ms", NULL, &o.elastic_ms},
        {"--deadline-ms", NULL, &o.deadline_ms},
        {"--silent-ms", NULL, &o.silent_ms},
        {"--simulate", NULL, &count},
        {"--port", NULL, &port},
        {"--hold-ms", NULL, &hold_ms},
    };
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        (void)printf("usage: meet [OPTION VALUE]..., with the options\n");
        for (size_t k = 0; k < CO_ARRAY_LEN(options); k++) {
            (void)printf("  %s\n", options[k].name);
        }
        return 0;
    }
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < CO_ARRAY_LEN(options) && strcmp(options[k].name, argv[i]) != 0) {
            k++;
        }
        if (k == CO_ARRAY_LEN(options) || i + 1 >= argc) {
            (void)fprintf(stderr, "meet: unknown option %s, or without its value\n", argv[i]);
            return 2;
        }
        if (options[k].text) {
            *options[k].text = argv[i + 1];
        } else if (co_parse_i64(argv[i], argv[i + 1], -1, INT32_MAX, options[k].number, NULL)) {
            return 2;
        }
    }
    if (count > 0) {
        return simulate((size_t)count, port, hold_ms, &o);
    }
    o.rank = (int)rank;
    o.level = (int)level;
    o.max_restart = (int)restarts;
    int used = 0, lo = 0, hi = 0;
    if (sscanf(nnodes, "%9d:%9d%n", &lo, &hi, &used) != 2 || nnodes[used]) {
        min = max = strtol(nnodes, NULL, 10);
    } else {
        min = lo;
        max = hi;
    }
    o.min_nodes = (int)min;
    o.max_nodes = (int)max;
    return run_one(&o);
}
