/* The first byte says how the rest is cut into pieces; whatever the cut, the events are the same,
 * and what is taken has the form of JSON. */
#include "operator/kube/proto.h"

#include <string.h>

#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENT_MAX = 4096, OUT_MAX = 1 << 20 };

CO_PROTO_TABLE(state, {1, "exitCode", CO_PROTO_INT}, {6, "finishedAt", CO_PROTO_TIME});
CO_PROTO_TABLE(container, {1, "name", CO_PROTO_STRING}, {2, "state", CO_PROTO_MESSAGE, &state},
    {4, "ready", CO_PROTO_BOOL});
CO_PROTO_TABLE(meta, {1, "name", CO_PROTO_STRING}, {8, "creationTimestamp", CO_PROTO_TIME},
    {11, "labels", CO_PROTO_MAP});
CO_PROTO_TABLE(
    pod, {1, "metadata", CO_PROTO_MESSAGE, &meta}, {3, "status", CO_PROTO_MESSAGES, &container});

/* Nests are as long as what they contain. */
static bool is_sound(const struct co_jnode *n) {
    const struct co_jnode *at = n + 1;
    const struct co_jnode *end = n + n->size;
    bool object = n->type == CO_J_OBJECT;
    bool sound = n->size >= 1 && (object || n->type == CO_J_LIST || n->size == 1);
    while (sound && at < end) {
        sound = !object || (at->type == CO_J_STRING && at->size == 1 && at + 1 < end);
        at += object;
        sound = sound && is_sound(at);
        at += at->size;
    }
    return sound && at == end;
}

static int check(const struct co_jdoc *doc) {
    for (size_t i = 0; i < doc->n; i++) {
        const struct co_jnode *n = &doc->node[i];
        if ((n->type == CO_J_STRING || n->type == CO_J_NUMBER) && strlen(n->text) > OUT_MAX) {
            __builtin_trap(); /* and the sanitizer sees a text that does not end */
        }
    }
    if (doc->node->size != doc->n || !is_sound(doc->node)) {
        __builtin_trap();
    }
    CO_AUTOJSON json_t *tree = co_json_of_nodes(doc->node);
    return tree ? 0 : CO_NOMEMORY;
}

static int read_object(const char *data, size_t len, struct co_err *err) {
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    int r = kube_proto_read(&pod, data, len, &doc, err);
    return r ? r : check(&doc);
}

static void read_items(const char *data, size_t len) {
    const char *at, *end, *item;
    size_t n;
    if (kube_proto_items(data, len, &at, &end, NULL)) {
        return;
    }
    while (!kube_proto_item(&at, end, &item, &n, NULL)) {
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        if (!co_proto_read(&pod, item, n, &doc, NULL) && check(&doc)) {
            __builtin_trap();
        }
    }
}

static int on_event(void *arg, const char *type, size_t type_len, const char *object, size_t len,
    struct co_err *err) {
    struct co_buf *out = arg;
    int r = co_buf_add(out, type, type_len, err);
    r = r ? r : co_buf_add(out, object, len, err);
    return r ? r : read_object(object, len, err);
}

static int feed(const char *data, size_t len, size_t piece, struct co_buf *out) {
    struct kube_proto_stream s = {0};
    int r = 0;
    for (size_t at = 0; !r && at < len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        r = kube_proto_feed(&s, EVENT_MAX, data + at, n, on_event, out, NULL);
    }
    kube_proto_stream_done(&s);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    CO_AUTOBUF struct co_buf whole = CO_BUF(OUT_MAX), cut = CO_BUF(OUT_MAX);
    (void)!read_object(text, size - 1, NULL);
    read_items(text, size - 1);
    int a = feed(text, size - 1, size, &whole);
    int b = feed(text, size - 1, (size_t)data[0] + 1, &cut);
    if (!a != !b || whole.len != cut.len ||
        (whole.len && memcmp(whole.data, cut.data, whole.len) != 0)) {
        __builtin_trap();
    }
    return 0;
}
