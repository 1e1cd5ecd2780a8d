/* `paddle-operator run`: opens the endpoints, takes the lease, starts the controller, and on a
 * signal lets running requests end before it exits. All on one loop. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/http/httpd.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/stops.h"
#include "common/version.h"
#include "operator/cmd/commands.h"
#include "operator/cmd/exporter.h"
#include "operator/cmd/run_options.h"
#include "operator/control/controller.h"
#include "operator/control/gate_server.h"
#include "operator/control/lease.h"

/* The manifest gives ten seconds: what is in flight has the first of them to end in order, giving
 * the lease back the rest. */
enum { DRAIN_MS = 6000, RELEASE_MS = 2000, FILES_MAX = 65536 };
/* A list comes in pages that fit, and in memory it is some times as large. */
enum { REPLY_MAX = 12 << 20 };
enum { LARGE = 128 * 1024 };

struct opc_program {
    struct opc_options options;
    struct opc_pod_env place;
    struct co_loop *loop;
    struct ctl_metrics *metrics;
    struct kube_client *client;
    struct ctl_controller *controller;
    struct ctl_lease *lease;
    struct ctl_gate *gate;
    struct opc_exporter *exporter;
    struct co_httpd *health_httpd;
    struct co_signal *signals[2];
    struct co_timer *stop_timer;
    bool stopping, drained, late;
    struct co_stops stops;
    struct ctl_shard_id shard_id;
    struct ctl_shard *shard;
    char identity[256], gate_addr[300], lease_name[64];
};

/* ---- the environment -------------------------------------------------------------------- */

static const char *env_or_empty(const char *name) {
    const char *v = getenv(name);
    return v ? v : "";
}

static struct opc_pod_env find_place(void) {
    return (struct opc_pod_env){.gate_host = env_or_empty("PADDLE_GATE_SERVICE_HOST"),
        .gate_port = env_or_empty("PADDLE_GATE_SERVICE_PORT"),
        .pod_ip = env_or_empty("POD_IP"),
        .pod_name = env_or_empty("POD_NAME"),
        .pod_uid = env_or_empty("POD_UID"),
        .pod_ns = env_or_empty("POD_NAMESPACE")};
}

static void find_identity(struct opc_program *p) {
    char host[128] = "unknown";
    (void)gethostname(host, sizeof(host) - 1);
    uint64_t random = 0;
    (void)!getrandom(&random, sizeof(random), 0);
    opc_pod_env_identity(&p->place, host, random, p->identity, sizeof(p->identity));
}

/* The limit of this container, where it is in one, else what the machine has. */
static size_t find_memory(void) {
    struct co_err unread = {0};
    uint64_t n = co_limit_memory("", &unread);
    if (unread.code) {
        co_log_warn("a limit of this container cannot be read and counts as none", CO_E(&unread));
    }
    return n;
}

/* ---- endpoints -------------------------------------------------------------------------- */

static void serve_health(void *arg, struct co_http_req *req) {
    (void)arg;
    co_http_replyf(req, 200, "ok");
}

static void serve_ready(void *arg, struct co_http_req *req) {
    const struct opc_program *p = arg;
    if (p->stopping) {
        co_http_replyf(req, 503, "stopping");
    } else if (!ctl_controller_synced(p->controller)) {
        co_http_replyf(req, 503, "the API server has not been listed yet");
    } else {
        co_http_replyf(req, 200, "ok");
    }
}

static const struct co_http_route health_routes[] = {
    {"GET", "/healthz", serve_health},
    {"GET", "/healthz/*", serve_health},
    {"GET", "/readyz", serve_ready},
    {"GET", "/readyz/*", serve_ready},
};

static bool is_wanted(const char *addr) {
    return *addr && strcmp(addr, "0") != 0;
}

static int open_endpoints(struct opc_program *p, struct co_err *err) {
    const struct opc_options *o = &p->options;
    if (is_wanted(o->metrics_addr)) {
        CO_TRY(opc_exporter_open(p->loop,
            &(struct opc_exporter_opts){.addr = o->metrics_addr,
                .secure = o->metrics_secure,
                .cert_dir = o->metrics_cert,
                .client = p->client,
                .controller = p->controller,
                .metrics = p->metrics},
            &p->exporter, err));
    }
    if (is_wanted(o->health_addr)) {
        CO_TRY(co_httpd_open(p->loop, o->health_addr, health_routes, CO_ARRAY_LEN(health_routes), p,
            NULL, &p->health_httpd, err));
    }
    if (is_wanted(o->gate_bind)) {
        CO_TRY(ctl_gate_open(p->loop, o->gate_bind, p->controller, p->metrics, &p->gate, err));
    }
    return 0;
}

/* ---- stop ------------------------------------------------------------------------------- */

static void stop_now(void *arg) {
    struct opc_program *p = arg;
    co_loop_stop(p->loop);
}

static void requests_drained(void *arg) {
    struct opc_program *p = arg;
    if (p->drained) {
        return;
    }
    p->drained = true;
    if (p->lease) {
        ctl_lease_release(p->lease, stop_now, p);
    } else {
        stop_now(p);
    }
}

static void plans_ended(void *arg) {
    struct opc_program *p = arg;
    kube_client_drain(p->client, requests_drained, p);
}

static void stop_late(void *arg) {
    struct opc_program *p = arg;
    if (p->late) {
        stop_now(p);
        return;
    }
    p->late = true;
    co_timer_start(p->stop_timer, RELEASE_MS);
    co_log_warn("requests are without an answer, giving them up");
    ctl_controller_lead(p->controller, false);
    requests_drained(p);
}

static void program_signaled(void *arg, int signo) {
    struct opc_program *p = arg;
    if (!co_stops_note(&p->stops, co_now_ms())) {
        return;
    }
    if (p->stopping) {
        stop_now(p); /* asked twice: somebody waits */
        return;
    }
    p->stopping = true;
    co_log_info("stopping", CO_I("signal", signo));
    p->stop_timer = co_timer_new(p->loop, stop_late, p);
    co_timer_start(p->stop_timer, DRAIN_MS);
    ctl_controller_stop(p->controller, plans_ended, p);
}

/* ---- start ------------------------------------------------------------------------------ */

static void shard_admitted(void *arg) {
    struct opc_program *p = arg;
    ctl_controller_lead(p->controller, true);
}

static void leading_changed(void *arg, bool leading) {
    struct opc_program *p = arg;
    if (p->shard) {
        ctl_shard_leased(p->shard, leading);
    }
    ctl_controller_lead(p->controller, leading && !p->shard);
}

static int start_lease(struct opc_program *p, struct co_err *err) {
    if (!p->options.leader_elect) {
        ctl_controller_lead(p->controller, true);
        return 0;
    }
    const char *ns = NULL;
    CO_TRY(opc_options_lease_ns(&p->options, &p->place, &ns, err));
    if (p->shard_id.count) {
        ctl_shard_lease(&p->shard_id, p->lease_name, sizeof(p->lease_name));
        ctl_metrics_lease(p->metrics, p->lease_name);
        p->shard = ctl_shard_new(p->loop, p->client,
            &(struct ctl_shard_opts){
                .ns = ns, .id = p->shard_id, .admitted = shard_admitted, .arg = p});
    }
    p->lease = ctl_lease_new(p->loop, p->client,
        &(struct ctl_lease_opts){.ns = ns,
            .name = p->shard ? p->lease_name : NULL,
            .identity = p->identity,
            .metrics = p->metrics,
            .changed = leading_changed,
            .arg = p});
    return 0;
}

static int start_client(struct opc_program *p, struct co_err *err) {
    const struct opc_options *o = &p->options;
    struct kube_config *config = NULL;
    CO_TRY(kube_config_load(
        &(struct kube_config_opts){.kubeconfig = o->kubeconfig, .context = o->context}, &config,
        err));
    co_log_info("paddle-operator", CO_S("version", co_version), CO_S("server", config->server),
        CO_S("config", config->source), CO_S("namespace", *o->namespace_ ? o->namespace_ : "*"));
    ctl_metrics_server(p->metrics, config->server);
    return kube_client_new(p->loop, config,
        &(struct kube_client_opts){.reply_max = REPLY_MAX,
            .json_only = o->json_only,
            .sample = ctl_metrics_sample,
            .sample_arg = p->metrics},
        &p->client, err);
}

static int open_loop(struct opc_program *p, struct co_err *err) {
    static const int signos[] = {SIGTERM, SIGINT};
    CO_TRY(co_loop_new(&p->loop, err));
    for (size_t i = 0; i < CO_ARRAY_LEN(signos); i++) {
        CO_TRY(co_signal_new(p->loop, signos[i], program_signaled, p, &p->signals[i], err));
    }
    return 0;
}

static int start_program(struct opc_program *p, struct co_err *err) {
    const struct opc_options *o = &p->options;
    CO_TRY(open_loop(p, err));
    CO_TRY(opc_options_shard(o, &p->shard_id, err));
    CO_TRY(start_client(p, err));
    if (is_wanted(o->gate_bind)) {
        struct co_hostport gate;
        CO_TRY(co_parse_hostport("--gate-bind-address", o->gate_bind, &gate, err));
        opc_options_gate_addr(o, &p->place, gate.port, p->gate_addr, sizeof(p->gate_addr));
    }
    if (*o->settings.gate_image && !*p->gate_addr) {
        co_log_warn("no start gate: its address is not known, set --gate-address; kubelet holds "
                    "containers until the addresses are known, which takes it 10 to 15 s");
    }
    p->options.settings.gate_addr = p->gate_addr;
    find_identity(p);
    p->controller = ctl_controller_new(p->loop, p->client,
        &(struct ctl_controller_opts){.ns = *o->namespace_ ? o->namespace_ : NULL,
            .selector = *o->selector ? o->selector : NULL,
            .shard = p->shard_id,
            .settings = o->settings,
            .watch_idle_ms = o->watch_idle_ms,
            .memory = o->memory ? o->memory : find_memory(),
            .instance = *p->place.pod_name ? p->place.pod_name : "paddle-operator",
            .metrics = p->metrics});
    CO_TRY(open_endpoints(p, err));
    return start_lease(p, err);
}

static void program_done(struct opc_program *p) {
    ctl_lease_free(p->lease);
    ctl_shard_free(p->shard);
    ctl_gate_close(p->gate);
    opc_exporter_close(p->exporter);
    co_httpd_close(p->health_httpd);
    ctl_controller_free(p->controller);
    kube_client_free(p->client); /* after those whose requests it may hold */
    co_timer_free(p->stop_timer);
    for (size_t i = 0; i < CO_ARRAY_LEN(p->signals); i++) {
        co_signal_free(p->signals[i]);
    }
    ctl_metrics_free(p->metrics);
    co_loop_free(p->loop);
}

/* A pod that waits at the gate is a connection, and the usual soft limit is 1024. */
static void raise_files(void) {
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int run_program(const struct opc_options *o) {
    struct co_err err = {0};
    CO_CLEANUP(program_done)
    struct opc_program p = {.options = *o, .place = find_place(), .metrics = ctl_metrics_new()};
    if (start_program(&p, &err)) {
        co_log_error("cannot start", CO_E(&err));
        return 1;
    }
    co_loop_run(p.loop);
    co_log_info("stopped");
    return 0;
}

int opc_cmd_run(int argc, char *argv[]) {
    struct co_err err = {0};
    struct opc_options o;
    int r = opc_options_parse(argc, argv, &o, &err);
    if (r == CO_CANCELED) {
        size_t n = 0;
        const struct co_flag *flags = opc_options_flags(&n);
        co_flags_help(stdout, "paddle-operator [run] [flags]", flags, n);
        return 0;
    }
    if (r) {
        (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
        return 2;
    }
    co_log_setup(o.log_level, o.log_format);
    (void)signal(SIGPIPE, SIG_IGN);
    /* A list's text goes back to the system when it is freed: left alone, malloc would learn from
     * it to keep such sizes. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
    raise_files();
    return run_program(&o);
}
