/* The admission of a shard: reads the layout, waits for the leases of another layout to expire, and
 * writes the layout. */
#include "operator/control/shard.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/map.h"
#include "common/parse.h"

#define LAYOUT CTL_LEASE_NAME "-shards"

enum { NAME_BYTES = 64, RETRY_MS = 2000, LAYOUT_SECONDS = 3600 };

/* What is remembered of another operator's lease, see ctl_lease_expired. */
struct peer_lease {
    uint64_t hash;
    int64_t since;
};

/* Admission is: GET the layout -> [GET each lease of the layout in force ->] GET the lease of an
 * operator without shards -> create or update the layout.  The answer of a step starts the next
 * one; the timer starts the next attempt. */
struct ctl_shard {
    struct kube_client *client;
    struct ctl_shard_opts opts;
    struct co_timer *timer;
    struct kube_op *op;
    json_t *layout;                              /* as it was read; NULL: it does not exist */
    unsigned in_force;                           /* its N; 0: none */
    unsigned next;                               /* index of the peer to be read next */
    struct peer_lease peers[CTL_SHARDS_MAX + 1]; /* the last is the operator without shards */
    unsigned peers_of;                           /* the N of the peers */
    bool waiting;                                /* it was logged that we wait */
};

int ctl_shard_parse(const char *text, struct ctl_shard_id *ret, struct co_err *err) {
    const char *slash = strchr(text, '/');
    CO_AUTOFREE char *left = co_xstrndup(text, slash ? (size_t)(slash - text) : 0);
    int64_t index = 0;
    int64_t count = 0;
    if (!slash || co_parse_i64("N", slash + 1, 1, CTL_SHARDS_MAX, &count, NULL) ||
        co_parse_i64("i", left, 0, count - 1, &index, NULL)) {
        /* In the manifests i comes from a label of the pod, and is empty where that is missing. */
        return co_err_set(err, CO_INVALID,
            "\"%s\" is not a shard: expected i/N, i from 0 to N-1, N up to %d%s", text,
            CTL_SHARDS_MAX,
            *text == '/' ? "; Kubernetes numbers the pods of a StatefulSet from 1.28 on" : "");
    }
    *ret = (struct ctl_shard_id){(unsigned)index, (unsigned)count};
    return 0;
}

bool ctl_shard_has(const struct ctl_shard_id *id, const char *ns) {
    uint64_t h = co_hash_str(ns);
    h ^= h >> 32; /* the low bits of FNV alone are not random enough */
    return id->count == 0 || h % id->count == id->index;
}

void ctl_shard_lease(const struct ctl_shard_id *id, char *ret, size_t size) {
    (void)snprintf(ret, size, "%s-%u-of-%u", CTL_LEASE_NAME, id->index, id->count);
}

static void seek_again(struct ctl_shard *s) {
    co_timer_start(s->timer, s->opts.retry_ms);
}

static void say_failure(struct ctl_shard *s, const char *what, const struct co_err *err) {
    co_log_warn(what, CO_S("lease", LAYOUT), CO_S("namespace", s->opts.ns), CO_E(err));
    seek_again(s);
}

static void send_request(struct ctl_shard *s, struct kube_req *req) {
    req->class = KUBE_CLASS_LEASE;
    req->deadline_ms = s->opts.retry_ms * 2;
    s->op = kube_do(s->client, req);
}

/* ---- the record that says which N is in force --------------------------------------------- */

static void layout_written(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_shard *s = arg;
    (void)reply;
    s->op = NULL;
    if (code == CO_CONFLICT || code == CO_EXISTS) {
        co_timer_start(s->timer, 0); /* another shard wrote it: start over */
    } else if (code) {
        say_failure(s, "shard layout not written, retrying", err);
    } else {
        co_log_info("shard admitted", CO_I("shard", s->opts.id.index), CO_I("of", s->opts.id.count),
            CO_I("before", s->in_force));
        s->waiting = false;
        s->opts.admitted(s->opts.arg);
    }
}

static void write_layout(struct ctl_shard *s) {
    char count[16];
    char now[40];
    (void)snprintf(count, sizeof(count), "%u", s->opts.id.count);
    ctl_lease_time(now);
    CO_AUTOJSON json_t *body = json_pack("{s:s,s:s,s:{s:s,s:s,s:s*},s:{s:s,s:i,s:s}}", "apiVersion",
        "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name", LAYOUT, "namespace",
        s->opts.ns, "resourceVersion", co_json_str(s->layout, "metadata", "resourceVersion"),
        "spec", "holderIdentity", count, "leaseDurationSeconds", LAYOUT_SECONDS, "renewTime", now);
    struct kube_req req = kube_req_for(s->layout ? KUBE_UPDATE : KUBE_CREATE, &ctl_lease_type,
        s->opts.ns, s->layout ? LAYOUT : NULL, layout_written, s);
    req.body = body;
    send_request(s, &req);
}

/* ---- operators of another layout that may still act --------------------------------------- */

static void look_at_peer(struct ctl_shard *s);

static void peer_read(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_shard *s = arg;
    s->op = NULL;
    if (code && code != CO_NOTFOUND) {
        say_failure(s, "lease of another shard not read, retrying", err);
        return;
    }
    const json_t *spec = code ? NULL : co_json_at(reply->body, "spec");
    const char *holder = co_json_str(spec, "holderIdentity");
    struct peer_lease *p = &s->peers[s->next];
    if (holder && *holder && !ctl_lease_expired(spec, &p->hash, &p->since)) {
        if (!s->waiting) {
            s->waiting = true;
            co_log_info("waiting for an operator with another number of shards",
                CO_S("holder", holder),
                CO_I("shards", s->next == CTL_SHARDS_MAX ? 0 : s->in_force));
        }
        seek_again(s);
        return;
    }
    s->next++;
    look_at_peer(s);
}

/* Reads the lease of peer s->next; after the shards comes the operator without shards, and after
 * that the layout is written. */
static void look_at_peer(struct ctl_shard *s) {
    if (s->next > CTL_SHARDS_MAX) {
        write_layout(s);
        return;
    }
    if (s->next >= s->in_force) {
        s->next = CTL_SHARDS_MAX;
    }
    char name[NAME_BYTES] = CTL_LEASE_NAME;
    if (s->next < CTL_SHARDS_MAX) {
        ctl_shard_lease(&(struct ctl_shard_id){s->next, s->in_force}, name, sizeof(name));
    }
    struct kube_req req = kube_req_for(KUBE_GET, &ctl_lease_type, s->opts.ns, name, peer_read, s);
    send_request(s, &req);
}

static void layout_read(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_shard *s = arg;
    s->op = NULL;
    if (code && code != CO_NOTFOUND) {
        say_failure(s, "shard layout not read, retrying", err);
        return;
    }
    co_json_decref(&s->layout);
    s->layout = code ? NULL : json_incref(reply->body);
    const char *text = co_json_str(s->layout, "spec", "holderIdentity");
    int64_t count = 0;
    if (s->layout && co_parse_i64("layout", text ? text : "", 1, CTL_SHARDS_MAX, &count, NULL)) {
        co_log_warn("shard layout is invalid, ignoring it", CO_S("lease", LAYOUT));
        count = 0;
    }
    s->in_force = (unsigned)count;
    if (s->peers_of != s->in_force) {
        memset(s->peers, 0, sizeof(s->peers));
        s->peers_of = s->in_force;
    }
    /* Shards of the same layout exclude each other by their own leases. */
    s->next = s->in_force == s->opts.id.count ? CTL_SHARDS_MAX : 0;
    look_at_peer(s);
}

static void seek_leases(void *arg) {
    struct ctl_shard *s = arg;
    struct kube_req req =
        kube_req_for(KUBE_GET, &ctl_lease_type, s->opts.ns, LAYOUT, layout_read, s);
    send_request(s, &req);
}

/* ---- life --------------------------------------------------------------------------------- */

void ctl_shard_leased(struct ctl_shard *s, bool leased) {
    kube_cancel(co_steal_ptr(s->op));
    co_timer_stop(s->timer);
    if (leased) {
        co_timer_start(s->timer, 0);
    }
}

struct ctl_shard *ctl_shard_new(
    struct co_loop *loop, struct kube_client *client, const struct ctl_shard_opts *opts) {
    struct ctl_shard *s = co_xcalloc(1, sizeof(*s));
    s->client = client;
    s->opts = *opts;
    s->opts.retry_ms = opts->retry_ms ? opts->retry_ms : RETRY_MS;
    s->timer = co_timer_new(loop, seek_leases, s);
    return s;
}

void ctl_shard_free(struct ctl_shard *s) {
    if (s) {
        kube_cancel(s->op);
        co_timer_free(s->timer);
        co_json_decref(&s->layout);
        free(s);
    }
}
