#include "operator/kube/op.h"

static void list_add(struct op_kube_op_list *l, struct op_kube_op *op) {
    op->next = NULL;
    op->prev = l->last;
    if (l->last) {
        l->last->next = op;
    } else {
        l->first = op;
    }
    l->last = op;
}

static void list_remove(struct op_kube_op_list *l, struct op_kube_op *op) {
    if (op->prev) {
        op->prev->next = op->next;
    } else {
        l->first = op->next;
    }
    if (op->next) {
        op->next->prev = op->prev;
    } else {
        l->last = op->prev;
    }
    op->prev = op->next = NULL;
}

static void state_leave(struct op_kube_op *op) {
    struct op_kube_client *c = op->c;
    struct op_kube_lane_queue *lane = &c->lanes[op->lane];
    switch (op->state) {
    case OP_KUBE_OP_WAITING:
        list_remove(&lane->flows[op->flow], op);
        lane->waiting--;
        c->waiting--;
        break;
    case OP_KUBE_OP_FLYING:
        list_remove(&c->flying, op);
        lane->flying--;
        c->n_flying--;
        break;
    case OP_KUBE_OP_FAILED:
        list_remove(&c->failed, op);
        c->n_failed--;
        break;
    case OP_KUBE_OP_LEAVING:
        break;
    }
}

void op_kube_op_enter(struct op_kube_op *op, enum op_kube_op_state state) {
    struct op_kube_client *c = op->c;
    struct op_kube_lane_queue *lane = &c->lanes[op->lane];
    op->state = state;
    switch (state) {
    case OP_KUBE_OP_WAITING:
        list_add(&lane->flows[op->flow], op);
        lane->waiting++;
        c->waiting++;
        if (!co_timer_armed(c->tick)) {
            co_timer_start(c->tick, OP_KUBE_TICK_MS);
        }
        break;
    case OP_KUBE_OP_FLYING:
        list_add(&c->flying, op);
        lane->flying++;
        c->n_flying++;
        break;
    case OP_KUBE_OP_FAILED:
        list_add(&c->failed, op);
        c->n_failed++;
        break;
    case OP_KUBE_OP_LEAVING:
        break;
    }
    if (state != OP_KUBE_OP_FLYING) {
        co_timer_start(c->soon, 0);
    }
}

void op_kube_op_set_state(struct op_kube_op *op, enum op_kube_op_state state) {
    state_leave(op);
    op_kube_op_enter(op, state);
}

void op_kube_op_free(struct op_kube_op *op) {
    struct op_kube_client *c = op->c;
    op_kube_xfer_cancel(op->xfer);
    state_leave(op);
    c->n_streams -= op->lane == OP_KUBE_LANE_STREAM;
    c->bytes -= op->body_len;
    /* A free place, or the end of a drain. */
    if (c->waiting || c->drained) {
        co_timer_start(c->soon, 0);
    }
    free(op->path);
    free(op->resource);
    free(op->subresource);
    free(op->what);
    free(op->body);
    free(op->err);
    free(op);
}

void op_kube_op_fail(struct op_kube_op *op, const struct co_err *err) {
    op->err = op->err ? op->err : co_xmalloc(sizeof(*op->err));
    *op->err = *err;
    co_err_wrap(op->err, "%s", op->what);
    op_kube_op_set_state(op, OP_KUBE_OP_FAILED);
}

struct op_kube_op *op_kube_op_take_failed(struct op_kube_client *c) {
    struct op_kube_op *op = c->failed.first;
    if (op) {
        list_remove(&c->failed, op);
        c->n_failed--;
        op->state = OP_KUBE_OP_LEAVING;
    }
    return op;
}

/* The flows take turns. */
struct op_kube_op *op_kube_op_next(struct op_kube_lane_queue *lane) {
    for (unsigned i = 0; lane->waiting && i < OP_KUBE_FLOWS; i++) {
        unsigned at = (lane->turn + i) % OP_KUBE_FLOWS;
        if (lane->flows[at].first) {
            lane->turn = (at + 1) % OP_KUBE_FLOWS;
            return lane->flows[at].first;
        }
    }
    return NULL;
}

static void free_list(const struct op_kube_op_list *l) {
    struct op_kube_op *next;
    for (struct op_kube_op *op = l->first; op; op = next) {
        next = op->next;
        op_kube_op_free(op);
    }
}

void op_kube_op_free_all(struct op_kube_client *c) {
    free_list(&c->flying);
    free_list(&c->failed);
    for (size_t i = 0; i < OP_KUBE_ALL_LANES; i++) {
        for (size_t k = 0; k < OP_KUBE_FLOWS; k++) {
            free_list(&c->lanes[i].flows[k]);
        }
    }
}
