/* Decides for each reconcile where its job comes from, and whether it needs a claim for it. */
#include "operator/control/reader.h"

enum {
    LIGHT = 256 * 1024,   /* a parsed job up to this size needs no claim: one of about 150 pods */
    ANSWER = 1024 * 1024, /* what the text of an answer takes, beside the parsed job */
};

static void claim_granted(void *arg, struct ctl_parse_claim *claim) {
    struct ctl_readers *all = arg;
    all->turn(all->arg, ((struct ctl_reader *)claim)->entry);
}

void ctl_readers_init(struct ctl_readers *all, size_t bytes) {
    ctl_parse_budget_init(&all->budget, bytes, claim_granted, all);
}

void ctl_readers_done(struct ctl_readers *all) {
    ctl_view_memo_done(&all->memo);
    ctl_parse_budget_done(&all->budget);
}

size_t ctl_readers_most(const struct ctl_readers *all) {
    return ctl_parse_budget_share(&all->budget);
}

static void job_came(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_reader *r = arg;
    r->op = NULL;
    r->all->came(r->all->arg, r->entry, code, reply->nodes, err);
}

static void ask_for(struct ctl_reader *r) {
    const struct ctl_entry *e = r->entry;
    struct kube_req req = kube_req_for(KUBE_GET, r->all->type, e->ns, e->name, job_came, r);
    req.flow = e->serial;
    req.answer = KUBE_NODES;
    r->op = kube_do(r->all->client, &req);
}

enum ctl_read ctl_reader_begin(struct ctl_reader *r, struct api_job **ret, struct co_err *err) {
    const struct ctl_entry *e = r->entry;
    bool here = ctl_entry_is_cached(e);
    if (here && e->tree <= LIGHT) {
        ctl_reader_end(r);
    } else if (!ctl_parse_budget_claim(
                   &r->all->budget, &r->claim, e->ns, e->tree + (here ? 0 : ANSWER))) {
        return CTL_READ_WAITS;
    }
    if (!here) {
        ask_for(r);
        return CTL_READ_COMES;
    }
    return ctl_view_job_again(&r->all->memo, e, ret, err) ? CTL_READ_FAILED : CTL_READ_READY;
}

void ctl_reader_end(struct ctl_reader *r) {
    kube_cancel(co_steal_ptr(r->op));
    ctl_parse_budget_release(&r->all->budget, &r->claim);
}

bool ctl_reader_idle(const struct ctl_reader *r) {
    return !r->claim.line;
}

bool ctl_reader_asks(const struct ctl_reader *r) {
    return r->op;
}
