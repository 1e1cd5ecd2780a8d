/* The start gate's HTTP endpoint: long polls of pods' init containers, each answered when its job
 * changes or its time is over.  What the answer is the controller decides. */
#include "operator/control/gate_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>

#include "common/log.h"
#include "common/parse.h"

enum {
    WAITING_MAX = 8192,
    ENDS_PART = 2, /* of all connections servers may hold this part: starts go first */
    /* Of one address: host network and address translation show the pods of a node as one, up to
     * 500 on the largest nodes, and a gate whose connections race has two of them for a moment. */
    WAITING_OF_PEER_MAX = 1024,
    HEADER_MAX = 4096, /* a request is one line; a connection holds as much memory */
    FILES_SPARE = 256, /* for all but the gate */
    WAIT_MAX_S = 55,
    NAME_MAX_BYTES = 254,
};

struct waiter {
    LIST_ENTRY(waiter) link;
    struct co_http_req *req;
    struct ctl_gate *gate;
    /* Owned.  pod NULL: asks for the job's end.  job NULL: the pod is not known yet. */
    char *ns, *pod, *uid, *job;
};

LIST_HEAD(waiters, waiter);

struct ctl_gate {
    struct co_httpd *httpd;
    struct ctl_controller *controller;
    struct ctl_metrics *metrics;
    /* Apart, as servers ask as long as they live: a change that is no end looks at none of them. */
    struct waiters starts, ends;
    size_t n_ends, ends_max;
};

static void count_waiter(struct waiter *w, int n) {
    struct ctl_gate *g = w->gate;
    if (w->pod) {
        co_metric_add(&g->metrics->row[CTL_M_GATE_WAITING], 0, n);
    } else {
        g->n_ends += (size_t)n;
    }
}

static void waiter_free(struct waiter *w) {
    LIST_REMOVE(w, link);
    count_waiter(w, -1);
    free(w->ns);
    free(w->pod);
    free(w->uid);
    free(w->job);
    free(w);
}

/* Answers when there is something final to say; false: it may wait. */
static bool answer_gate(struct ctl_gate *g, struct co_http_req *req, const char *ns,
    const char *pod, const char *uid, bool final) {
    const char *why = "";
    int go = ctl_controller_gate(g->controller, ns, pod, uid, &why);
    if (go == 1) {
        co_metric_add(&g->metrics->row[CTL_M_GATE_OPENED], 0, 1);
        co_http_replyf(req, 200, "go\n");
    } else if (go == -2) {
        co_http_replyf(req, 410, "%s\n", why);
    } else if (final) {
        co_http_replyf(req, go == -1 ? 404 : 202, "%s\n", why);
    } else {
        return false;
    }
    return true;
}

static bool answer_end(struct ctl_gate *g, struct co_http_req *req, const char *ns, const char *job,
    const char *uid, bool final) {
    int trained = ctl_controller_trained(g->controller, ns, job, uid);
    if (trained == 1) {
        co_http_replyf(req, 200, "over\n");
    } else if (final) {
        co_http_replyf(req, trained ? 404 : 202, "%s\n", trained ? "not known here" : "not over");
    } else {
        return false;
    }
    return true;
}

static bool answer_waiter(struct waiter *w, bool final) {
    return w->pod ? answer_gate(w->gate, w->req, w->ns, w->pod, w->uid, final)
                  : answer_end(w->gate, w->req, w->ns, w->job, w->uid, final);
}

static void timed_out(void *arg, struct co_http_req *req) {
    struct waiter *w = arg;
    (void)req;
    (void)answer_waiter(w, true);
    waiter_free(w);
}

static void client_gone(void *arg, struct co_http_req *req) {
    (void)req;
    waiter_free(arg);
}

/* "a/b/c" -> a, b, c. */
static bool split_path(const char *p, char part[3][NAME_MAX_BYTES]) {
    for (int i = 0; i < 3; i++) {
        const char *end = strchrnul(p, '/');
        size_t n = (size_t)(end - p);
        if (n == 0 || n >= NAME_MAX_BYTES || (*end == '/') != (i < 2)) {
            return false;
        }
        memcpy(part[i], p, n);
        part[i][n] = '\0';
        p = end + 1;
    }
    return true;
}

enum { IPS_MAX = 2 };

/* One or two addresses joined by a comma, in the form that inet_ntop gives; 0: none, or odd. */
static size_t parse_ips(const char *text, char ips[IPS_MAX][CO_HTTP_PEER_MAX]) {
    size_t n = 0;
    for (const char *p = text, *end; *p; p = *end ? end + 1 : end, n++) {
        char one[CO_HTTP_PEER_MAX];
        unsigned char bytes[sizeof(struct in6_addr)];
        end = strchrnul(p, ',');
        if (n == IPS_MAX || (size_t)(end - p) >= sizeof(one)) {
            return 0;
        }
        (void)snprintf(one, sizeof(one), "%.*s", (int)(end - p), p);
        int family = strchr(one, ':') ? AF_INET6 : AF_INET;
        if (inet_pton(family, one, bytes) != 1 ||
            !inet_ntop(family, bytes, ips[n], CO_HTTP_PEER_MAX)) {
            return 0;
        }
    }
    return n;
}

/* Behind address translation nothing is believed, and kubelet's word is waited for.  False: the
 * pod's report comes before we know its node. */
static bool note_ips(struct ctl_gate *g, const struct co_http_req *req, const char *ns,
    const char *pod, const char *uid) {
    const char *text = co_http_query(req, "ips");
    char ips[IPS_MAX][CO_HTTP_PEER_MAX] = {"", ""};
    char peer[CO_HTTP_PEER_MAX];
    size_t n = text ? parse_ips(text, ips) : 0;
    co_http_peer(req, peer);
    return n == 0 || ctl_controller_claim(
                         g->controller, ns, pod, uid, (const char *[]){ips[0], ips[1]}, peer);
}

/* The path behind its beginning, and for how long the client waits; false: it was answered. */
static bool read_question(struct co_http_req *req, const char *begin, const char *what,
    char part[3][NAME_MAX_BYTES], int64_t *ret_wait) {
    if (!split_path(co_http_path(req) + strlen(begin), part)) {
        co_http_replyf(req, 400, "expected %s%s\n", begin, what);
        return false;
    }
    const char *text = co_http_query(req, "wait");
    int64_t wait = 0;
    if (text && co_parse_i64("wait", text, 0, 3600, &wait, NULL)) {
        co_http_replyf(req, 400, "wait: expected seconds\n");
        return false;
    }
    *ret_wait = wait > WAIT_MAX_S ? WAIT_MAX_S : wait;
    return true;
}

static void hold_waiter(
    struct ctl_gate *g, struct co_http_req *req, int64_t wait, const struct waiter *what) {
    struct waiter *w = co_xcalloc(1, sizeof(*w));
    *w = *what;
    w->req = req;
    w->gate = g;
    LIST_INSERT_HEAD(w->pod ? &g->starts : &g->ends, w, link);
    count_waiter(w, 1);
    co_http_defer(req, wait * 1000, timed_out, client_gone, w);
}

static const char gate_path[] = "/gate/v1/", end_path[] = "/end/v1/";

static void gate_asked(void *arg, struct co_http_req *req) {
    struct ctl_gate *g = arg;
    char part[3][NAME_MAX_BYTES];
    int64_t wait;
    if (!read_question(req, gate_path, "<namespace>/<pod>/<uid>", part, &wait)) {
        return;
    }
    bool noted = note_ips(g, req, part[0], part[1], part[2]);
    /* A Service leads to the standby, too: the gate is sent on to its next address at once.  And
     * where kubelet knew of the node before us the gate, not held, reports its address again in
     * 50 ms, 100 ms and so on: a claim that was kept would count for whoever made it before. */
    bool final = wait == 0 || !noted || !ctl_controller_leads(g->controller);
    if (!answer_gate(g, req, part[0], part[1], part[2], final)) {
        const char *job = ctl_controller_job_of(g->controller, part[0], part[1]);
        hold_waiter(g, req, wait,
            &(struct waiter){.ns = co_xstrdup(part[0]),
                .pod = co_xstrdup(part[1]),
                .uid = co_xstrdup(part[2]),
                .job = job ? co_xstrdup(job) : NULL});
    }
}

static void end_asked(void *arg, struct co_http_req *req) {
    struct ctl_gate *g = arg;
    char part[3][NAME_MAX_BYTES];
    int64_t wait;
    if (!read_question(req, end_path, "<namespace>/<job>/<uid>", part, &wait)) {
        return;
    }
    bool final = wait == 0 || g->n_ends >= g->ends_max || !ctl_controller_leads(g->controller);
    if (!answer_end(g, req, part[0], part[1], part[2], final)) {
        hold_waiter(g, req, wait,
            &(struct waiter){
                .ns = co_xstrdup(part[0]), .uid = co_xstrdup(part[2]), .job = co_xstrdup(part[1])});
    }
}

static void answer_list(const struct waiters *list, const char *ns, const char *job) {
    struct waiter *next;
    for (struct waiter *w = LIST_FIRST(list); w; w = next) {
        next = LIST_NEXT(w, link);
        if (strcmp(w->ns, ns) != 0 || (w->job && strcmp(w->job, job) != 0)) {
            continue;
        }
        if (!w->job) {
            const char *name = ctl_controller_job_of(w->gate->controller, w->ns, w->pod);
            w->job = name ? co_xstrdup(name) : NULL;
        }
        if (answer_waiter(w, false)) {
            waiter_free(w);
        }
    }
}

static void job_changed(void *arg, const char *ns, const char *job, bool trained) {
    struct ctl_gate *g = arg;
    answer_list(&g->starts, ns, job);
    if (trained) {
        answer_list(&g->ends, ns, job);
    }
}

/* The API server must stay within reach whoever waits here. */
static size_t connections_max(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur > WAITING_MAX + FILES_SPARE) {
        return WAITING_MAX;
    }
    return files.rlim_cur > 2 * FILES_SPARE ? files.rlim_cur - FILES_SPARE : FILES_SPARE;
}

static const struct co_http_route routes[] = {
    {"GET", "/gate/v1/*", gate_asked}, {"GET", "/end/v1/*", end_asked}};

int ctl_gate_open(struct co_loop *loop, const char *addr, struct ctl_controller *c,
    struct ctl_metrics *metrics, struct ctl_gate **ret, struct co_err *err) {
    struct ctl_gate *g = co_xcalloc(1, sizeof(*g));
    g->controller = c;
    g->metrics = metrics;
    size_t all = connections_max();
    g->ends_max = all / ENDS_PART;
    struct co_httpd_options options = {.max_connections = all,
        .max_per_peer = all / 2 < WAITING_OF_PEER_MAX ? all / 2 : WAITING_OF_PEER_MAX,
        .max_header = HEADER_MAX,
        .max_body = 1024};
    int r = co_httpd_open(loop, addr, routes, CO_ARRAY_LEN(routes), g, &options, &g->httpd, err);
    if (r) {
        free(g);
        return co_err_wrap(err, "start gate");
    }
    ctl_controller_on_change(c, job_changed, g);
    *ret = g;
    return 0;
}

static void free_list(const struct waiters *list) {
    struct waiter *next;
    for (struct waiter *w = LIST_FIRST(list); w; w = next) {
        next = LIST_NEXT(w, link);
        waiter_free(w);
    }
}

void ctl_gate_close(struct ctl_gate *g) {
    if (!g) {
        return;
    }
    ctl_controller_on_change(g->controller, NULL, NULL);
    co_httpd_close(g->httpd);
    free_list(&g->starts);
    free_list(&g->ends);
    free(g);
}
