/* Objects and pages in JSON or protobuf, behind one interface. */
#include "operator/kube/item.h"

#include <string.h>

#include "operator/kube/text.h"

void kube_item_done(struct kube_item *i) {
    co_jdoc_done(&i->doc);
    free(i->text);
    *i = (struct kube_item){.text = NULL};
}

int kube_item_json(const char *text, size_t len, struct kube_item *ret, struct co_err *err) {
    struct co_jdoc doc = {.text = NULL};
    CO_TRY(co_jdoc_read(text, len, "managedFields", &doc, err));
    *ret = (struct kube_item){.object = {doc.node, text, len}, .doc = doc};
    return 0;
}

struct kube_item kube_item_proto(struct co_jdoc *doc_own) {
    struct kube_item i = {.object = {doc_own->node, "", 0}, .doc = *doc_own};
    *doc_own = (struct co_jdoc){.text = NULL};
    return i;
}

struct kube_item kube_item_part(const struct co_jnode *nodes) {
    CO_AUTOJSON json_t *tree = co_json_of_nodes(nodes);
    char *text = co_json_dump(tree);
    return (struct kube_item){.object = {nodes, text, strlen(text)}, .text = text};
}

const char *kube_item_version(const struct kube_item *i) {
    return co_jnode_str(i->object.nodes, "metadata", "resourceVersion");
}

int kube_page_open(const char *text, size_t len, const struct co_proto_message *proto,
    struct kube_page *ret, struct co_err *err) {
    KUBE_AUTOPAGE struct kube_page p = {.at = NULL};
    if (proto && kube_proto_is(text, len)) {
        p.proto = proto;
        CO_TRY(kube_proto_read(proto, text, len, &p.rest, err));
        CO_TRY(kube_proto_items(text, len, &p.at, &p.end, err));
    } else {
        CO_TRY(kube_text_list(text, len, &p.rest, &p.at, &p.end, err));
    }
    const struct co_jnode *items = co_jnode_get(p.rest.node, "items");
    if (!co_jnode_str(p.rest.node, "metadata", "resourceVersion") ||
        !(p.proto || co_jnode_is(items, CO_J_LIST) || co_jnode_is(items, CO_J_NULL))) {
        return co_err_set(err, CO_INVALID, "not a list");
    }
    *ret = p;
    p.rest = (struct co_jdoc){.text = NULL};
    return 0;
}

void kube_page_done(struct kube_page *p) {
    co_jdoc_done(&p->rest);
    *p = (struct kube_page){.at = NULL};
}

static int next_proto(struct kube_page *p, struct kube_item *ret, struct co_err *err) {
    struct co_jdoc doc = {.text = NULL};
    const char *data;
    size_t len;
    CO_TRY(kube_proto_item(&p->at, p->end, &data, &len, err));
    CO_TRY(co_proto_read(p->proto, data, len, &doc, err));
    *ret = kube_item_proto(&doc);
    return 0;
}

int kube_page_next(struct kube_page *p, struct kube_item *ret, struct co_err *err) {
    if (p->proto) {
        return next_proto(p, ret, err);
    }
    p->odd = co_jnode_next(co_jnode_get(p->rest.node, "items"), p->odd);
    if (p->odd) {
        *ret = kube_item_part(p->odd);
        return 0;
    }
    const char *text;
    size_t len;
    CO_TRY(kube_text_item(&p->at, p->end, &text, &len));
    return kube_item_json(text, len, ret, err);
}
