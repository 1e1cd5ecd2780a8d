/* JSON bodies for etcd's gateway.  See etcd_json.h. */
#include "runtime/launch/rendezvous/etcd_json.h"

#include <string.h>

#include "common/base64.h"

static json_t *base64_of(const char *s) {
    CO_AUTOFREE char *text = co_base64(s, strlen(s));
    return json_string(text);
}

static json_t *base64_own(char *s) {
    CO_AUTOFREE char *mine = s;
    return base64_of(mine);
}

/* etcd has no prefix query: the range ends before the prefix with its last byte one higher. */
json_t *rdzv_etcd_range(const char *prefix) {
    CO_AUTOFREE char *end = co_xstrdup(prefix);
    end[strlen(end) - 1]++;
    return json_pack("{s:o,s:o}", "key", base64_of(prefix), "range_end", base64_of(end));
}

json_t *rdzv_etcd_one(const char *key) {
    return json_pack("{s:o}", "key", base64_of(key));
}

json_t *rdzv_etcd_request(const char *kind, json_t *body_own) {
    return json_pack("{s:o}", kind, body_own);
}

json_t *rdzv_etcd_put(char *key_own, const char *value, const char *lease) {
    json_t *r = json_pack("{s:o,s:o}", "key", base64_own(key_own), "value", base64_of(value));
    co_json_set(r, "lease", lease ? json_string(lease) : NULL);
    return rdzv_etcd_request("request_put", r);
}

json_t *rdzv_etcd_put_json(char *key_own, json_t *value_own, const char *lease) {
    CO_AUTOJSON json_t *value = value_own;
    CO_AUTOFREE char *text = co_json_dump(value);
    return rdzv_etcd_put(key_own, text, lease);
}

json_t *rdzv_etcd_delete(char *key_own) {
    CO_AUTOFREE char *key = key_own;
    return rdzv_etcd_request("request_delete_range", rdzv_etcd_one(key));
}

json_t *rdzv_etcd_unchanged(const char *key, int64_t revision) {
    CO_AUTOFREE char *text = co_xasprintf("%lld", (long long)revision);
    return json_pack("[{s:o,s:s,s:s,s:s}]", "key", base64_of(key), "target", "MOD", "result",
        "EQUAL", "mod_revision", text);
}
