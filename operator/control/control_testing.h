/* For tests: puts JSON objects of any kind into a store, as the feeds do. */
#pragma once

#include "operator/api/api_testing.h"
#include "operator/control/store.h"

struct tk_text {
    struct kube_object object;
    struct co_jdoc doc;
    char *text;
};

static inline struct tk_text tk_text(const json_t *obj) {
    struct tk_text t = {.text = co_json_dump(obj)};
    assert_int_equal(co_jdoc_read(t.text, strlen(t.text), NULL, &t.doc, NULL), 0);
    t.object = (struct kube_object){t.doc.node, t.text, strlen(t.text)};
    return t;
}

static inline void tk_text_done(struct tk_text *t) {
    co_jdoc_done(&t->doc);
    free(t->text);
}

static inline void tk_put(
    struct ctl_store *s, enum ctl_store_kind kind, const json_t *obj, uint64_t reached) {
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(obj);
    assert_int_equal(ctl_store_put(s, kind, &t.object, reached, NULL), 0);
}

static inline bool tk_list(struct ctl_store *s, enum ctl_store_kind kind, const json_t *obj) {
    CO_CLEANUP(tk_text_done) struct tk_text t = tk_text(obj);
    bool lacks = false;
    assert_int_equal(ctl_store_list(s, kind, &t.object, &lacks, NULL), 0);
    return lacks;
}

static inline void tk_remove(struct ctl_store *s, enum ctl_store_kind kind, const json_t *obj) {
    ctl_store_remove(s, kind, co_json_str(obj, "metadata", "namespace"),
        co_json_str(obj, "metadata", "name"), co_json_str(obj, "metadata", "uid"));
}
