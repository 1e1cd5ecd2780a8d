/* Small values around requests, without a client. */
#include "common/parse.h"
#include "operator/kube/client.h"

json_t *op_kube_delete_options(const char *uid) {
    json_t *o = json_object();
    co_json_set(o, "kind", json_string("DeleteOptions"));
    co_json_set(o, "apiVersion", json_string("v1"));
    if (uid) {
        json_t *p = json_object();
        co_json_set(p, "uid", co_json_string(uid));
        co_json_set(o, "preconditions", p);
    }
    co_json_set(o, "propagationPolicy", json_string("Background"));
    return o;
}

struct op_kube_req op_kube_req_for(enum op_kube_verb verb, const struct op_kube_type *type,
    const char *ns, const char *name, op_kube_done_fn done, void *arg) {
    const bool lists = verb == OP_KUBE_LIST || verb == OP_KUBE_WATCH;
    return (struct op_kube_req){
        .verb = verb,
        .lane = lists ? OP_KUBE_LANE_LIST : OP_KUBE_LANE_WORK,
        .type = type,
        .ns = ns,
        .name = name,
        .done = done,
        .arg = arg,
    };
}

uint64_t op_kube_version(const char *resource_version) {
    int64_t v;
    if (!resource_version ||
        co_parse_i64("resourceVersion", resource_version, 0, INT64_MAX, &v, NULL)) {
        return 0;
    }
    return (uint64_t)v;
}

uint64_t op_kube_object_version(const json_t *object) {
    return op_kube_version(co_json_str(object, "metadata", "resourceVersion"));
}
