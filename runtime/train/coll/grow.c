/* Makes a larger group out of a group and new ranks.  First the ranks of the old one compare what
 * they ask for, so that a mistake ends the call at once.  The larger group forms from its endpoints
 * while the old one still exists.  An all_reduce in the old one shows each rank whether all have
 * succeeded, and then they vote: a rank that dies in the all_reduce leaves some that have its
 * result and some that have not, and of all that live either none or all must use the larger group.
 */
#include <string.h>

#include "common/bytes.h"
#include "common/map.h"
#include "common/proof.h"
#include "runtime/train/coll/use.h"
#include "runtime/train/coll/vote.h"

/* Agrees with all that live.  *ret_all: nobody has died, and all have formed the larger group. */
static int decide(struct rt_group *g, bool formed, bool *ret_all, struct co_err *err) {
    struct coll_ballot b = {.round = (uint32_t)g->children++,
        .bytes = g->size / 8 + 1,
        .end_ms = co_now_ms() + 3 * g->call_ms};
    CO_AUTOFREE unsigned char *dead = co_xcalloc(1, b.bytes), *sent = co_xcalloc(1, b.bytes);
    b.dead = dead;
    b.sent = sent;
    coll_vote_set(b.dead, g->size, !formed);
    CO_TRY(coll_group_enter(g, "grow", err));
    int rc = coll_vote(g, &b, err);
    pthread_mutex_lock(&g->m);
    g->votes = NULL;
    pthread_mutex_unlock(&g->m);
    coll_group_leave(g);
    CO_TRY(rc);
    for (uint32_t r = 0; r < g->size; r++) {
        if (coll_vote_has(dead, r)) {
            (void)coll_group_fail(
                g, CO_PEERLOST, r, true, "rank %u is lost, as the others have agreed", r);
            return coll_group_why(g, err);
        }
    }
    *ret_all = !coll_vote_has(dead, g->size);
    return 0;
}

/* ---- what the ranks ask for ---- */

/* What all must have alike, in the order in which it is named. */
enum asked { ENDPOINTS, GENERATION, NAME, TOKEN, TRANSPORT, LANES, ENCRYPT, DEVICE, ASKED };
static const char *const asked_names[ASKED] = {
    [ENDPOINTS] = "list of endpoints",
    [GENERATION] = "generation",
    [NAME] = "name",
    [TOKEN] = "token",
    [TRANSPORT] = "transport",
    [LANES] = "number of lanes",
    [ENCRYPT] = "encrypt setting",
    [DEVICE] = "device (with a GPU or without)",
};

/* What a rank sends. */
struct wish {
    uint64_t asked[ASKED], rank, failed; /* failed: a code, negated; the rest is zero then */
};

/* Of a secret, which its hash would help to guess. */
static uint64_t token_print(const char *token, uint64_t generation) {
    unsigned char proof[CO_PROOF_BYTES];
    co_proof_make("a larger group", token, &generation, sizeof(generation), proof);
    return co_get_u64(proof);
}

static void wish_fill(struct wish *w, const struct rt_group *grown, uint64_t generation) {
    uint64_t endpoints = grown->size;
    for (uint32_t r = 0; r < grown->size; r++) {
        endpoints = coll_hash_more(endpoints, grown->endpoints[r], strlen(grown->endpoints[r]) + 1);
    }
    w->asked[ENDPOINTS] = endpoints;
    w->asked[GENERATION] = generation;
    w->asked[NAME] = co_hash_str(grown->name);
    w->asked[TOKEN] = token_print(grown->token, generation);
    w->asked[TRANSPORT] = grown->transport;
    w->asked[LANES] = grown->lanes;
    w->asked[ENCRYPT] = grown->encrypt;
    w->asked[DEVICE] = grown->device != 0;
    w->rank = grown->rank;
}

static int compare(const struct wish *all, uint32_t size, struct co_err *err) {
    for (uint32_t r = 0; r < size; r++) {
        if (all[r].failed) {
            int code = coll_code_of_other(all[r].failed);
            return co_err_set(err, code, "rank %u could not begin to form the larger group: %s", r,
                co_code_name(code));
        }
        for (uint32_t i = 0; i < ASKED; i++) {
            if (all[r].asked[i] != all[0].asked[i]) {
                return co_err_set(err, CO_INVALID,
                    "ranks ask for different groups: rank %u has another %s than rank 0", r,
                    asked_names[i]);
            }
        }
        for (uint32_t before = 0; before < r; before++) {
            if (all[before].rank == all[r].rank) {
                return co_err_set(err, CO_INVALID,
                    "ranks %u and %u both ask to be rank %u of the larger group", before, r,
                    (uint32_t)all[r].rank);
            }
        }
    }
    return 0;
}

/* An endpoint that another rank of g listens on is not free while g exists. */
static int check_endpoint(
    const struct rt_group *g, const struct rt_group_options *o, struct co_err *err) {
    for (uint32_t r = 0; r < g->size && o->endpoints && o->rank < o->size; r++) {
        if (r != g->rank && co_streq(g->endpoints[r], o->endpoints[o->rank])) {
            return co_err_set(err, CO_INVALID,
                "endpoint of rank %u is \"%s\", where rank %u of the group listens: expected this "
                "rank's own or a new one",
                o->rank, o->endpoints[o->rank], r);
        }
    }
    return 0;
}

/* Makes the larger group, without its connections, if all ranks ask for the same.  *ret_agreed: an
 * error is the same answer on all ranks. */
static int prepare(struct rt_group *g, const struct rt_group_options *o, bool *ret_agreed,
    struct rt_group **ret_grown, struct co_err *err) {
    struct wish own = {0};
    CO_AUTOFREE struct wish *all = co_xcalloc(g->size, sizeof(*all));
    CO_TRY(coll_group_enter(g, "grow", err));
    int rc = check_endpoint(g, o, err);
    rc = rc == 0 ? coll_group_prepare(g, NULL, o, ret_grown, err) : rc;
    coll_group_leave(g);
    if (rc < 0) {
        own.failed = (uint64_t)-rc;
    } else {
        wish_fill(&own, *ret_grown, o->generation);
    }
    int gathered = coll_use_run(
        g, COLL_USE_GROW, &own, all, sizeof(own) / sizeof(uint64_t), RT_I64, rc < 0 ? NULL : err);
    *ret_agreed = gathered == 0;
    CO_TRY(rc);
    CO_TRY(gathered);
    return compare(all, g->size, err);
}

/* o: without defaults. */
static int grow(struct rt_group *g, const struct rt_group_options *o, struct rt_group **ret_group,
    struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    bool agreed = false;
    int rc = prepare(g, o, &agreed, &grown, err);
    if (rc < 0 && agreed) {
        return rc;
    }
    if (rc == 0 && grown) {
        CO_TRY(coll_group_enter(g, "grow", err));
        rc = coll_child_start(g, grown, co_now_ms() + grown->form_ms, false, err);
        coll_group_leave(g);
    }
    struct co_err *later = rc < 0 ? NULL : err;
    int32_t own = rc, worst = 0;
    bool all = false;
    int decided = rt_all_reduce(g, &own, &worst, 1, RT_I32, RT_MIN, later);
    if (decided == 0 || decided == CO_PEERLOST || decided == CO_TIMEOUT) {
        decided = decide(g, decided == 0 && worst == 0, &all, later);
    }
    CO_TRY(rc);
    CO_TRY(decided);
    if (!all) {
        CO_TRY(rt_group_check(g, err));
        return co_err_set(err, worst < 0 ? coll_code_of_other((uint64_t)-worst) : CO_UNAVAILABLE,
            "another rank could not form the larger group");
    }
    *ret_group = co_steal_ptr(grown);
    return 0;
}

int rt_group_grow(struct rt_group *g, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err) {
    struct rt_group_options o = *options;
    o.name = o.name ? o.name : g->name;
    o.token = o.token ? o.token : g->token;
    o.lanes = o.lanes ? o.lanes : g->lanes;
    if (o.encrypt == RT_ENCRYPT_UNSET) {
        o.encrypt = g->encrypt ? RT_ENCRYPT_YES : RT_ENCRYPT_NO;
    }
    o.call_timeout_ms = o.call_timeout_ms > 0 ? o.call_timeout_ms : g->call_ms;
    o.form_timeout_ms = o.form_timeout_ms > 0 ? o.form_timeout_ms : g->form_ms;
    /* Some ranks begin late, or fail at once, others only after the time limit for forming. */
    int64_t usual = g->call_ms;
    g->call_ms += o.form_timeout_ms;
    int rc = grow(g, &o, ret_group, err);
    g->call_ms = usual;
    return rc;
}
