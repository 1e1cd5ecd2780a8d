/* The queues of requests: lists by state, and round-robin over namespaces and flows. */
#include "operator/kube/op.h"

#include <string.h>

static void list_add(struct kube_op_list *l, struct kube_op *op) {
    op->next = NULL;
    op->prev = l->last;
    if (l->last) {
        l->last->next = op;
    } else {
        l->first = op;
    }
    l->last = op;
}

static void list_remove(struct kube_op_list *l, struct kube_op *op) {
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

/* Adds the tenant at the end: it is served after all others. */
static void ring_add(struct kube_class_queue *class, struct kube_tenant *t) {
    struct kube_tenant *next = class->turn ? class->turn : t;
    struct kube_tenant *prev = class->turn ? next->prev : t;
    t->next = next;
    t->prev = prev;
    prev->next = next->prev = t;
    class->turn = next;
}

static void ring_remove(struct kube_class_queue *class, struct kube_tenant *t) {
    t->prev->next = t->next;
    t->next->prev = t->prev;
    if (class->turn == t) {
        class->turn = t->next == t ? NULL : t->next;
    }
}

/* ---- states ---- */

static void state_leave(struct kube_op *op) {
    struct kube_client *c = op->c;
    struct kube_class_queue *class = &c->classes[op->class];
    switch (op->state) {
    case KUBE_OP_WAITING:
        list_remove(&op->tenant->flows[op->flow], op);
        class->waiting--;
        c->waiting--;
        if (--op->tenant->waiting == 0) {
            ring_remove(class, op->tenant);
        }
        break;
    case KUBE_OP_FLYING:
        list_remove(&c->flying, op);
        class->flying--;
        c->n_flying--;
        break;
    case KUBE_OP_FAILED:
        list_remove(&c->failed, op);
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
        list_add(&op->tenant->flows[op->flow], op);
        if (op->tenant->waiting++ == 0) {
            ring_add(class, op->tenant);
        }
        class->waiting++;
        c->waiting++;
        if (!co_timer_armed(c->tick)) {
            co_timer_start(c->tick, KUBE_TICK_MS);
        }
        break;
    case KUBE_OP_FLYING:
        list_add(&c->flying, op);
        class->flying++;
        c->n_flying++;
        break;
    case KUBE_OP_FAILED:
        list_add(&c->failed, op);
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
    struct kube_op *op = c->failed.first;
    if (op) {
        list_remove(&c->failed, op);
        c->n_failed--;
        op->state = KUBE_OP_LEAVING;
    }
    return op;
}

/* Namespaces are served round-robin, and so are the flows of each. */
struct kube_op *kube_op_next(struct kube_class_queue *class) {
    struct kube_tenant *t = class->turn;
    if (!t) {
        return NULL;
    }
    class->turn = t->next;
    while (!t->flows[t->turn].first) {
        t->turn = (t->turn + 1) % KUBE_FLOWS;
    }
    struct kube_op *op = t->flows[t->turn].first;
    t->turn = (t->turn + 1) % KUBE_FLOWS;
    return op;
}

static void free_list(const struct kube_op_list *l) {
    struct kube_op *next;
    for (struct kube_op *op = l->first; op; op = next) {
        next = op->next;
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
