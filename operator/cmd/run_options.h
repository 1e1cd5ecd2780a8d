/* The flags of `paddle-operator run`, what they decide, and what the environment adds to that.
 * Pure but for the parsed flags: nothing here asks the system. */
#pragma once

#include "common/flag.h"
#include "common/log.h"
#include "operator/control/shard.h"
#include "operator/plan/plan.h"

/* Strings are argv's or static; "" where a flag was not given. */
struct opc_options {
    const char *namespace_, *selector, *shard, *lock_ns, *kubeconfig, *context;
    const char *metrics_addr, *metrics_cert, *health_addr, *gate_bind, *gate_addr;
    bool leader_elect, metrics_secure;
    int64_t watch_idle_ms;
    size_t memory;  /* bytes; 0: not given */
    bool json_only; /* not protobuf */
    enum co_log_level log_level;
    enum co_log_format log_format;
    struct plan_settings settings; /* but for gate_addr */
};

/* What a pod's environment says about it; "" where it does not. */
struct opc_pod_env {
    const char *gate_host, *gate_port; /* of the gate's Service */
    const char *pod_ip, *pod_name, *pod_uid, *pod_ns;
};

/* The rows, for --help and docs/. */
const struct co_flag *opc_options_flags(size_t *ret_n);
/* CO_CANCELED: help was asked for. */
CO_MUST_CHECK int opc_options_parse(
    int argc, char *argv[], struct opc_options *ret, struct co_err *err);

/* The part of the jobs that --shard gives this operator; all zero: there are no shards. */
CO_MUST_CHECK int opc_options_shard(
    const struct opc_options *o, struct ctl_shard_id *ret, struct co_err *err);
/* The namespace of the Lease. */
CO_MUST_CHECK int opc_options_lease_ns(const struct opc_options *o, const struct opc_pod_env *place,
    const char **ret_ns, struct co_err *err);
/* Where pods reach the gate, which listens on port; "": nobody knows. */
void opc_options_gate_addr(const struct opc_options *o, const struct opc_pod_env *place,
    uint16_t port, char *ret, size_t size);
/* Stable while the pod lives: a restarted container takes up its own lease at once.  Outside a
 * cluster it is random's. */
void opc_pod_env_identity(
    const struct opc_pod_env *place, const char *host, uint64_t random, char *ret, size_t size);
