/* Lines "<range><key> <value>": what an etcd holds of job "j", whoever wrote it, and what node "b"
 * makes of it.  Nothing may crash; an order names nodes that are there, an end has its reason, and
 * what follows can be written. */
#include <stdio.h>
#include <string.h>

#include "common/base64.h"
#include "runtime/launch/rendezvous/etcd_write.h"

enum { RANGES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold(bool condition) {
    if (!condition) {
        abort();
    }
}

static json_t *base64_own(char *text_own) {
    CO_AUTOFREE char *text = text_own;
    CO_AUTOFREE char *b = co_base64(text, strlen(text));
    return json_string(b);
}

static void add_pair(json_t *kvs, const char *prefix, const char *line, int revision) {
    const char *space = strchrnul(line, ' ');
    CO_AUTOFREE char *number = co_xasprintf("%d", revision);
    json_t *kv = json_object();
    co_json_set(kv, "key", base64_own(co_xasprintf("%s%.*s", prefix, (int)(space - line), line)));
    co_json_set(kv, "value", base64_own(co_xstrdup(*space ? space + 1 : "")));
    co_json_set(kv, "create_revision", json_string(number));
    co_json_set(kv, "mod_revision", json_string(number));
    co_json_append(kvs, kv);
}

static json_t *answer_of(const struct rdzv_etcd_view *v, char *text) {
    const char *const prefix[RANGES] = {
        v->prefix_beat, v->prefix_info, v->prefix_ours, v->key_status};
    json_t *kvs[RANGES], *answer = json_object(), *header = json_object(), *all = json_array();
    for (int i = 0; i < RANGES; i++) {
        json_t *one = json_object(), *range = json_object();
        kvs[i] = json_array();
        co_json_set(range, "kvs", kvs[i]);
        co_json_set(one, "response_range", range);
        co_json_append(all, one);
    }
    int revision = 1;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        if (*line >= '0' && *line < '0' + RANGES) {
            add_pair(kvs[*line - '0'], prefix[*line - '0'], line + 1, revision++);
        }
    }
    co_json_set(header, "revision", json_string("1000000"));
    co_json_set(answer, "header", header);
    co_json_set(answer, "responses", all);
    return answer;
}

static void decide(
    const struct rdzv_etcd_view *v, const struct rdzv_options *o, enum rdzv_state state) {
    const struct rdzv_etcd_self self = {
        .o = o, .id = "1", .state = state, .round = 1, .now = 100000, .done = v->n % 2};
    struct rdzv_etcd_decision d;
    rdzv_etcd_decide(v, &self, &d);
    hold(d.next != RDZV_ETCD_END || (d.code && d.why[0]));
    hold(d.next != RDZV_ETCD_PROPOSE || d.n == v->n);
    for (size_t i = 0; i < d.n; i++) {
        hold(d.order[i] < v->n);
    }
    if (d.next == RDZV_ETCD_PROPOSE) {
        json_decref(rdzv_etcd_write_round(v, rdzv_etcd_next_round(v, &d)));
    }
    free(d.order);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *text = co_xstrndup((const char *)data, size);
    CO_AUTOBUF struct co_buf line = CO_BUF(1 << 20);
    CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v;
    rdzv_etcd_view_init(&v, "j");
    CO_AUTOJSON json_t *answer = answer_of(&v, text);
    const struct rdzv_options o = {.name = "b",
        .value = "{}",
        .rank = size % 7 ? -1 : 1,
        .sort_ip = size % 2,
        .min_nodes = 2,
        .max_nodes = size % 3 ? 2 : 4,
        .level = size % 5 ? 1 : -1,
        .max_restart = 3,
        .elastic_ms = 30000,
        .silent_ms = 10000};
    if (rdzv_etcd_view_read(&v, answer, NULL)) {
        abort(); /* whatever the keys say, it is an answer */
    }
    decide(&v, &o, RDZV_MEETING);
    decide(&v, &o, RDZV_MET);
    (void)rdzv_etcd_view_neighbour(&v, o.name);
    (void)rdzv_etcd_view_describe_late(&v, o.name, o.silent_ms, &line);
    (void)rdzv_etcd_view_hash(&v);
    return 0;
}
