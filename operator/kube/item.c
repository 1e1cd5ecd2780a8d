#include "operator/kube/item.h"

#include "operator/kube/text.h"

#include <string.h>

void op_kube_item_done(struct op_kube_item *i) {
    json_decref(i->tree);
    co_jdoc_done(&i->doc);
    free(i->own);
    *i = (struct op_kube_item){.tree = NULL};
}

int op_kube_item_json(
    const char *text, size_t len, bool nodes, struct op_kube_item *ret, struct co_err *err) {
    struct op_kube_item i = {.text = text, .len = len};
    int r = nodes ? co_jdoc_read(text, len, "managedFields", &i.doc, err)
                  : op_kube_text_parse(text, len, &i.tree, err);
    if (!r) {
        *ret = i;
    }
    return r;
}

struct op_kube_item op_kube_item_proto(struct co_jdoc *doc_own, bool nodes) {
    struct op_kube_item i = {.text = ""};
    if (nodes) {
        i.doc = *doc_own;
    } else {
        i.tree = co_json_of_nodes(doc_own->node);
        co_jdoc_done(doc_own);
    }
    *doc_own = (struct co_jdoc){.text = NULL};
    return i;
}

int op_kube_item_tree(json_t *tree, bool nodes, struct op_kube_item *ret, struct co_err *err) {
    if (!nodes) {
        *ret = (struct op_kube_item){.tree = json_incref(tree)};
        return 0;
    }
    CO_AUTOFREE char *text = co_json_dump(tree);
    int r = op_kube_item_json(text, strlen(text), true, ret, err);
    if (!r) {
        ret->own = co_steal_ptr(text);
    }
    return r;
}

const char *op_kube_item_version(const struct op_kube_item *i) {
    return i->tree ? co_json_str(i->tree, "metadata", "resourceVersion")
                   : co_jnode_str(i->doc.node, "metadata", "resourceVersion");
}

static int open_proto(const char *text, size_t len, const struct co_proto_message *proto,
    struct op_kube_page *ret, struct co_err *err) {
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    int r = op_kube_proto_read(proto, text, len, &doc, err);
    r = r ? r : op_kube_proto_items(text, len, &ret->at, &ret->end, err);
    if (!r) {
        ret->rest = co_json_of_nodes(doc.node);
        ret->proto = proto;
        co_json_set(ret->rest, "items", json_array());
    }
    return r;
}

int op_kube_page_open(const char *text, size_t len, const struct co_proto_message *proto,
    struct op_kube_page *ret, struct co_err *err) {
    OP_AUTOPAGE struct op_kube_page p = {.rest = NULL};
    int r = proto && op_kube_proto_is(text, len)
                ? open_proto(text, len, proto, &p, err)
                : op_kube_text_list(text, len, &p.rest, &p.at, &p.end, err);
    if (r) {
        return r;
    }
    const json_t *items = json_object_get(p.rest, "items");
    if (!co_json_str(p.rest, "metadata", "resourceVersion") ||
        (!json_is_array(items) && !json_is_null(items))) {
        return co_err_set(err, CO_INVALID, "not a list");
    }
    *ret = p;
    p.rest = NULL;
    return 0;
}

void op_kube_page_done(struct op_kube_page *p) {
    co_json_decref(&p->rest);
}

int op_kube_page_next(
    struct op_kube_page *p, bool nodes, struct op_kube_item *ret, struct co_err *err) {
    const char *text;
    size_t len;
    if (p->proto) {
        struct co_jdoc doc = {.text = NULL};
        int r = op_kube_proto_item(&p->at, p->end, &text, &len, err);
        r = r ? r : co_proto_read(p->proto, text, len, &doc, err);
        if (!r) {
            *ret = op_kube_item_proto(&doc, nodes);
        }
        return r;
    }
    json_t *item = json_array_get(json_object_get(p->rest, "items"), p->taken);
    if (item) {
        p->taken++;
        return op_kube_item_tree(item, nodes, ret, err);
    }
    int r = op_kube_text_item(&p->at, p->end, &text, &len);
    return r ? r : op_kube_item_json(text, len, nodes, ret, err);
}
