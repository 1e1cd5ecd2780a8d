/* Decides for each reconcile where its job comes from, and whether it needs a seat for it. */
#include "operator/control/reader.h"

enum {
    LIGHT = 256 * 1024,   /* a parsed job up to this size needs no seat: one of about 150 pods */
    ANSWER = 1024 * 1024, /* what the text of an answer takes, beside the parsed job */
};

static void seat_called(void *arg, struct op_seat *seat) {
    struct op_readers *all = arg;
    all->turn(all->arg, ((struct op_reader *)seat)->entry);
}

void op_readers_init(struct op_readers *all, size_t bytes) {
    all->desk = (struct op_desk){.max = bytes, .called = seat_called, .arg = all};
}

void op_readers_done(struct op_readers *all) {
    op_view_memo_done(&all->memo);
    op_desk_done(&all->desk);
}

size_t op_readers_most(const struct op_readers *all) {
    return op_desk_share(&all->desk);
}

static void job_came(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct op_reader *r = arg;
    r->op = NULL;
    r->all->came(r->all->arg, r->entry, code, reply->nodes, err);
}

static void ask_for(struct op_reader *r) {
    const struct op_entry *e = r->entry;
    struct op_kube_req req =
        op_kube_req_for(OP_KUBE_GET, r->all->type, e->ns, e->name, job_came, r);
    req.flow = e->born;
    req.answer = OP_KUBE_NODES;
    r->op = op_kube_do(r->all->client, &req);
}

enum op_read op_reader_begin(struct op_reader *r, struct op_job **ret, struct co_err *err) {
    const struct op_entry *e = r->entry;
    bool here = op_entry_at_hand(e);
    if (here && e->tree <= LIGHT) {
        op_reader_end(r);
    } else if (!op_desk_sit(&r->all->desk, &r->seat, e->ns, e->tree + (here ? 0 : ANSWER))) {
        return OP_READ_WAITS;
    }
    if (!here) {
        ask_for(r);
        return OP_READ_COMES;
    }
    return op_view_job_again(&r->all->memo, e, ret, err) ? OP_READ_FAILED : OP_READ_READY;
}

void op_reader_end(struct op_reader *r) {
    op_kube_cancel(co_steal_ptr(r->op));
    op_desk_leave(&r->all->desk, &r->seat);
}

bool op_reader_idle(const struct op_reader *r) {
    return !r->seat.line;
}

bool op_reader_asks(const struct op_reader *r) {
    return r->op;
}
