#include "common/proto.h"

#include "common/parse.h"
#include "common/utf8.h"

#include <inttypes.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_EIGHT = 1, WIRE_BYTES = 2, WIRE_FOUR = 5 };

/* ---- the wire --------------------------------------------------------------------------- */

static int bad(struct co_err *err, const char *what) {
    return co_err_set(err, CO_INVALID, "protobuf: %s", what);
}

static bool read_varint(const char **at, const char *end, uint64_t *ret) {
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end && shift < 70; shift += 7) {
        unsigned char c = (unsigned char)*(*at)++;
        v |= shift < 64 ? (uint64_t)(c & 0x7F) << shift : 0;
        if (c < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

int co_proto_next(
    const char **at, const char *end, struct co_proto_value *ret, struct co_err *err) {
    uint64_t tag = 0;
    *ret = (struct co_proto_value){0};
    if (*at >= end) {
        return CO_GONE;
    }
    if (!read_varint(at, end, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) {
        return bad(err, "no field number");
    }
    ret->number = (uint32_t)(tag >> 3);
    ret->wire = tag & 7;
    uint64_t len = 0;
    switch (ret->wire) {
    case WIRE_VARINT:
        return read_varint(at, end, &ret->varint) ? 0 : bad(err, "a number that does not end");
    case WIRE_EIGHT:
        len = 8;
        break;
    case WIRE_FOUR:
        len = 4;
        break;
    case WIRE_BYTES:
        if (!read_varint(at, end, &len)) {
            return bad(err, "a length that does not end");
        }
        break;
    default: /* groups, which nobody has written for fifteen years */
        return bad(err, "a field of an unknown kind");
    }
    if (len > (uint64_t)(end - *at)) {
        return bad(err, "a field beyond the end");
    }
    ret->data = *at;
    ret->len = (size_t)len;
    *at += len;
    return 0;
}

/* The last field with this number, of this wire; false in *ret_found when there is none. */
static int find_last(const char *at, const char *end, uint32_t number, uint8_t wire,
    struct co_proto_value *ret, bool *ret_found, struct co_err *err) {
    struct co_proto_value v;
    int r;
    *ret_found = false;
    while (!(r = co_proto_next(&at, end, &v, err))) {
        if (v.number != number) {
            continue;
        }
        if (v.wire != wire) {
            return bad(err, "a field of another kind than its table says");
        }
        *ret = v;
        *ret_found = true;
    }
    return r == CO_GONE ? 0 : r;
}

int co_proto_bytes(const char *data, size_t len, uint32_t number, const char **ret, size_t *ret_len,
    struct co_err *err) {
    struct co_proto_value v;
    bool found;
    int r = find_last(data, data + len, number, WIRE_BYTES, &v, &found, err);
    *ret = !r && found ? v.data : NULL;
    *ret_len = *ret ? v.len : 0;
    return r;
}

/* ---- JSON ------------------------------------------------------------------------------- */

static bool is_plain(char c) {
    return (signed char)c >= ' ' && c != '"' && c != '\\';
}

int co_proto_string(const char *data, size_t len, struct co_buf *out, struct co_err *err) {
    const char *end = data + len;
    int r = co_buf_add(out, "\"", 1, err);
    while (!r && data < end) {
        const char *run = data;
        while (data < end && is_plain(*data)) {
            data++;
        }
        r = co_buf_add(out, run, (size_t)(data - run), err);
        if (r || data == end) {
            break;
        }
        size_t n = co_utf8_len(data, (size_t)(end - data));
        if (n > 1) {
            r = co_buf_add(out, data, n, err);
        } else if (!n) {
            r = co_buf_adds(out, "\xEF\xBF\xBD", err);
            n = 1;
        } else {
            r = co_buf_addf(out, err, "\\u%04x", (unsigned)*data);
        }
        data += n;
    }
    return r ? r : co_buf_add(out, "\"", 1, err);
}

static int write_time(const char *data, size_t len, struct co_buf *out, struct co_err *err) {
    struct co_proto_value seconds;
    bool found;
    int r = find_last(data, data + len, 1, WIRE_VARINT, &seconds, &found, err);
    if (r || !found) {
        return r ? r : co_buf_adds(out, "null", err);
    }
    char text[32];
    co_time_format((int64_t)seconds.varint, text);
    return co_buf_addf(out, err, "\"%s\"", text);
}

static int write_entry(const char *data, size_t len, struct co_buf *out, struct co_err *err) {
    const char *key, *value;
    size_t key_len, value_len;
    int r = co_proto_bytes(data, len, 1, &key, &key_len, err);
    r = r ? r : co_proto_bytes(data, len, 2, &value, &value_len, err);
    r = r ? r : co_proto_string(key ? key : "", key_len, out, err);
    r = r ? r : co_buf_add(out, ":", 1, err);
    return r ? r : co_proto_string(value ? value : "", value_len, out, err);
}

static int write_value(const struct co_proto_field *f, const struct co_proto_value *v,
    struct co_buf *out, struct co_err *err) {
    switch (f->kind) {
    case CO_PROTO_STRING:
        return co_proto_string(v->data, v->len, out, err);
    case CO_PROTO_INT:
        return v->varint < 10 ? co_buf_add(out, &"0123456789"[v->varint], 1, err)
                              : co_buf_addf(out, err, "%" PRId64, (int64_t)v->varint);
    case CO_PROTO_BOOL:
        return co_buf_adds(out, v->varint ? "true" : "false", err);
    case CO_PROTO_TIME:
        return write_time(v->data, v->len, out, err);
    case CO_PROTO_MESSAGE:
    case CO_PROTO_MESSAGES:
        return co_proto_json(f->message, v->data, v->len, out, err);
    case CO_PROTO_MAP:
        return write_entry(v->data, v->len, out, err);
    }
    return bad(err, "a kind that no table has");
}

/* ---- objects: one pass over the message ---- */

static uint8_t wire_of(const struct co_proto_field *f) {
    return f->kind == CO_PROTO_INT || f->kind == CO_PROTO_BOOL ? WIRE_VARINT : WIRE_BYTES;
}

static bool is_many(const struct co_proto_field *f) {
    return f->kind == CO_PROTO_MESSAGES || f->kind == CO_PROTO_MAP;
}

static const struct co_proto_field *row_of(
    const struct co_proto_message *message, uint32_t number) {
    for (size_t i = 0; i < message->n; i++) {
        if (message->fields[i].number == number) {
            return &message->fields[i];
        }
    }
    return NULL;
}

struct object {
    struct co_buf *out;
    const struct co_proto_field *open; /* the list or map that is being written */
    uint64_t seen;                     /* lists and maps that were begun, by their rows */
    bool first;
};

static int close_list(struct object *o, struct co_err *err) {
    const struct co_proto_field *f = o->open;
    o->open = NULL;
    return f ? co_buf_add(o->out, f->kind == CO_PROTO_MAP ? "}" : "]", 1, err) : 0;
}

static int write_key(struct object *o, const char *name, const char *bracket, struct co_err *err) {
    const char *comma = o->first ? "\"" : ",\"";
    o->first = false;
    int r = co_buf_adds(o->out, comma, err);
    r = r ? r : co_buf_adds(o->out, name, err);
    r = r ? r : co_buf_adds(o->out, "\":", err);
    return r ? r : co_buf_adds(o->out, bracket, err);
}

/* Up to where the value is to be written. */
static int begin_member(struct object *o, const struct co_proto_message *message,
    const struct co_proto_field *f, struct co_err *err) {
    if (f == o->open) {
        return co_buf_add(o->out, ",", 1, err);
    }
    int r = close_list(o, err);
    if (r || !is_many(f)) {
        return r ? r : write_key(o, f->name, "", err);
    }
    uint64_t bit = (uint64_t)1 << (f - message->fields);
    if (o->seen & bit) {
        return bad(err, "a list in two pieces");
    }
    o->seen |= bit;
    o->open = f;
    return write_key(o, f->name, f->kind == CO_PROTO_MAP ? "{" : "[", err);
}

int co_proto_members(const struct co_proto_message *message, const char *data, size_t len,
    bool *first, struct co_buf *out, struct co_err *err) {
    const char *end = data + len;
    struct object o = {.out = out, .first = *first};
    struct co_proto_value v;
    int r;
    while (!(r = co_proto_next(&data, end, &v, err))) {
        const struct co_proto_field *f = row_of(message, v.number);
        if (!f || (f->kind == CO_PROTO_STRING && v.wire == WIRE_BYTES && !v.len)) {
            continue;
        }
        r = v.wire == wire_of(f) ? begin_member(&o, message, f, err)
                                 : bad(err, "a field of another kind than its table says");
        r = r ? r : write_value(f, &v, out, err);
        if (r) {
            return r;
        }
    }
    *first = o.first;
    return r == CO_GONE ? close_list(&o, err) : r;
}

int co_proto_json(const struct co_proto_message *message, const char *data, size_t len,
    struct co_buf *out, struct co_err *err) {
    bool first = true;
    int r = co_buf_add(out, "{", 1, err);
    r = r ? r : co_proto_members(message, data, len, &first, out, err);
    return r ? r : co_buf_add(out, "}", 1, err);
}
