/* The first byte says how the rest is cut into pieces; whatever the cut, the lines are the same,
 * and what is taken is JSON. */
#include "common/jdoc.h"
#include "operator/kube/proto.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENT_MAX = 4096, OUT_MAX = 1 << 20 };

CO_PROTO_TABLE(state, {1, "exitCode", CO_PROTO_INT}, {6, "finishedAt", CO_PROTO_TIME});
CO_PROTO_TABLE(container, {1, "name", CO_PROTO_STRING}, {2, "state", CO_PROTO_MESSAGE, &state},
    {4, "ready", CO_PROTO_BOOL});
CO_PROTO_TABLE(meta, {1, "name", CO_PROTO_STRING}, {8, "creationTimestamp", CO_PROTO_TIME},
    {11, "labels", CO_PROTO_MAP});
CO_PROTO_TABLE(
    pod, {1, "metadata", CO_PROTO_MESSAGE, &meta}, {3, "status", CO_PROTO_MESSAGES, &container});

static void check_json(const char *text, size_t len) {
    CO_AUTOJDOC struct co_jdoc doc = {0};
    if (co_jdoc_read(text, len, NULL, &doc, NULL)) {
        __builtin_trap();
    }
}

static int feed(const char *data, size_t len, size_t piece, struct co_buf *out) {
    struct op_kube_proto_stream s = {0};
    int r = 0;
    for (size_t at = 0; !r && at < len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        r = op_kube_proto_feed(&s, &pod, EVENT_MAX, data + at, n, out, NULL);
    }
    op_kube_proto_stream_done(&s);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    CO_AUTOBUF struct co_buf object = CO_BUF(OUT_MAX), whole = CO_BUF(OUT_MAX),
                             cut = CO_BUF(OUT_MAX);
    if (op_kube_proto_is(text, size - 1) &&
        !op_kube_proto_json(&pod, text, size - 1, &object, NULL)) {
        check_json(object.data, object.len);
    }
    int a = feed(text, size - 1, size, &whole);
    int b = feed(text, size - 1, (size_t)data[0] + 1, &cut);
    if (!a != !b || (!a && (whole.len != cut.len ||
                               (whole.len && memcmp(whole.data, cut.data, whole.len) != 0)))) {
        __builtin_trap();
    }
    for (char *line = whole.data, *end; !a && line && (end = strchr(line, '\n')); line = end + 1) {
        check_json(line, (size_t)(end - line));
    }
    return 0;
}
