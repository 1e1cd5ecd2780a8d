/* Which host ports are taken: those of live jobs in the store, and those of other shards. */
#include "operator/control/host_ports.h"

#include <string.h>

#include "common/contract.h"

/* The ports of all entries but one, sorted once it is complete. */
struct taken {
    const struct ctl_entry *except;
    uint16_t *port;
    size_t n;
};

/* The port in the job's ConfigMap.  Needed for jobs that have not been reconciled since the start:
 * one of them may be in Host mode. */
static uint16_t stored_port(const struct ctl_entry *e) {
    for (const struct ctl_stored *st = e->children; st; st = st->next) {
        if (st->kind == CTL_STORE_CONFIGMAPS && strcmp(st->child->name, e->name) == 0) {
            return st->configmap->port;
        }
    }
    return 0;
}

static void add_port(struct taken *t, uint16_t port) {
    t->port = co_xrealloc(t->port, t->n + 1, sizeof(*t->port));
    t->port[t->n++] = port;
}

static void add_of_entry(void *arg, struct ctl_entry *e) {
    struct taken *t = arg;
    if (e == t->except) {
        return;
    }
    uint16_t port = e->port.known ? e->port.number : stored_port(e);
    if (port) {
        add_port(t, port);
    }
}

static int by_port(const void *a, const void *b) {
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

static struct taken taken_by_others(
    const struct ctl_store *s, const struct ctl_entry *e, const struct ctl_shard_id *shard) {
    struct taken t = {.except = e};
    ctl_store_each(s, add_of_entry, &t);
    /* The store has no jobs of other shards, so each shard allocates from ports of its own. */
    for (unsigned slot = 0; shard->count > 1 && slot < CO_PORT_SLOTS; slot++) {
        if (slot % shard->count != shard->index) {
            add_port(&t, (uint16_t)(CO_PORT_BASE + CO_PORT_SPAN * slot));
        }
    }
    if (t.n) {
        qsort(t.port, t.n, sizeof(*t.port), by_port);
    }
    return t;
}

/* Pods are created before the ConfigMap that records their port.  The entry remembers it until
 * then, so that no job that is reconciled meanwhile gets the same. */
uint16_t *ctl_ports_settle(const struct ctl_store *s, struct ctl_entry *e,
    const struct ctl_shard_id *shard, const struct api_job *job, struct plan_seen *seen) {
    e->port.known = true;
    if (job->intranet != API_HOST || job->elsewhere || api_phase_terminal(job->phase)) {
        e->port.number = 0;
        return NULL;
    }
    if (seen->configmap && seen->configmap->port) {
        e->port.number = seen->configmap->port;
        return NULL;
    }
    struct taken t = taken_by_others(s, e, shard);
    seen->ports_taken = t.port;
    seen->n_ports_taken = t.n;
    e->port.number = plan_port(job->uid, t.port, t.n);
    return t.port;
}
