/* Small values around API objects: resourceVersions, DeleteOptions. */
#include "operator/kube/object.h"

#include "common/parse.h"

json_t *kube_delete_options(const char *uid, bool at_once) {
    json_t *o = json_object();
    co_json_set(o, "kind", json_string("DeleteOptions"));
    co_json_set(o, "apiVersion", json_string("v1"));
    if (uid) {
        json_t *p = json_object();
        co_json_set(p, "uid", co_json_string(uid));
        co_json_set(o, "preconditions", p);
    }
    co_json_set(o, "gracePeriodSeconds", at_once ? json_integer(0) : NULL);
    co_json_set(o, "propagationPolicy", json_string("Background"));
    return o;
}

uint64_t kube_version(const char *resource_version) {
    int64_t v;
    if (!resource_version ||
        co_parse_i64("resourceVersion", resource_version, 0, INT64_MAX, &v, NULL)) {
        return 0;
    }
    return (uint64_t)v;
}
