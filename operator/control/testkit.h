/* For tests: objects of any kind as the feeds bring them to a store. */
#pragma once

#include "operator/api/testkit.h"
#include "operator/control/store.h"

struct tk_text {
    struct op_job_head head;
    struct co_jdoc doc;
    char *text;
};

static inline struct tk_text tk_text(const json_t *job) {
    struct tk_text t = {.text = co_json_dump(job)};
    assert_int_equal(co_jdoc_read(t.text, strlen(t.text), NULL, &t.doc, NULL), 0);
    assert_int_equal(op_job_head_read(t.doc.node, &t.head, NULL), 0);
    return t;
}

static inline void tk_text_done(struct tk_text *t) {
    co_jdoc_done(&t->doc);
    free(t->text);
}

static inline void tk_put(
    struct op_store *s, enum op_store_kind kind, const json_t *obj, uint64_t reached) {
    if (kind != OP_STORE_JOBS) {
        op_store_put(s, kind, obj, reached);
        return;
    }
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(obj);
    op_store_put_job(s, &t.head, t.text, strlen(t.text), reached);
}

static inline bool tk_list(struct op_store *s, enum op_store_kind kind, const json_t *obj) {
    if (kind != OP_STORE_JOBS) {
        return op_store_list(s, kind, obj);
    }
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(obj);
    return op_store_list_job(s, &t.head, t.text, strlen(t.text));
}

static inline void tk_remove(struct op_store *s, enum op_store_kind kind, const json_t *obj) {
    if (kind != OP_STORE_JOBS) {
        op_store_remove(s, kind, obj);
        return;
    }
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(obj);
    op_store_remove_job(s, t.head.ns, t.head.name);
}
