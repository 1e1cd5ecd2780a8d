/* The table of flags of `paddle-operator run`, and what they decide together. */
#include "operator/cmd/run_options.h"

#include <inttypes.h>
#include <string.h>

#include "common/parse.h"
#include "operator/api/quantity.h"
#include "operator/api/resources.h"
#include "operator/control/lease.h"
#include "operator/plan/gang.h"

#define PROTO_TYPE "application/vnd.kubernetes.protobuf"
#define JSON_TYPE "application/json"

/* What the rows are parsed into: o as it stands, the rest decides what is left of it. */
static struct {
    struct opc_options o;
    const char *services, *memory, *content_type, *log_level, *log_format, *scheduling,
        *zap_encoder, *zap_level, *ignored;
    bool ignored_bool;
    int64_t prefer_family, server_grace_ms, restart_backoff_ms, give_back_ms;
} flag;

static const struct co_flag flags[] = {
    {"namespace", CO_FLAG_STR, &flag.o.namespace_, "",
        "watch only this namespace; empty: all of them"},
    {"initImage", CO_FLAG_STR, &flag.o.settings.gate_image, "paddlejob/gate:dev",
        "image of the start gate, an init container that waits until all addresses of a job are "
        "known; empty: none, kubelet holds the containers and looks every 10 to 15 s"},
    {"gate-resources", CO_FLAG_STR, &flag.o.settings.gate_resources, PLAN_GATE_RESOURCES,
        "request and limit of the start gate; for cpu, memory and ephemeral-storage as much as the "
        "first container requests if that is more; empty: only that"},
    {"leader-elect", CO_FLAG_BOOL, &flag.o.leader_elect, "false",
        "act only while holding the Lease " CTL_LEASE_NAME},
    {"selector", CO_FLAG_STR, &flag.o.selector, "",
        "label selector of jobs: all others are left alone; operators with different ones need "
        "different --leader-elect-namespace"},
    {"shard", CO_FLAG_STR, &flag.o.shard, "",
        "i/N: one of N operators that share the namespaces, i from 0; needs --leader-elect and, of "
        "all N, the same --leader-elect-namespace"},
    {"leader-elect-namespace", CO_FLAG_STR, &flag.o.lock_ns, "",
        "namespace of the Lease; empty: this pod's"},
    {"metrics-bind-address", CO_FLAG_STR, &flag.o.metrics_addr, ":8080",
        "address of /metrics; 0: none; 64 connections, 32 of one address"},
    {"metrics-secure", CO_FLAG_BOOL, &flag.o.metrics_secure, "false",
        "serve /metrics over TLS, to clients whose bearer token has the right to get /metrics"},
    {"metrics-cert-path", CO_FLAG_STR, &flag.o.metrics_cert, "",
        "folder of tls.crt and tls.key for --metrics-secure, re-read when they change; empty: a "
        "certificate of its own, which proves nothing"},
    {"health-probe-bind-address", CO_FLAG_STR, &flag.o.health_addr, ":8081",
        "address of /healthz and /readyz; 0: none; 64 connections of its own, 32 of one address"},
    {"gate-bind-address", CO_FLAG_STR, &flag.o.gate_bind, ":8082",
        "address of the start gate's endpoint; 0: none; at most 8192 connections, 1024 of one "
        "address (a node's pods share one on the host's network or behind address translation); "
        "half of the open files allowed where that is less"},
    {"gate-address", CO_FLAG_STR, &flag.o.gate_addr, "",
        "where pods reach that endpoint, ip:port, several joined by commas; empty: the Service "
        "paddle-gate and this pod's address, from its environment"},
    {"services", CO_FLAG_STR, &flag.services, "",
        "all: a Service for every pod in every intranet mode, as paddle-operator 0.3.5 makes them"},
    {"prefer-family", CO_FLAG_INT, &flag.prefer_family, "0",
        "4 or 6: address family for endpoints on dual-stack clusters; 0: the cluster's first", 0,
        6},
    {"server-grace", CO_FLAG_DURATION, &flag.server_grace_ms, "30s",
        "time for a job's servers to end by themselves once all workers have succeeded; twice as "
        "long under paddlerun, which ends them"},
    {"restart-backoff", CO_FLAG_DURATION, &flag.restart_backoff_ms, "10s",
        "time before the first restart of a job's pods (backoffLimit); twice as long before each "
        "further one, up to 36 times this"},
    {"give-back-after", CO_FLAG_DURATION, &flag.give_back_ms, "60s",
        "time after which a job deletes its pods, none of which has started, while others of it "
        "are rejected (a quota, for example) and an older job of its namespace waits, too; five "
        "times as long where none does; 0: never"},
    {"watch-idle", CO_FLAG_DURATION, &flag.o.watch_idle_ms, "150s",
        "a watch that is silent for this long is reopened; the API server sends a bookmark "
        "every minute"},
    {"memory", CO_FLAG_STR, &flag.memory, "",
        "memory that this process may take, as 200Mi: an eighth of it to cache jobs, as much to "
        "read those that are not cached; empty: its container's limit, else the machine's"},
    {"kubeconfig", CO_FLAG_STR, &flag.o.kubeconfig, "",
        "kubeconfig file; empty: $KUBECONFIG, in-cluster, ~/.kube/config"},
    {"context", CO_FLAG_STR, &flag.o.context, "", "context of the kubeconfig; empty: its current"},
    {"kube-api-content-type", CO_FLAG_STR, &flag.content_type, PROTO_TYPE,
        "form in which the API server is asked for pods: " PROTO_TYPE ", or " JSON_TYPE
        ", which costs it and the operator more"},
    {"log-level", CO_FLAG_STR, &flag.log_level, "info", "the least that is logged",
        .metavar = "error|warn|info|debug"},
    {"log-format", CO_FLAG_STR, &flag.log_format, "logfmt", "form of log lines",
        .metavar = "logfmt|json"},
    {"scheduling", CO_FLAG_STR, &flag.scheduling, "",
        "place all pods of a job together or none, by groups of this kind: " PLAN_GANG_WORDS
        "; empty: no groups",
        .once = true},
    {"etcd-server", CO_FLAG_STR, &flag.ignored, "", "accepted and ignored, as by 0.3.3 and later"},
    {"zap-devel", CO_FLAG_BOOL, &flag.ignored_bool, "true", "accepted and ignored"},
    {"zap-encoder", CO_FLAG_STR, &flag.zap_encoder, "", "json: as --log-format=json"},
    {"zap-log-level", CO_FLAG_STR, &flag.zap_level, "", "as --log-level; a number above 0: debug"},
    {"zap-stacktrace-level", CO_FLAG_STR, &flag.ignored, "", "accepted and ignored"},
    {"zap-time-encoding", CO_FLAG_STR, &flag.ignored, "", "accepted and ignored"},
    {"port-range", CO_FLAG_STR, &flag.ignored, "", "accepted and ignored (0.3.2 and before)",
        .hidden = true},
};

const struct co_flag *opc_options_flags(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(flags);
    return flags;
}

static int decide_log(struct opc_options *o, struct co_err *err) {
    const char *level = flag.log_level;
    if (*flag.zap_level) {
        level = *flag.zap_level >= '1' && *flag.zap_level <= '9' ? "debug" : flag.zap_level;
    }
    int r = co_log_level_parse(level, &o->log_level, err);
    if (r) {
        return co_err_wrap(err, "flag \"--log-level\"");
    }
    bool json = strcmp(flag.log_format, "json") == 0 || strcmp(flag.zap_encoder, "json") == 0;
    if (!json && strcmp(flag.log_format, "logfmt") != 0) {
        return co_err_set(err, CO_INVALID,
            "flag \"--log-format\": \"%s\" is neither logfmt nor json", flag.log_format);
    }
    o->log_format = json ? CO_LOG_JSON : CO_LOG_LOGFMT;
    return 0;
}

static int decide_memory(struct opc_options *o, struct co_err *err) {
    enum { NANO = 1000000000 };
    struct api_quantity q = {.nano = 0};
    int r = *flag.memory ? api_quantity_parse(flag.memory, &q, err) : 0;
    if (!r && (q.nano < 0 || q.nano / NANO > INT64_MAX)) {
        r = co_err_set(err, CO_INVALID, "\"%s\" is not a size", flag.memory);
    }
    if (r) {
        return co_err_wrap(err, "flag \"--memory\"");
    }
    o->memory = (size_t)(q.nano / NANO);
    return 0;
}

static int decide_gate(const struct opc_options *o, struct co_err *err) {
    CO_AUTOJSON json_t *list = NULL;
    int r = api_resources_parse(o->settings.gate_resources, &list, err);
    return r ? co_err_wrap(err, "flag \"--gate-resources\"") : 0;
}

static int decide(struct opc_options *o, struct co_err *err) {
    if (!co_streq(flag.content_type, PROTO_TYPE) && !co_streq(flag.content_type, JSON_TYPE)) {
        return co_err_set(err, CO_INVALID,
            "flag \"--kube-api-content-type\": \"%s\" is neither " PROTO_TYPE " nor " JSON_TYPE,
            flag.content_type);
    }
    if (*flag.scheduling && !plan_gang_find(flag.scheduling)) {
        return co_err_set(err, CO_INVALID,
            "flag \"--scheduling\": \"%s\" is not one of " PLAN_GANG_WORDS, flag.scheduling);
    }
    if (*flag.services && strcmp(flag.services, "all") != 0) {
        return co_err_set(
            err, CO_INVALID, "flag \"--services\": \"%s\" is neither empty nor all", flag.services);
    }
    if (flag.prefer_family != 0 && flag.prefer_family != 4 && flag.prefer_family != 6) {
        return co_err_set(err, CO_INVALID, "flag \"--prefer-family\": expected 0, 4 or 6");
    }
    o->json_only = co_streq(flag.content_type, JSON_TYPE);
    o->settings.gang = plan_gang_find(flag.scheduling);
    o->settings.services_all = *flag.services != '\0';
    o->settings.prefer_family = (int)flag.prefer_family;
    o->settings.server_grace = flag.server_grace_ms / 1000;
    o->settings.restart_backoff = flag.restart_backoff_ms / 1000;
    o->settings.give_back_after = flag.give_back_ms / 1000;
    CO_TRY(decide_memory(o, err));
    CO_TRY(decide_gate(o, err));
    return decide_log(o, err);
}

int opc_options_parse(int argc, char *argv[], struct opc_options *ret, struct co_err *err) {
    int rest = argc;
    CO_TRY(co_flags_parse(flags, CO_ARRAY_LEN(flags), argc, argv, &rest, err));
    if (rest < argc) {
        return co_err_set(err, CO_INVALID, "\"%s\" is not a flag", argv[rest]);
    }
    struct opc_options o = flag.o;
    CO_TRY(decide(&o, err));
    *ret = o;
    return 0;
}

int opc_options_shard(const struct opc_options *o, struct ctl_shard_id *ret, struct co_err *err) {
    struct ctl_shard_id id = {0};
    if (*o->shard) {
        CO_TRY(ctl_shard_parse(o->shard, &id, err));
        if (!o->leader_elect) {
            return co_err_set(err, CO_INVALID,
                "--shard needs --leader-elect: leases keep two from having the same jobs");
        }
    }
    *ret = id;
    return 0;
}

int opc_options_lease_ns(const struct opc_options *o, const struct opc_pod_env *place,
    const char **ret_ns, struct co_err *err) {
    const char *ns = *o->lock_ns ? o->lock_ns : place->pod_ns;
    if (!*ns) {
        return co_err_set(
            err, CO_INVALID, "--leader-elect outside a cluster needs --leader-elect-namespace");
    }
    *ret_ns = ns;
    return 0;
}

/* The Service's address stays when this pod goes.  Of shards it leads to any, and the others do not
 * know the pod. */
void opc_options_gate_addr(const struct opc_options *o, const struct opc_pod_env *place,
    uint16_t port, char *ret, size_t size) {
    char a[CO_HOST_MAX + 10] = "", b[CO_HOST_MAX + 10] = "";
    if (*o->gate_addr) {
        (void)snprintf(ret, size, "%s", o->gate_addr);
        return;
    }
    if (*place->gate_host && !*o->shard) {
        int64_t service_port = port;
        (void)!co_parse_i64("port", place->gate_port, 1, 65535, &service_port,
            NULL); /* as it was when it is no port */
        co_hostport_format(place->gate_host, (unsigned)service_port, a, sizeof(a));
    }
    if (*place->pod_ip) {
        co_hostport_format(place->pod_ip, port, b, sizeof(b));
    }
    (void)snprintf(ret, size, "%.140s%s%.140s", a, *a && *b ? "," : "", b);
}

void opc_pod_env_identity(
    const struct opc_pod_env *place, const char *host, uint64_t random, char *ret, size_t size) {
    const char *name = *place->pod_name ? place->pod_name : host;
    if (*place->pod_uid) {
        (void)snprintf(ret, size, "%.120s_%.64s", name, place->pod_uid);
    } else {
        (void)snprintf(ret, size, "%.120s_%016" PRIx64, name, random);
    }
}
