#include "operator/kube/proto.h"

#include <string.h>

static const char magic[] = {'k', '8', 's', '\0'};

enum { LENGTH_SIZE = 4 };

/* ---- tables of k8s.io/apimachinery/pkg/apis/meta/v1 ---- */

CO_PROTO_TABLE(list_meta, {2, "resourceVersion", CO_PROTO_STRING}, {3, "continue", CO_PROTO_STRING},
    {4, "remainingItemCount", CO_PROTO_INT});
CO_PROTO_TABLE(status_cause, {1, "reason", CO_PROTO_STRING}, {2, "message", CO_PROTO_STRING},
    {3, "field", CO_PROTO_STRING});
CO_PROTO_TABLE(status_details, {1, "name", CO_PROTO_STRING}, {2, "group", CO_PROTO_STRING},
    {3, "kind", CO_PROTO_STRING}, {6, "uid", CO_PROTO_STRING},
    {4, "causes", CO_PROTO_MESSAGES, &status_cause}, {5, "retryAfterSeconds", CO_PROTO_INT});
CO_PROTO_TABLE(status, {1, "metadata", CO_PROTO_MESSAGE, &list_meta},
    {2, "status", CO_PROTO_STRING}, {3, "message", CO_PROTO_STRING}, {4, "reason", CO_PROTO_STRING},
    {5, "details", CO_PROTO_MESSAGE, &status_details}, {6, "code", CO_PROTO_INT});

/* ---- objects ---- */

struct bytes {
    const char *data; /* NULL: absent */
    size_t len;
};

static int field(struct bytes of, uint32_t number, struct bytes *ret, struct co_err *err) {
    return co_proto_bytes(of.data ? of.data : "", of.len, number, &ret->data, &ret->len, err);
}

static bool ends_with(struct bytes s, const char *end) {
    size_t n = strlen(end);
    return s.len >= n && memcmp(s.data + s.len - n, end, n) == 0;
}

static bool is(struct bytes s, const char *word) {
    return s.len == strlen(word) && ends_with(s, word);
}

bool op_kube_proto_is(const char *text, size_t len) {
    return len >= sizeof(magic) && memcmp(text, magic, sizeof(magic)) == 0;
}

/* In the order in which API servers write it, which readers of texts go by. */
static int write_list(const struct co_proto_message *table, struct bytes raw, struct co_buf *out,
    struct co_err *err) {
    enum { METADATA = 1, ITEMS = 2 };
    struct bytes meta;
    const char *at = raw.data;
    const char *end = at + raw.len;
    struct co_proto_value v;
    bool first = true;
    int r = field(raw, METADATA, &meta, err);
    r = r ? r : co_buf_adds(out, ",\"metadata\":", err);
    r = r ? r : co_proto_json(&list_meta, meta.data ? meta.data : "", meta.len, out, err);
    r = r ? r : co_buf_adds(out, ",\"items\":[", err);
    while (!r && !(r = co_proto_next(&at, end, &v, err))) {
        if (v.number != ITEMS || !v.data) {
            continue;
        }
        r = first ? 0 : co_buf_add(out, ",", 1, err);
        r = r ? r : co_proto_json(table, v.data, v.len, out, err);
        first = false;
    }
    return r == CO_GONE ? co_buf_adds(out, "]}", err) : r;
}

static int write_object(const struct co_proto_message *table, struct bytes raw, struct co_buf *out,
    struct co_err *err) {
    bool first = false;
    int r = co_proto_members(table, raw.data, raw.len, &first, out, err);
    return r ? r : co_buf_add(out, "}", 1, err);
}

int op_kube_proto_json(const struct co_proto_message *table, const char *data, size_t len,
    struct co_buf *out, struct co_err *err) {
    enum { TYPE = 1, RAW = 2, API_VERSION = 1, KIND = 2 };
    if (!op_kube_proto_is(data, len)) {
        return co_err_set(err, CO_INVALID, "protobuf: no \"k8s\" at the beginning");
    }
    const struct bytes all = {data + sizeof(magic), len - sizeof(magic)};
    struct bytes type, raw, version, kind;
    int r = field(all, TYPE, &type, err);
    r = r ? r : field(all, RAW, &raw, err);
    r = r ? r : field(type, API_VERSION, &version, err);
    r = r ? r : field(type, KIND, &kind, err);
    if (r || !raw.data || !kind.data) {
        return r ? r : co_err_set(err, CO_INVALID, "protobuf: an object without kind or content");
    }
    r = co_buf_adds(out, "{\"kind\":", err);
    r = r ? r : co_proto_string(kind.data, kind.len, out, err);
    r = r ? r : co_buf_adds(out, ",\"apiVersion\":", err);
    r = r ? r : co_proto_string(version.data ? version.data : "", version.len, out, err);
    if (r) {
        return r;
    }
    if (is(kind, "Status")) {
        return write_object(&status, raw, out, err);
    }
    return ends_with(kind, "List") ? write_list(table, raw, out, err)
                                   : write_object(table, raw, out, err);
}

/* ---- watches ---- */

bool op_kube_proto_stream_is(struct op_kube_proto_stream *s, const char *data, size_t len) {
    if (!s->begun && len) {
        s->begun = true;
        s->proto = *data == '\0';
    }
    return s->proto;
}

void op_kube_proto_stream_done(struct op_kube_proto_stream *s) {
    co_buf_done(&s->part);
}

static int write_event(const struct co_proto_message *table, struct bytes event, struct co_buf *out,
    struct co_err *err) {
    enum { TYPE = 1, OBJECT = 2, RAW = 1 };
    struct bytes type, object, raw;
    int r = field(event, TYPE, &type, err);
    r = r ? r : field(event, OBJECT, &object, err);
    r = r ? r : field(object, RAW, &raw, err);
    if (r || !type.data || !raw.data) {
        return r ? r : co_err_set(err, CO_INVALID, "protobuf: an event without type or object");
    }
    r = co_buf_adds(out, "{\"type\":", err);
    r = r ? r : co_proto_string(type.data, type.len, out, err);
    r = r ? r : co_buf_adds(out, ",\"object\":", err);
    r = r ? r : op_kube_proto_json(table, raw.data, raw.len, out, err);
    return r ? r : co_buf_adds(out, "}\n", err);
}

static size_t length_of(const char *four) {
    const unsigned char *u = (const unsigned char *)four;
    return (size_t)u[0] << 24 | (size_t)u[1] << 16 | (size_t)u[2] << 8 | u[3];
}

static int too_long(size_t n, size_t event_max, struct co_err *err) {
    return co_err_set(
        err, CO_NORESOURCE, "an event of %zu bytes; at most %zu are taken", n, event_max);
}

/* Whole events at *at. */
static int take_events(const struct co_proto_message *table, size_t event_max, const char **at,
    const char *end, struct co_buf *out, struct co_err *err) {
    while (end - *at >= LENGTH_SIZE) {
        size_t n = length_of(*at);
        if (n > event_max) {
            return too_long(n, event_max, err);
        }
        if ((size_t)(end - *at) < LENGTH_SIZE + n) {
            break;
        }
        int r = write_event(table, (struct bytes){*at + LENGTH_SIZE, n}, out, err);
        if (r) {
            return r;
        }
        *at += LENGTH_SIZE + n;
    }
    return 0;
}

/* The event that has begun, from the bytes that came since. */
static int fill_part(
    struct co_buf *part, size_t event_max, const char **data, const char *end, struct co_err *err) {
    int r = 0;
    part->max = LENGTH_SIZE + event_max;
    while (!r && part->len && *data < end) {
        size_t whole = LENGTH_SIZE + (part->len < LENGTH_SIZE ? 0 : length_of(part->data));
        size_t left = (size_t)(end - *data);
        if (part->len == whole) {
            break;
        }
        size_t n = whole - part->len < left ? whole - part->len : left;
        r = whole > part->max ? too_long(whole - LENGTH_SIZE, event_max, err)
                              : co_buf_add(part, *data, n, err);
        *data += n;
    }
    return r;
}

int op_kube_proto_feed(struct op_kube_proto_stream *s, const struct co_proto_message *table,
    size_t event_max, const char *data, size_t len, struct co_buf *out, struct co_err *err) {
    const char *end = data + len;
    int r = fill_part(&s->part, event_max, &data, end, err);
    if (!r && s->part.len) {
        const char *at = s->part.data;
        r = take_events(table, event_max, &at, at + s->part.len, out, err);
        if (at == s->part.data + s->part.len) {
            co_buf_done(&s->part); /* a large one's room is not kept */
        }
    }
    r = r ? r : take_events(table, event_max, &data, end, out, err);
    return r || data == end ? r : co_buf_add(&s->part, data, (size_t)(end - data), err);
}
