/* What an etcd holds of a job, and what follows from it for one node.  Pure.
 *
 * Paddle's keys, so that its launchers and ours see one another:
 *
 *     /paddle/{job}/heartbeat/{name}     a node is alive (lease)
 *     /{job}/info/{name}/{rank}          its value (ours: lease)
 *     /paddle/{job}                      "completed": the work of a node is done (10 minutes)
 *
 * and ours, all JSON:
 *
 *     /paddlerun/{job}/node/{name}       {"id", "host", "port": where it answers (neighbour.h),
 *                                         "ready": the round it is ready for} (lease)
 *     /paddlerun/{job}/round             {"round", "restarts", "nodes": [name by rank],
 *                                         "paddles": [name]}
 *     /paddlerun/{job}/again             {"round", "why"}: that round shall end
 *     /paddlerun/{job}/done/{name}       {"round"}: its workers ended well (10 minutes)
 *     /paddlerun/{job}/why/{name}        {"round", "code", "why"}: its last words (10 minutes);
 *                                         code < 0: asked to stop, 0: as another one was lost;
 *                                         with "gone" those of the node that found it dead
 *     /paddlerun/{job}/mute/{name}       {"round"}: another node does not hear of it (that one's
 *                                         lease)
 *
 * One node (the first of ours) writes the next round by compare-and-swap when all are ready. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/map.h"
#include "runtime/launch/rendezvous/internal.h"

struct rl_etcd_node {
    char *name; /* owned, as all strings here */
    char *host, *id, *value;
    int rank;
    int ready; /* ours: for this round */
    bool ours, beats;
    uint16_t port;     /* ours: where it answers; 0: nowhere */
    int64_t key_mod;   /* ours: revision of its own key */
    int64_t value_mod; /* revision of its value; 0: none */
    int64_t created;   /* revision at which it came */
};

struct rl_etcd_view {
    char *prefix_beat, *prefix_info, *prefix_ours, *key_status;
    int64_t revision;
    struct rl_etcd_node *nodes;
    size_t n;
    struct co_map by_name; /* -> index + 1 */
    int round, restarts;   /* 0: there was none */
    int64_t round_mod;
    json_t *roster;  /* names by rank; NULL: none */
    json_t *paddles; /* those of them that Paddle's launcher started */
    bool completed;
    json_t *again; /* NULL: not asked for this round */
    json_t *done;  /* name -> document, of this round */
    json_t *why;   /* name -> document, of this round */
    json_t *mute;  /* name -> document, of this round */
};

void rl_etcd_view_init(struct rl_etcd_view *v, const char *job_id);
void rl_etcd_view_done(struct rl_etcd_view *v);
/* The answer to a transaction of four ranges: heartbeats, infos, ours, the status.  Anything may be
 * in it. */
CO_MUST_CHECK int rl_etcd_view_read(
    struct rl_etcd_view *v, const json_t *answer, struct co_err *err);
struct rl_etcd_node *rl_etcd_view_find(const struct rl_etcd_view *v, const char *name);
/* Whom `name` should ask for signs of life: of those that run, the next one of ours behind it in
 * the roster.  NULL: there is nobody. */
const struct rl_etcd_node *rl_etcd_view_neighbour(const struct rl_etcd_view *v, const char *name);
/* "not heard of for a second: node b (rank 1, 10.0.0.7); ...", without `self`; returns how many
 * are mute. */
size_t rl_etcd_view_mute_story(
    const struct rl_etcd_view *v, const char *self, int64_t silent_ms, struct co_buf *ret);
/* Changes when somebody comes, goes or becomes ready. */
uint64_t rl_etcd_view_hash(const struct rl_etcd_view *v);

enum rl_etcd_next {
    RL_ETCD_WAIT,     /* look again when something changes, or at `at` */
    RL_ETCD_REGISTER, /* write own keys, ready for view.round + 1 */
    RL_ETCD_PROPOSE,  /* write the next round */
    RL_ETCD_MET,
    RL_ETCD_CHANGED,
    RL_ETCD_ALL_DONE,
    RL_ETCD_END
};

struct rl_etcd_self {
    const struct rl_rdzv_options *o;
    const char *id;
    enum rl_rdzv_state state;
    int round; /* met last */
    int64_t now;
    int64_t calm_since; /* the view's hash changed last */
    int64_t since;      /* in this state */
    bool done;          /* own work is */
    bool beat_deleted;  /* own heartbeat was deleted by somebody */
};

struct rl_etcd_decision {
    enum rl_etcd_next next;
    int64_t at; /* INT64_MAX: not by time */
    int code;   /* of END */
    char why[CO_ERR_MAX];
    size_t *order; /* of PROPOSE and MET: indexes of nodes by rank; owned */
    size_t n;
    int restarts; /* of PROPOSE */
};

void rl_etcd_decide(
    const struct rl_etcd_view *v, const struct rl_etcd_self *self, struct rl_etcd_decision *ret);
