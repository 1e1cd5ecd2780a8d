/* Opens, derives and closes groups: resolves the options, names the machine, opens the door. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/map.h"
#include "common/parse.h"
#include "common/spare.h"
#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/coll/address.h"
#include "runtime/train/coll/arena.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/gpu.h"

enum { DEFAULT_MS = 600 * 1000, DEFAULT_LANES = 2 };

/* Sets the node id.  Ranks with equal node ids share memory: they have the same kernel, network
 * namespace and user, or the same `node` option.  If that cannot be found out, or if only TCP is
 * wanted, the rank gets an id of its own. */
static void name_node(struct rt_group *g, const char *node) {
    struct {
        uint64_t boot, net, user;
    } me = {0};
    char boot[64] = "";
    struct stat net;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool known = f && fgets(boot, sizeof(boot), f) && stat("/proc/self/ns/net", &net) == 0;
    if (f) {
        (void)fclose(f);
    }
    if (g->transport == RT_TRANSPORT_TCP || (!known && !node)) {
        me.boot = g->rank + 1;
    } else if (node) {
        me.boot = co_hash_str(node);
        me.net = 1;
    } else {
        me.boot = co_hash_str(boot);
        me.net = (uint64_t)net.st_ino << 20 ^ (uint64_t)net.st_dev;
        me.user = geteuid() + 1;
    }
    uint64_t h[2] = {co_hash(&me, sizeof(me)), 0};
    h[1] = coll_hash_more(h[0], &me, sizeof(me));
    memcpy(g->node, h, sizeof(g->node));
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        co_close(*fd);
        *fd = -1;
    }
}

static void end_connections(struct rt_group *g, void (*end)(struct net_stream *s)) {
    for (uint32_t r = 0; r < g->size; r++) {
        end(&g->peers[r].control);
        for (uint32_t k = 0; k < COLL_LANES_MAX; k++) {
            end(&g->peers[r].lanes[k]);
        }
    }
}

/* In a forked child: the other ranks must see when the parent ends, and its endpoint be free. */
static void close_in_child(struct co_fork *f) {
    struct rt_group *g = (struct rt_group *)((char *)f - offsetof(struct rt_group, fork));
    end_connections(g, net_stream_disown);
    if (g->door) {
        close_fd(&g->door->fd);
    }
}

int coll_group_refuse(struct rt_group *g, const char *what, struct co_err *err) {
    if (g->fork.forked) {
        (void)co_fork_refuse("the group", err);
        return co_err_wrap(err, "%s", what);
    }
    (void)coll_group_fail(g, CO_INVALID, g->size, true,
        "%s, while another thread of rank %u is in a call: one thread at a time uses a group", what,
        g->rank);
    (void)coll_group_why(g, err);
    return CO_INVALID;
}

static struct rt_group *group_new(uint32_t size, uint32_t rank) {
    struct rt_group *g = co_xcalloc(1, sizeof(*g));
    g->size = size;
    g->rank = rank;
    g->epoll = g->wake = -1;
    g->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->alarm = g->alarm < 0 ? -errno : g->alarm;
    g->failed_rank = size;
    g->endpoints = co_xcalloc(size, sizeof(*g->endpoints));
    g->peers = co_xcalloc(size, sizeof(*g->peers));
    g->all = co_xcalloc(size, sizeof(*g->all));
    for (uint32_t r = 0; r < size; r++) {
        g->all[r] = r;
        g->peers[r].control.fd = -1;
        for (uint32_t k = 0; k < COLL_LANES_MAX; k++) {
            g->peers[r].lanes[k].fd = -1;
        }
    }
    g->kernels = coll_kernels_get(0);
    pthread_mutex_init(&g->m, NULL);
    co_cond_init(&g->changed);
    co_fork_watch(&g->fork, close_in_child);
    return g;
}

void rt_group_close(struct rt_group *g) {
    if (!g) {
        return;
    }
    if (g->fork.forked) { /* what is the parent's stays: its threads, its GPU, its goodbye */
        coll_queue_forget(g);
    } else {
        coll_queue_stop(g);
        coll_gpu_close(g);
        coll_monitor_stop(g);
        pthread_mutex_destroy(&g->m);
        pthread_cond_destroy(&g->changed);
    }
    co_fork_unwatch(&g->fork);
    end_connections(g, net_stream_close);
    for (uint32_t r = 0; r < g->size; r++) {
        struct coll_peer *p = &g->peers[r];
        free(p->message);
        free(p->dead);
        free(p->goodbye);
        free(g->endpoints[r]);
    }
    close_fd(&g->epoll);
    close_fd(&g->wake);
    close_fd(&g->alarm);
    coll_arena_free(g->arena);
    coll_shm_unmap(&g->shm);
    coll_door_unref(g->door);
    free(g->endpoints);
    free(g->peers);
    free(g->name);
    free(g->waits_for);
    free(g->token);
    free(g->all);
    free(g->locals);
    free(g->leaders);
    free(g->share);
    free(g->scratch);
    free(g->agreed);
    free(g);
}

/* Hashes what all ranks must agree on to be one group: name, endpoints and generation. */
static void identify(struct rt_group *g, uint64_t generation) {
    uint64_t h = co_hash_str(g->name);
    for (uint32_t r = 0; r < g->size; r++) {
        h = coll_hash_more(h, g->endpoints[r], strlen(g->endpoints[r]) + 1);
    }
    g->job = coll_hash_more(h, &generation, sizeof(generation));
    g->id = coll_hash_more(g->job, "world", 5);
}

/* All ranks of the group come to the same result. */
static int check_nccl(const struct rt_group *g, struct co_err *err) {
    if (!g->device || !g->encrypt || g->n_local == g->size) {
        return 0;
    }
    return co_err_set(err, CO_UNSUPPORTED,
        "the job encrypts (%s), but between machines GPUs send by NCCL, which does not: open the "
        "group without a GPU, or all of its ranks with encrypt set to no",
        co_contract[CO_VAR_JOB_ENCRYPT].name);
}

int coll_group_start(struct rt_group *g, int64_t deadline_ms, struct co_err *err) {
    int rc = g->alarm < 0 ? co_err_errno(err, -g->alarm, "an event for the group")
                          : coll_group_form(g, deadline_ms, err);
    rc = rc == 0 ? check_nccl(g, err) : rc;
    rc = rc == 0 && g->device ? coll_gpu_form(g, err) : rc;
    return rc < 0 ? co_err_wrap(err, "collective group, rank %u of %u", g->rank, g->size) : 0;
}

/* The trainers of the job, each with its endpoint.  One alone needs none. */
static int take_trainers(const struct rt_job *job, struct rt_group_options *o, struct co_err *err) {
    uint32_t n = rt_worker_num_named(job), named = 0;
    if (!rt_is_worker(job)) {
        return co_err_set(err, CO_INVALID, "this process is not a trainer");
    }
    while (named <= n && rt_worker_endpoint(job, named)) {
        named++;
    }
    if (n > 1 && named != n) {
        return co_err_set(err, CO_INVALID,
            "%s has %s%u endpoints, expected one of each of %u trainers",
            co_contract[CO_VAR_TRAINER_ENDPOINTS].name, named > n ? "more than " : "",
            named > n ? n : named, n);
    }
    o->size = n;
    o->rank = rt_worker_index(job);
    return 0;
}

/* Fills options that are not set from the job, the environment or the defaults. */
static int resolve(const struct rt_job *job, struct rt_group_options *o, struct co_err *err) {
    if (!o->endpoints && job) {
        CO_TRY(take_trainers(job, o, err));
    }
    o->name = o->name ? o->name : job ? rt_job_name(job) : "";
    if (!o->token) {
        const char *token = job ? rt_job_token(job) : co_contract_getenv(CO_VAR_JOB_TOKEN);
        o->token = token ? token : "";
    }
    o->call_timeout_ms = o->call_timeout_ms > 0 ? o->call_timeout_ms : DEFAULT_MS;
    o->form_timeout_ms = o->form_timeout_ms > 0 ? o->form_timeout_ms : DEFAULT_MS;
    o->lanes = o->lanes ? o->lanes : DEFAULT_LANES;
    if (o->size < 1 || o->size > COLL_RANKS_MAX || o->rank >= o->size) {
        return co_err_set(err, CO_INVALID,
            "rank %u of %u ranks: expected 1 to %u ranks, and a rank below their number", o->rank,
            o->size, COLL_RANKS_MAX);
    }
    if (o->lanes > COLL_LANES_MAX || o->transport > RT_TRANSPORT_SHM) {
        return co_err_set(err, CO_INVALID,
            "%u lanes and transport %d: expected 1 to %u lanes and a transport of rt.h", o->lanes,
            (int)o->transport, COLL_LANES_MAX);
    }
    return 0;
}

/* What the program says, or the job.  o has the token. */
static int resolve_encrypt(
    const struct rt_job *job, const struct rt_group_options *o, bool *ret, struct co_err *err) {
    const char *text = job ? rt_job_encrypt(job) : co_contract_getenv(CO_VAR_JOB_ENCRYPT);
    if (o->encrypt != RT_ENCRYPT_UNSET) {
        text = o->encrypt == RT_ENCRYPT_YES ? "1" : "0";
    }
    return net_encrypt_parse(text, o->token, ret, err);
}

static int copy_endpoints(struct rt_group *g, const struct rt_job *job,
    const struct rt_group_options *o, struct co_err *err) {
    for (uint32_t r = 0; r < g->size; r++) {
        const char *e = o->endpoints ? o->endpoints[r] : job ? rt_worker_endpoint(job, r) : NULL;
        struct co_hostport hp;
        char what[40];
        (void)snprintf(what, sizeof(what), "endpoint of rank %u", r);
        if (g->size > 1 || (e && *e)) { /* a job of one trainer needs no endpoint */
            CO_TRY(co_parse_hostport(what, e ? e : "", &hp, err));
        }
        for (uint32_t before = 0; before < r; before++) {
            if (co_streq(g->endpoints[before], e)) {
                return co_err_set(err, CO_INVALID,
                    "endpoint of rank %u is \"%s\", as that of rank %u: expected one for each rank",
                    r, e, before);
            }
        }
        g->endpoints[r] = co_xstrdup(e ? e : "");
    }
    return 0;
}

/* Listens at the group's own endpoint.  A door of `from` at the same endpoint is shared: its port
 * is taken. */
static int open_door(struct rt_group *g, const struct rt_group *from, struct co_err *err) {
    const char *own = g->endpoints[g->rank];
    if (from && from->door && co_streq(from->door->endpoint, own)) {
        g->door = coll_door_ref(from->door);
        return 0;
    }
    return g->size > 1 ? coll_door_open(own, &g->door, err) : 0;
}

/* Ranks that are in both groups have the same endpoint. */
static void inherit(struct rt_group *g, const struct rt_group *from) {
    for (uint32_t to = 0; to < g->size; to++) {
        for (uint32_t r = 0; from && r < from->size; r++) {
            if (co_streq(g->endpoints[to], from->endpoints[r])) {
                coll_address_inherit(g, to, from, r);
            }
        }
    }
}

int coll_group_prepare(struct rt_group *from, const struct rt_job *job,
    const struct rt_group_options *options, struct rt_group **ret_group, struct co_err *err) {
    struct rt_group_options o = options ? *options : (struct rt_group_options){0};
    CO_TRY(CO_SPARE_CHECK(&o, "rt_group_options", err));
    CO_TRY(resolve(job, &o, err));
    CO_CLEANUP(rt_group_closep) struct rt_group *g = group_new(o.size, o.rank);
    CO_TRY(copy_endpoints(g, job, &o, err));
    CO_TRY(coll_gpu_parse(o.device, &g->device, err));
    CO_TRY(resolve_encrypt(job, &o, &g->encrypt, err));
    g->device = !o.device && from ? from->device : g->device;
    g->name = co_xstrdup(o.name);
    g->waits_for = o.waits_for ? co_xstrdup(o.waits_for) : NULL;
    g->token = co_xstrdup(o.token);
    g->transport = o.transport;
    g->call_ms = o.call_timeout_ms;
    g->form_ms = o.form_timeout_ms;
    g->lanes = o.lanes;
    identify(g, o.generation);
    name_node(g, o.node);
    inherit(g, from);
    net_raise_files();
    CO_TRY(open_door(g, from, err));
    *ret_group = co_steal_ptr(g);
    return 0;
}

int rt_group_open(const struct rt_job *job, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *g = NULL;
    int64_t now = co_now_ms();
    CO_TRY(coll_group_prepare(NULL, job, options, &g, err));
    CO_TRY(coll_group_start(g, now + g->form_ms, err));
    *ret_group = co_steal_ptr(g);
    return 0;
}

int coll_group_derive(struct rt_group *from, const uint32_t *ranks, uint32_t n, uint64_t id,
    int64_t deadline_ms, struct rt_group **ret, struct co_err *err) {
    uint32_t rank = n;
    for (uint32_t i = 0; i < n; i++) {
        rank = ranks[i] == from->rank ? i : rank;
    }
    CO_CLEANUP(rt_group_closep) struct rt_group *g = group_new(n, rank);
    for (uint32_t i = 0; i < n; i++) {
        g->endpoints[i] = co_xstrdup(from->endpoints[ranks[i]]);
        coll_address_inherit(g, i, from, ranks[i]);
    }
    g->name = co_xstrdup(from->name);
    g->token = co_xstrdup(from->token);
    g->encrypt = from->encrypt;
    g->transport = from->transport;
    g->device = from->device;
    g->call_ms = from->call_ms;
    g->form_ms = from->form_ms;
    g->lanes = from->lanes;
    g->job = from->job;
    g->id = id;
    memcpy(g->node, from->node, sizeof(g->node));
    g->door = from->door ? coll_door_ref(from->door) : NULL;
    CO_TRY(coll_child_start(from, g, deadline_ms, !from->shrinks, err));
    *ret = co_steal_ptr(g);
    return 0;
}

uint32_t rt_group_rank(const struct rt_group *g) {
    return g->rank;
}

uint32_t rt_group_size(const struct rt_group *g) {
    return g->size;
}

uint32_t rt_group_local_size(const struct rt_group *g) {
    return g->n_local;
}

int rt_group_check(struct rt_group *g, struct co_err *err) {
    return g->fork.forked ? co_fork_refuse("the group", err) : coll_group_why(g, err);
}
