/* The registry of training metrics, and the HTTP server that shows them at /metrics. */
#include "runtime/train/meter/meter.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/http/httpd.h"
#include "common/thread.h"
#include "runtime/train/meter/metric_rows.h"

enum { TEXT_MAX = 4 << 20 };

/* One registry per process, because a process has one metrics port. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER; /* guards rows, names and sources */
static struct meter_source *sources;
static atomic_uint_fast64_t trainer_bytes[METER_DIRECTIONS];
static bool
    seen[2]; /* the rows of servers, of trainers: something was counted, so they are shown */
static atomic_bool on;

/* Guards the HTTP server. Lock order: serving before registry. */
static pthread_mutex_t serving = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned users;
    struct co_loop *loop;
    struct co_httpd *httpd;
    uint16_t port;
    pthread_t thread;
} server;

/* ---- as it happens ---- */

void meter_add(enum meter row, size_t series, double v) {
    pthread_mutex_lock(&registry);
    co_metric_add(&meter_rows[row], series, v);
    seen[row >= METER_M_CALL_SECONDS] = true;
    pthread_mutex_unlock(&registry);
}

void meter_set(enum meter row, size_t series, double v) {
    pthread_mutex_lock(&registry);
    co_metric_set(&meter_rows[row], series, v);
    seen[row >= METER_M_CALL_SECONDS] = true;
    pthread_mutex_unlock(&registry);
}

void meter_observe(enum meter row, size_t series, double v) {
    if (v < 0) {
        return; /* as in meter_took */
    }
    pthread_mutex_lock(&registry);
    co_metric_observe(&meter_rows[row], series, v);
    seen[row >= METER_M_CALL_SECONDS] = true;
    pthread_mutex_unlock(&registry);
}

size_t meter_word(enum meter row, const char *word) {
    const char *const *words = meter_rows[row].label[0].values;
    size_t i = 0;
    while (words[i + 1] && strcmp(words[i], word) != 0) {
        i++;
    }
    return i;
}

void meter_bytes(size_t direction, size_t bytes) {
    atomic_fetch_add_explicit(&trainer_bytes[direction], bytes, memory_order_relaxed);
}

/* ---- names that come ---- */

/* The name's index in the list, added if new; `most`: the list is full. */
static size_t find_name(const char **list, size_t most, const char *name) {
    size_t i = 0;
    while (i < most && list[i] && strcmp(list[i], name) != 0) {
        i++;
    }
    if (i < most && !list[i]) {
        list[i] = co_xstrdup(name);
    }
    return i;
}

bool meter_report(const char *name, double v) {
    size_t len =
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-");
    if (len == 0 || len >= METER_NAME || name[len]) {
        return false;
    }
    struct co_metric *m = &meter_rows[METER_M_REPORTED];
    pthread_mutex_lock(&registry);
    size_t i = find_name(meter_names, METER_NAMES, name);
    seen[1] = true;
    if (i < METER_NAMES) {
        /* Allocated for all names at once: the list grows while readers may be waiting. */
        m->value = m->value ? m->value : co_xcalloc(METER_NAMES, sizeof(*m->value));
        m->value[i] = v;
    }
    pthread_mutex_unlock(&registry);
    return i < METER_NAMES;
}

/* ---- sources ---- */

bool meter_on(void) {
    return atomic_load_explicit(&on, memory_order_relaxed);
}

int64_t meter_clock(void) {
    return meter_on() ? co_now_ns() : 0;
}

void meter_attach(struct meter_source *s) {
    pthread_mutex_lock(&registry);
    s->next = sources;
    sources = s;
    seen[0] = true;
    pthread_mutex_unlock(&registry);
}

void meter_detach(struct meter_source *s) {
    pthread_mutex_lock(&registry);
    struct meter_source **at = &sources;
    while (*at && *at != s) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = s->next;
    }
    pthread_mutex_unlock(&registry);
}

void meter_fill(enum meter row, size_t series, double v) {
    co_metric_add(&meter_rows[row], series, v);
}

void meter_fill_most(enum meter row, size_t series, double v) {
    struct co_metric *m = &meter_rows[row];
    if (!m->value || m->value[series] < v) {
        co_metric_set(m, series, v);
    }
}

size_t meter_fill_table(const char *name) {
    size_t i = find_name(meter_tables, METER_TABLES - 1, name);
    return i < METER_TABLES - 1 ? i : find_name(meter_tables, METER_TABLES, "others");
}

void meter_took(struct meter_times *t, int64_t ns) {
    if (ns < 0) {
        return; /* the clock has stopped meanwhile: nobody serves metrics any more */
    }
    const struct co_metric *m = &meter_rows[METER_M_REQUEST_SECONDS];
    size_t i = 0;
    while (i < m->n_bounds && (double)ns > m->bounds[i] * 1e9) {
        i++;
    }
    meter_count(&t->bucket[i], 1);
    meter_count(&t->ns, (uint64_t)ns);
}

void meter_fill_times(enum meter row, size_t series, const struct meter_times *t) {
    struct co_histogram h = {.sum = (double)meter_read(&t->ns) / 1e9};
    for (size_t i = 0; i <= CO_METRIC_BUCKETS; i++) {
        h.bucket[i] = meter_read(&t->bucket[i]);
        h.count += h.bucket[i];
    }
    co_metric_merge(&meter_rows[row], series, &h);
}

/* ---- text ---- */

/* Collects all sources. They name their tables while they fill, so series from before are cleared.
 */
static void gather(void) {
    co_metrics_done(meter_rows, METER_M_LIVE);
    for (size_t i = 0; i < METER_M_LIVE; i++) {
        if (meter_rows[i].label[0].values == meter_tables) {
            meter_rows[i].value = co_xcalloc(METER_TABLES, sizeof(double));
        }
    }
    for (struct meter_source *s = sources; s; s = s->next) {
        s->fill(s->arg);
    }
}

static int render_own(struct co_buf *ret, struct co_err *err) {
    gather();
    for (size_t i = 0; i < METER_DIRECTIONS; i++) {
        co_metric_set(&meter_rows[METER_M_TRAINER_BYTES], i, (double)meter_read(&trainer_bytes[i]));
    }
    if (seen[0]) {
        CO_TRY(co_metrics_render(meter_rows, METER_M_CALL_SECONDS, ret, err));
    }
    if (seen[1]) {
        CO_TRY(co_metrics_render(
            meter_rows + METER_M_CALL_SECONDS, METER_M_COUNT - METER_M_CALL_SECONDS, ret, err));
    }
    return 0;
}

int meter_render(struct co_buf *ret, struct co_err *err) {
    pthread_mutex_lock(&registry);
    int rc = render_own(ret, err);
    pthread_mutex_unlock(&registry);
    CO_TRY(rc);
    return co_metrics_process(ret, err);
}

int meter_markdown(struct co_buf *ret, struct co_err *err) {
    return co_metrics_markdown(meter_rows, METER_M_COUNT, ret, err);
}

const char *meter_name(enum meter row) {
    return meter_rows[row].name;
}

/* ---- the server ---- */

static void serve_metrics(void *arg, struct co_http_req *req) {
    CO_AUTOBUF struct co_buf text = CO_BUF(TEXT_MAX);
    struct co_err err = {0};
    (void)arg;
    if (meter_render(&text, &err) < 0) {
        co_http_replyf(req, 500, "%s\n", co_err_text(&err));
        return;
    }
    co_http_reply(req, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
}

static const struct co_http_route routes[] = {{"GET", "/metrics", serve_metrics}};

static void *run_server(void *arg) {
    co_loop_run(arg);
    co_httpd_close(server.httpd);
    co_loop_free(arg);
    return NULL;
}

static void stop_loop(void *loop) {
    co_loop_stop(loop);
}

static int start_server(const char *addr, struct co_err *err) {
    int rc = co_loop_new(&server.loop, err);
    if (rc == 0) {
        rc = co_httpd_open(
            server.loop, addr, routes, CO_ARRAY_LEN(routes), NULL, NULL, &server.httpd, err);
    }
    if (rc < 0) {
        co_loop_free(co_steal_ptr(server.loop));
        return co_err_wrap(err, "metrics");
    }
    server.port = co_httpd_port(server.httpd);
    int e = co_thread_start(&server.thread, run_server, server.loop);
    if (e) {
        co_httpd_close(server.httpd);
        co_loop_free(co_steal_ptr(server.loop));
        return co_err_errno(err, e, "cannot start a thread for metrics");
    }
    return 0;
}

int meter_open(const char *addr, uint16_t *ret_port, struct co_err *err) {
    pthread_mutex_lock(&serving);
    int rc = server.users > 0 ? 0 : start_server(addr, err);
    if (rc == 0) {
        server.users++;
        atomic_store(&on, true);
        if (ret_port) {
            *ret_port = server.port;
        }
    }
    pthread_mutex_unlock(&serving);
    return rc;
}

void meter_close(void) {
    pthread_mutex_lock(&serving);
    if (server.users > 0 && --server.users == 0) {
        atomic_store(&on, false);
        co_loop_post(server.loop, stop_loop, server.loop);
        /* no deadline: the loop has been asked to stop, and its handlers do not block */
        pthread_join(server.thread, NULL);
        server.loop = NULL;
    }
    pthread_mutex_unlock(&serving);
}
