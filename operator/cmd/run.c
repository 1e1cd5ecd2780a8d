#include "operator/cmd/cmd.h"
#include "operator/cmd/exporter.h"

#include "common/httpd.h"
#include "common/log.h"
#include "common/version.h"
#include "operator/control/controller.h"
#include "operator/control/gate.h"
#include "operator/control/lease.h"
#include "operator/plan/gang.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* The manifest gives ten seconds: what is in flight has the first of them to end in order, giving
 * the lease back the rest. */
enum { DRAIN_MS = 6000, RELEASE_MS = 2000, FILES_MAX = 65536 };
/* A list comes in pages that fit, and in memory it is some times as large. */
enum { REPLY_MAX = 12 << 20 };
enum { LARGE = 128 * 1024 };
#define PROTO_TYPE "application/vnd.kubernetes.protobuf"
#define JSON_TYPE "application/json"

static struct {
    const char *namespace_, *scheduling, *init_image, *metrics_addr, *health_addr, *gate_bind,
        *gate_addr, *etcd, *kubeconfig, *context, *services, *zap_encoder, *zap_level, *zap_stack,
        *zap_time, *port_range, *lock_ns, *log_format, *log_level, *metrics_cert, *shard, *selector,
        *content_type;
    bool leader_elect, zap_devel, metrics_secure;
    int64_t prefer_family, server_grace_ms, restart_backoff_ms, watch_idle_ms;
} flag;

static const struct co_flag flags[] = {
    {"namespace", CO_FLAG_STR, &flag.namespace_, "",
        "watch only this namespace; empty: all of them"},
    {"initImage", CO_FLAG_STR, &flag.init_image, "paddlejob/gate:dev",
        "image of the start gate, an init container that waits until all addresses of a job are "
        "known; empty: none, kubelet holds the containers and looks every 10 to 15 s"},
    {"leader-elect", CO_FLAG_BOOL, &flag.leader_elect, "false",
        "act only while holding the Lease " OP_LEASE_NAME},
    {"selector", CO_FLAG_STR, &flag.selector, "",
        "label selector of jobs: all others are left alone; operators with different ones need "
        "different --leader-elect-namespace"},
    {"shard", CO_FLAG_STR, &flag.shard, "",
        "i/N: one of N operators that share the namespaces, i from 0; needs --leader-elect and, of "
        "all N, the same --leader-elect-namespace"},
    {"leader-elect-namespace", CO_FLAG_STR, &flag.lock_ns, "",
        "namespace of the Lease; empty: this pod's"},
    {"metrics-bind-address", CO_FLAG_STR, &flag.metrics_addr, ":8080",
        "address of /metrics; 0: none"},
    {"metrics-secure", CO_FLAG_BOOL, &flag.metrics_secure, "false",
        "serve /metrics over TLS, to those whose bearer token the API server lets get this path"},
    {"metrics-cert-path", CO_FLAG_STR, &flag.metrics_cert, "",
        "folder of tls.crt and tls.key for --metrics-secure, re-read when they change; empty: a "
        "certificate of its own, which proves nothing"},
    {"health-probe-bind-address", CO_FLAG_STR, &flag.health_addr, ":8081",
        "address of /healthz and /readyz; 0: none"},
    {"gate-bind-address", CO_FLAG_STR, &flag.gate_bind, ":8082",
        "address of the start gate's endpoint; 0: none"},
    {"gate-address", CO_FLAG_STR, &flag.gate_addr, "",
        "where pods reach that endpoint, ip:port, several joined by commas; empty: the Service "
        "paddle-gate and this pod's address, as its environment tells"},
    {"services", CO_FLAG_STR, &flag.services, "",
        "all: a Service for every pod in every intranet mode, as paddle-operator 0.3.5 makes them"},
    {"prefer-family", CO_FLAG_INT, &flag.prefer_family, "0",
        "4 or 6: address family for endpoints on dual-stack clusters; 0: the cluster's first", 0,
        6},
    {"server-grace", CO_FLAG_DURATION, &flag.server_grace_ms, "30s",
        "time for a job's servers to end by themselves once all workers have succeeded"},
    {"restart-backoff", CO_FLAG_DURATION, &flag.restart_backoff_ms, "10s",
        "time before the first restart of a job's pods (backoffLimit); twice as long before each "
        "further one, up to 36 times this"},
    {"watch-idle", CO_FLAG_DURATION, &flag.watch_idle_ms, "150s",
        "a watch that is silent for this long is opened anew; the API server sends a bookmark "
        "every minute"},
    {"kubeconfig", CO_FLAG_STR, &flag.kubeconfig, "",
        "kubeconfig file; empty: $KUBECONFIG, in-cluster, ~/.kube/config"},
    {"context", CO_FLAG_STR, &flag.context, "", "context of the kubeconfig; empty: its current"},
    {"kube-api-content-type", CO_FLAG_STR, &flag.content_type, PROTO_TYPE,
        "form in which the API server is asked for pods: " PROTO_TYPE ", or " JSON_TYPE
        ", which costs it and the operator more"},
    {"log-level", CO_FLAG_STR, &flag.log_level, "info", "error, warn, info or debug"},
    {"log-format", CO_FLAG_STR, &flag.log_format, "logfmt", "logfmt or json"},
    {"scheduling", CO_FLAG_STR, &flag.scheduling, "",
        "place all pods of a job together or none, by groups of this kind: " OP_GANG_WORDS
        "; empty: no groups",
        .once = true},
    {"etcd-server", CO_FLAG_STR, &flag.etcd, "", "accepted and ignored, as by 0.3.3 and later"},
    {"zap-devel", CO_FLAG_BOOL, &flag.zap_devel, "true", "accepted and ignored"},
    {"zap-encoder", CO_FLAG_STR, &flag.zap_encoder, "", "json: as --log-format=json"},
    {"zap-log-level", CO_FLAG_STR, &flag.zap_level, "", "as --log-level; a number above 0: debug"},
    {"zap-stacktrace-level", CO_FLAG_STR, &flag.zap_stack, "", "accepted and ignored"},
    {"zap-time-encoding", CO_FLAG_STR, &flag.zap_time, "", "accepted and ignored"},
    {"port-range", CO_FLAG_STR, &flag.port_range, "", "accepted and ignored (0.3.2 and before)",
        .hidden = true},
};

const struct co_flag *op_cmd_run_flags(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(flags);
    return flags;
}

struct op_program {
    struct co_loop *loop;
    struct op_metrics *metrics;
    struct op_kube_client *client;
    struct op_controller *controller;
    struct op_lease *lease;
    struct op_gate *gate;
    struct op_exporter *exporter;
    struct co_httpd *health_httpd;
    struct co_signal *signals[2];
    struct co_timer *stop_timer;
    bool stopping, drained, late;
    struct op_shard_id shard_id;
    struct op_shard *shard;
    char identity[256], gate_addr[300], lease_name[64];
};

/* ---- flags ------------------------------------------------------------------------------ */

static int setup_log(struct co_err *err) {
    const char *level = flag.log_level;
    if (*flag.zap_level) {
        level = *flag.zap_level >= '1' && *flag.zap_level <= '9' ? "debug" : flag.zap_level;
    }
    enum co_log_level l;
    int r = co_log_level_parse(level, &l, err);
    if (r) {
        return co_err_wrap(err, "flag \"--log-level\"");
    }
    bool json = strcmp(flag.log_format, "json") == 0 || strcmp(flag.zap_encoder, "json") == 0;
    if (!json && strcmp(flag.log_format, "logfmt") != 0) {
        return co_err_set(err, CO_INVALID,
            "flag \"--log-format\": \"%s\" is neither logfmt nor json", flag.log_format);
    }
    co_log_setup(l, json ? CO_LOG_JSON : CO_LOG_LOGFMT);
    return 0;
}

static int check_flags(struct co_err *err) {
    if (!co_streq(flag.content_type, PROTO_TYPE) && !co_streq(flag.content_type, JSON_TYPE)) {
        return co_err_set(err, CO_INVALID,
            "flag \"--kube-api-content-type\": \"%s\" is neither " PROTO_TYPE " nor " JSON_TYPE,
            flag.content_type);
    }
    if (*flag.scheduling && !op_gang_find(flag.scheduling)) {
        return co_err_set(err, CO_INVALID,
            "flag \"--scheduling\": \"%s\" is none of " OP_GANG_WORDS, flag.scheduling);
    }
    if (*flag.services && strcmp(flag.services, "all") != 0) {
        return co_err_set(
            err, CO_INVALID, "flag \"--services\": \"%s\" is neither empty nor all", flag.services);
    }
    if (flag.prefer_family != 0 && flag.prefer_family != 4 && flag.prefer_family != 6) {
        return co_err_set(err, CO_INVALID, "flag \"--prefer-family\": expected 0, 4 or 6");
    }
    return setup_log(err);
}

static const char *env_or(const char *name, const char *otherwise) {
    const char *v = getenv(name);
    return v && *v ? v : otherwise;
}

/* Where pods reach the gate: the Service's address stays when this pod goes. */
static void find_gate_addr(struct op_program *p, uint16_t port) {
    const char *service = env_or("PADDLE_GATE_SERVICE_HOST", "");
    const char *pod = env_or("POD_IP", "");
    char a[CO_HOST_MAX + 10] = "", b[CO_HOST_MAX + 10] = "";
    if (*flag.gate_addr) {
        (void)snprintf(p->gate_addr, sizeof(p->gate_addr), "%s", flag.gate_addr);
        return;
    }
    if (p->shard_id.count) {
        service = ""; /* it leads to any of the shards, and the others do not know the pod */
    }
    if (*service) {
        int64_t service_port = port;
        (void)!co_parse_i64("port", env_or("PADDLE_GATE_SERVICE_PORT", ""), 1, 65535, &service_port,
            NULL); /* as it was when it is no port */
        co_hostport_format(service, (unsigned)service_port, a, sizeof(a));
    }
    if (*pod) {
        co_hostport_format(pod, port, b, sizeof(b));
    }
    (void)snprintf(p->gate_addr, sizeof(p->gate_addr), "%.140s%s%.140s", a, *a && *b ? "," : "", b);
}

/* Stable while the pod lives: a restarted container takes up its own lease at once. */
static void find_identity(struct op_program *p) {
    char host[128] = "unknown";
    (void)gethostname(host, sizeof(host) - 1);
    const char *uid = env_or("POD_UID", "");
    uint64_t random = 0;
    (void)!getrandom(&random, sizeof(random), 0);
    if (*uid) {
        (void)snprintf(
            p->identity, sizeof(p->identity), "%.120s_%.64s", env_or("POD_NAME", host), uid);
    } else {
        (void)snprintf(p->identity, sizeof(p->identity), "%.120s_%016" PRIx64,
            env_or("POD_NAME", host), random);
    }
}

/* ---- endpoints -------------------------------------------------------------------------- */

static void serve_health(void *arg, struct co_http_req *req) {
    (void)arg;
    co_http_replyf(req, 200, "ok");
}

static void serve_ready(void *arg, struct co_http_req *req) {
    const struct op_program *p = arg;
    if (p->stopping) {
        co_http_replyf(req, 503, "stopping");
    } else if (!op_controller_synced(p->controller)) {
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

static int open_endpoints(struct op_program *p, struct co_err *err) {
    int r = 0;
    if (is_wanted(flag.metrics_addr)) {
        r = op_exporter_open(p->loop,
            &(struct op_exporter_opts){.addr = flag.metrics_addr,
                .secure = flag.metrics_secure,
                .cert_dir = flag.metrics_cert,
                .client = p->client,
                .controller = p->controller,
                .metrics = p->metrics},
            &p->exporter, err);
    }
    if (!r && is_wanted(flag.health_addr)) {
        r = co_httpd_open(p->loop, flag.health_addr, health_routes, CO_ARRAY_LEN(health_routes), p,
            NULL, &p->health_httpd, err);
    }
    if (!r && is_wanted(flag.gate_bind)) {
        r = op_gate_open(p->loop, flag.gate_bind, p->controller, p->metrics, &p->gate, err);
    }
    return r;
}

/* ---- stop ------------------------------------------------------------------------------- */

static void stop_now(void *arg) {
    struct op_program *p = arg;
    co_loop_stop(p->loop);
}

static void requests_drained(void *arg) {
    struct op_program *p = arg;
    if (p->drained) {
        return;
    }
    p->drained = true;
    if (p->lease) {
        op_lease_release(p->lease, stop_now, p);
    } else {
        stop_now(p);
    }
}

static void plans_ended(void *arg) {
    struct op_program *p = arg;
    op_kube_client_drain(p->client, requests_drained, p);
}

static void stop_late(void *arg) {
    struct op_program *p = arg;
    if (p->late) {
        stop_now(p);
        return;
    }
    p->late = true;
    co_timer_start(p->stop_timer, RELEASE_MS);
    co_log_warn("requests are without an answer, giving them up");
    op_controller_lead(p->controller, false);
    requests_drained(p);
}

static void program_signaled(void *arg, int signo) {
    struct op_program *p = arg;
    if (p->stopping) {
        stop_now(p); /* asked twice: somebody waits */
        return;
    }
    p->stopping = true;
    co_log_info("stopping", CO_I("signal", signo));
    p->stop_timer = co_timer_new(p->loop, stop_late, p);
    co_timer_start(p->stop_timer, DRAIN_MS);
    op_controller_stop(p->controller, plans_ended, p);
}

/* ---- start ------------------------------------------------------------------------------ */

static void shard_admitted(void *arg) {
    struct op_program *p = arg;
    op_controller_lead(p->controller, true);
}

static void leading_changed(void *arg, bool leading) {
    struct op_program *p = arg;
    if (p->shard) {
        op_shard_leased(p->shard, leading);
    }
    op_controller_lead(p->controller, leading && !p->shard);
}

static int start_lease(struct op_program *p, struct co_err *err) {
    if (!flag.leader_elect) {
        op_controller_lead(p->controller, true);
        return 0;
    }
    const char *ns = *flag.lock_ns ? flag.lock_ns : env_or("POD_NAMESPACE", "");
    if (!*ns) {
        return co_err_set(
            err, CO_INVALID, "--leader-elect outside a cluster needs --leader-elect-namespace");
    }
    if (p->shard_id.count) {
        op_shard_lease(&p->shard_id, p->lease_name, sizeof(p->lease_name));
        op_metrics_lease(p->metrics, p->lease_name);
        p->shard = op_shard_new(p->loop, p->client,
            &(struct op_shard_opts){
                .ns = ns, .id = p->shard_id, .admitted = shard_admitted, .arg = p});
    }
    p->lease = op_lease_new(p->loop, p->client,
        &(struct op_lease_opts){.ns = ns,
            .name = p->shard ? p->lease_name : NULL,
            .identity = p->identity,
            .metrics = p->metrics,
            .changed = leading_changed,
            .arg = p});
    return 0;
}

static int start_client(struct op_program *p, struct co_err *err) {
    struct op_kube_config *config = NULL;
    int r = op_kube_config_load(
        &(struct op_kube_config_opts){.kubeconfig = flag.kubeconfig, .context = flag.context},
        &config, err);
    if (r) {
        return r;
    }
    co_log_info("paddle-operator", CO_S("version", co_version), CO_S("server", config->server),
        CO_S("config", config->source),
        CO_S("namespace", *flag.namespace_ ? flag.namespace_ : "*"));
    op_metrics_server(p->metrics, config->server);
    return op_kube_client_new(p->loop, config,
        &(struct op_kube_client_opts){.reply_max = REPLY_MAX,
            .json_only = co_streq(flag.content_type, JSON_TYPE),
            .sample = op_metrics_sample,
            .sample_arg = p->metrics},
        &p->client, err);
}

static int start_program(struct op_program *p, struct co_err *err) {
    struct co_hostport gate = {0};
    int r = *flag.shard ? op_shard_parse(flag.shard, &p->shard_id, err) : 0;
    if (!r && *flag.shard && !flag.leader_elect) {
        r = co_err_set(err, CO_INVALID,
            "--shard needs --leader-elect: leases keep two from having the same jobs");
    }
    r = r ? r : start_client(p, err);
    if (!r && is_wanted(flag.gate_bind)) {
        r = co_parse_hostport("--gate-bind-address", flag.gate_bind, &gate, err);
        find_gate_addr(p, gate.port);
    }
    if (r) {
        return r;
    }
    if (*flag.init_image && !*p->gate_addr) {
        co_log_warn("no start gate: its address is not known, set --gate-address; kubelet holds "
                    "containers until the addresses are known, which takes it 10 to 15 s");
    }
    find_identity(p);
    p->controller = op_controller_new(p->loop, p->client,
        &(struct op_controller_opts){.ns = *flag.namespace_ ? flag.namespace_ : NULL,
            .selector = *flag.selector ? flag.selector : NULL,
            .shard = p->shard_id,
            .settings = {.gate_image = flag.init_image,
                .gate_addr = p->gate_addr,
                .prefer_family = (int)flag.prefer_family,
                .services_all = *flag.services != '\0',
                .gang = op_gang_find(flag.scheduling),
                .server_grace = flag.server_grace_ms / 1000,
                .restart_backoff = flag.restart_backoff_ms / 1000},
            .watch_idle_ms = flag.watch_idle_ms,
            .instance = env_or("POD_NAME", "paddle-operator"),
            .metrics = p->metrics});
    r = open_endpoints(p, err);
    return r ? r : start_lease(p, err);
}

static void program_done(struct op_program *p) {
    op_lease_free(p->lease);
    op_shard_free(p->shard);
    op_gate_close(p->gate);
    op_exporter_close(p->exporter);
    co_httpd_close(p->health_httpd);
    op_controller_free(p->controller);
    op_kube_client_free(p->client); /* after those whose requests it may hold */
    co_timer_free(p->stop_timer);
    for (size_t i = 0; i < CO_ARRAY_LEN(p->signals); i++) {
        co_signal_free(p->signals[i]);
    }
    op_metrics_free(p->metrics);
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

static int run_program(void) {
    struct co_err err = {0};
    CO_CLEANUP(program_done) struct op_program p = {.metrics = op_metrics_new()};
    int r = co_loop_new(&p.loop, &err);
    static const int signos[] = {SIGTERM, SIGINT};
    for (size_t i = 0; !r && i < CO_ARRAY_LEN(signos); i++) {
        r = co_signal_new(p.loop, signos[i], program_signaled, &p, &p.signals[i], &err);
    }
    r = r ? r : start_program(&p, &err);
    if (r) {
        co_log_error("cannot start", CO_E(&err));
        return 1;
    }
    co_loop_run(p.loop);
    co_log_info("stopped");
    return 0;
}

int op_cmd_run(int argc, char *argv[]) {
    struct co_err err = {0};
    int rest = argc;
    int r = co_flags_parse(flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &err);
    if (r == CO_CANCELED) {
        co_flags_help(stdout, "paddle-operator [run] [flags]", flags, CO_ARRAY_LEN(flags));
        return 0;
    }
    if (!r && rest < argc) {
        r = co_err_set(&err, CO_INVALID, "\"%s\" is no flag", argv[rest]);
    }
    r = r ? r : check_flags(&err);
    if (r) {
        (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    /* A list's text goes back to the system when it is freed: left alone, malloc would learn from
     * it to keep such sizes. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
    raise_files();
    return run_program();
}
