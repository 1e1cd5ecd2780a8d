/* The queues of requests: lists by state, and round-robin over namespaces and flows. */
#include "operator/kube/op.h"

#include <string.h>

/* ---- namespaces ---- */

struct kube_tenant *kube_op_tenant(const struct kube_class_queue *class, const char *ns) {
    const char *name = ns ? ns : "";
    struct co_link *l = co_index_first(&class->tenants, co_hash_str(name));
    while (l && strcmp(((struct kube_tenant *)l)->ns, name) != 0) {
        l = co_index_next(l);
    }
    return (struct kube_tenant *)l;
}

struct kube_tenant *kube_op_tenant_need(struct kube_class_queue *class, const char *ns) {
    struct kube_tenant *t = kube_op_tenant(class, ns);
    if (!t) {
        const char *name = ns ? ns : "";
        size_t size = strlen(name) + 1;
        t = co_xcalloc(1, sizeof(*t) + size);
        memcpy(t->ns, name, size);
        for (size_t k = 0; k < KUBE_FLOWS; k++) {
            TAILQ_INIT(&t->flows[k]);
        }
        co_index_add(&class->tenants, &t->link, co_hash_str(name));
    }
    t->ops++;
    return t;
}

static void tenant_release(struct kube_class_queue *class, struct kube_tenant *t) {
    if (--t->ops == 0) {
        co_index_remove(&class->tenants, &t->link);
        free(t);
    }
}

/* ---- states ---- */

static void state_leave(struct kube_op *op) {
    struct kube_client *c = op->c;
    struct kube_class_queue *class = &c->classes[op->class];
    switch (op->state) {
    case KUBE_OP_WAITING:
        TAILQ_REMOVE(&op->tenant->flows[op->flow], op, link);
        class->waiting--;
        c->waiting--;
        if (--op->tenant->waiting == 0) {
            TAILQ_REMOVE(&class->turns, op->tenant, turn);
        }
        break;
    case KUBE_OP_FLYING:
        TAILQ_REMOVE(&c->flying, op, link);
        class->flying--;
        c->n_flying--;
        break;
    case KUBE_OP_FAILED:
        TAILQ_REMOVE(&c->failed, op, link);
        c->n_failed--;
        break;
    case KUBE_OP_LEAVING:
        break;
    }
}

void kube_op_enter(struct kube_op *op, enum kube_op_state state) {
    struct kube_client *c = op->c;
    struct kube_class_queue *class = &c->classes[op->class];
    op->state = state;
    switch (state) {
    case KUBE_OP_WAITING:
        TAILQ_INSERT_TAIL(&op->tenant->flows[op->flow], op, link);
        if (op->tenant->waiting++ == 0) {
            TAILQ_INSERT_TAIL(&class->turns, op->tenant, turn);
        }
        class->waiting++;
        c->waiting++;
        if (!co_timer_armed(c->tick)) {
            co_timer_start(c->tick, KUBE_TICK_MS);
        }
        break;
    case KUBE_OP_FLYING:
        TAILQ_INSERT_TAIL(&c->flying, op, link);
        class->flying++;
        c->n_flying++;
        break;
    case KUBE_OP_FAILED:
        TAILQ_INSERT_TAIL(&c->failed, op, link);
        c->n_failed++;
        break;
    case KUBE_OP_LEAVING:
        break;
    }
    if (state != KUBE_OP_FLYING) {
        co_timer_start(c->soon, 0);
    }
}

void kube_op_set_state(struct kube_op *op, enum kube_op_state state) {
    state_leave(op);
    kube_op_enter(op, state);
}

void kube_op_free(struct kube_op *op) {
    struct kube_client *c = op->c;
    kube_xfer_cancel(op->xfer);
    state_leave(op);
    c->n_streams -= op->class == KUBE_CLASS_STREAM;
    c->bytes -= op->body_len;
    tenant_release(&c->classes[op->class], op->tenant);
    /* Another request may start now, or the drain may be complete. */
    if (c->waiting || c->drained) {
        co_timer_start(c->soon, 0);
    }
    free(op->path);
    free(op->resource);
    free(op->subresource);
    free(op->what);
    free(op->object);
    free(op->body);
    free(op->err);
    free(op);
}

void kube_op_fail(struct kube_op *op, const struct co_err *err) {
    op->err = op->err ? op->err : co_xmalloc(sizeof(*op->err));
    *op->err = *err;
    co_err_wrap(op->err, "%s", op->what);
    kube_op_set_state(op, KUBE_OP_FAILED);
}

struct kube_op *kube_op_take_failed(struct kube_client *c) {
    struct kube_op *op = TAILQ_FIRST(&c->failed);
    if (op) {
        TAILQ_REMOVE(&c->failed, op, link);
        c->n_failed--;
        op->state = KUBE_OP_LEAVING;
    }
    return op;
}

/* Namespaces are served round-robin, and so are the flows of each. */
struct kube_op *kube_op_next(struct kube_class_queue *class) {
    struct kube_tenant *t = TAILQ_FIRST(&class->turns);
    if (!t) {
        return NULL;
    }
    TAILQ_REMOVE(&class->turns, t, turn);
    TAILQ_INSERT_TAIL(&class->turns, t, turn);
    while (TAILQ_EMPTY(&t->flows[t->next_flow])) {
        t->next_flow = (t->next_flow + 1) % KUBE_FLOWS;
    }
    struct kube_op *op = TAILQ_FIRST(&t->flows[t->next_flow]);
    t->next_flow = (t->next_flow + 1) % KUBE_FLOWS;
    return op;
}

static void free_list(const struct kube_op_list *l) {
    struct kube_op *next;
    for (struct kube_op *op = TAILQ_FIRST(l); op; op = next) {
        next = TAILQ_NEXT(op, link);
        kube_op_free(op);
    }
}

void kube_op_free_all(struct kube_client *c) {
    free_list(&c->flying);
    free_list(&c->failed);
    for (size_t i = 0; i < KUBE_ALL_LANES; i++) {
        struct kube_op *op;
        while ((op = kube_op_next(&c->classes[i]))) {
            kube_op_free(op);
        }
    }
}
