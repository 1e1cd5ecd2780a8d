/* The protobuf decoder: the wire format, and one pass that adds nodes by a table. */
#include "common/json/proto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/parse.h"
#include "common/utf8.h"

enum { WIRE_VARINT = 0, WIRE_EIGHT = 1, WIRE_BYTES = 2, WIRE_FOUR = 5 };

/* ---- the wire --------------------------------------------------------------------------- */

static int set_malformed(struct co_err *err, const char *what) {
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
        return set_malformed(err, "no field number");
    }
    ret->number = (uint32_t)(tag >> 3);
    ret->wire = tag & 7;
    uint64_t len = 0;
    switch (ret->wire) {
    case WIRE_VARINT:
        return read_varint(at, end, &ret->varint)
                   ? 0
                   : set_malformed(err, "a number that does not end");
    case WIRE_EIGHT:
        len = 8;
        break;
    case WIRE_FOUR:
        len = 4;
        break;
    case WIRE_BYTES:
        if (!read_varint(at, end, &len)) {
            return set_malformed(err, "a length that does not end");
        }
        break;
    default: /* groups, which have been deprecated for fifteen years */
        return set_malformed(err, "a field of an unknown kind");
    }
    if (len > (uint64_t)(end - *at)) {
        return set_malformed(err, "a field beyond the end");
    }
    ret->data = *at;
    ret->len = (size_t)len;
    *at += len;
    return 0;
}

/* The last field with this number; its wire type must be `wire`.  *ret_found: there is one. */
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
            return set_malformed(err, "a field of another kind than its table says");
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

/* ---- nodes ------------------------------------------------------------------------------ */

/* The text of a field takes at most ROOM_A_BYTE times its bytes on the wire: an invalid byte
 * becomes three and a NUL, a time of four bytes becomes twenty and a NUL. */
enum { ROOM_A_BYTE = 8, BYTES_A_NODE = 20 };
/* The longest answer that is accepted.  Its room is half a GiB of address space, but only pages
 * that are written take memory. */
enum { LEN_MAX = 64 << 20 };

struct out {
    struct co_jdoc *doc;
    char *room; /* the free part of doc->text */
};

static void put_bytes(struct out *o, const char *data, size_t len) {
    memcpy(o->room, data, len);
    o->room += len;
}

static void add_string(struct out *o, const char *data, size_t len) {
    const char *end = data + len;
    (void)co_jdoc_add(o->doc, CO_J_STRING, o->room);
    while (data < end) {
        const char *run = data;
        while (data < end && (signed char)*data > 0) {
            data++;
        }
        put_bytes(o, run, (size_t)(data - run));
        if (data == end) {
            break;
        }
        size_t n = co_utf8_len(data, (size_t)(end - data));
        if (n > 1) {
            put_bytes(o, data, n);
        } else { /* a NUL would end the string */
            put_bytes(o, "\xEF\xBF\xBD", 3);
            n = 1;
        }
        data += n;
    }
    *o->room++ = '\0';
}

static void add_number(struct out *o, int64_t v) {
    char text[24];
    int n = snprintf(text, sizeof(text), "%" PRId64, v);
    (void)co_jdoc_add(o->doc, CO_J_NUMBER, o->room);
    put_bytes(o, text, (size_t)n + 1);
}

static int add_time(struct out *o, const char *data, size_t len, struct co_err *err) {
    struct co_proto_value seconds;
    bool found;
    int r = find_last(data, data + len, 1, WIRE_VARINT, &seconds, &found, err);
    if (!r && found) {
        char text[32];
        co_time_format((int64_t)seconds.varint, text);
        add_string(o, text, strlen(text));
    } else if (!r) {
        (void)co_jdoc_add(o->doc, CO_J_NULL, NULL);
    }
    return r;
}

static int add_entry(struct out *o, const char *data, size_t len, struct co_err *err) {
    const char *key, *value;
    size_t key_len, value_len;
    CO_TRY(co_proto_bytes(data, len, 1, &key, &key_len, err));
    CO_TRY(co_proto_bytes(data, len, 2, &value, &value_len, err));
    add_string(o, key ? key : "", key_len);
    add_string(o, value ? value : "", value_len);
    return 0;
}

static int add_message(struct out *o, const struct co_proto_message *message, const char *data,
    size_t len, struct co_err *err);

static int add_value(struct out *o, const struct co_proto_field *f, const struct co_proto_value *v,
    struct co_err *err) {
    switch (f->kind) {
    case CO_PROTO_STRING:
        add_string(o, v->data, v->len);
        return 0;
    case CO_PROTO_INT:
    case CO_PROTO_INTS:
        add_number(o, (int64_t)v->varint);
        return 0;
    case CO_PROTO_BOOL:
        (void)co_jdoc_add(o->doc, v->varint ? CO_J_TRUE : CO_J_FALSE, NULL);
        return 0;
    case CO_PROTO_TIME:
        return add_time(o, v->data, v->len, err);
    case CO_PROTO_MESSAGE:
    case CO_PROTO_MESSAGES:
        return add_message(o, f->message, v->data, v->len, err);
    case CO_PROTO_MAP:
        return add_entry(o, v->data, v->len, err);
    }
    return set_malformed(err, "a kind that no table has");
}

static uint8_t wire_of(const struct co_proto_field *f) {
    bool number = f->kind == CO_PROTO_INT || f->kind == CO_PROTO_INTS || f->kind == CO_PROTO_BOOL;
    return number ? WIRE_VARINT : WIRE_BYTES;
}

static bool is_many(const struct co_proto_field *f) {
    return f->kind == CO_PROTO_MESSAGES || f->kind == CO_PROTO_MAP || f->kind == CO_PROTO_INTS;
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

/* The list or map to which the next field may add an item. */
struct many {
    const struct co_proto_field *field; /* NULL: none */
    uint32_t node;
    uint64_t seen; /* a bit for each row whose list or map has begun */
};

static void end_many(struct out *o, struct many *m) {
    if (m->field) {
        co_jdoc_end(o->doc, m->node);
        m->field = NULL;
    }
}

/* Adds the key of a field, and opens its list or map, so that its value can be added. */
static int begin_member(struct out *o, const struct co_proto_message *message,
    const struct co_proto_field *f, struct many *m, struct co_err *err) {
    if (f == m->field) {
        return 0;
    }
    end_many(o, m);
    (void)co_jdoc_add(o->doc, CO_J_STRING, f->name);
    if (is_many(f)) {
        uint64_t bit = (uint64_t)1 << (f - message->fields);
        if (m->seen & bit) {
            return set_malformed(err, "a list in two pieces");
        }
        m->seen |= bit;
        m->field = f;
        m->node = co_jdoc_add(o->doc, f->kind == CO_PROTO_MAP ? CO_J_OBJECT : CO_J_LIST, NULL);
    }
    return 0;
}

/* One pass; recurses as deep as the tables are nested. */
static int add_message(struct out *o, const struct co_proto_message *message, const char *data,
    size_t len, struct co_err *err) {
    const char *end = data + len;
    uint32_t self = co_jdoc_add(o->doc, CO_J_OBJECT, NULL);
    struct many many = {.field = NULL};
    struct co_proto_value v;
    int r;
    while (!(r = co_proto_next(&data, end, &v, err))) {
        const struct co_proto_field *f = row_of(message, v.number);
        if (!f || (f->kind == CO_PROTO_STRING && v.wire == WIRE_BYTES && !v.len)) {
            continue;
        }
        CO_TRY(v.wire == wire_of(f)
                   ? begin_member(o, message, f, &many, err)
                   : set_malformed(err, "a field of another kind than its table says"));
        CO_TRY(add_value(o, f, &v, err));
    }
    end_many(o, &many);
    co_jdoc_end(o->doc, self);
    return r == CO_GONE ? 0 : r;
}

int co_proto_read(const struct co_proto_message *message, const char *data, size_t len,
    struct co_jdoc *ret, struct co_err *err) {
    if (len > LEN_MAX) {
        return co_err_set(err, CO_NORESOURCE,
            "protobuf: a message of %zu bytes, expected at most %d", len, LEN_MAX);
    }
    struct co_jdoc doc = {.text = malloc(len * ROOM_A_BYTE + 1), .cap = 1 + len / BYTES_A_NODE};
    doc.node = malloc(doc.cap * sizeof(*doc.node));
    struct out o = {.doc = &doc, .room = doc.text};
    int r = doc.text && doc.node ? add_message(&o, message, data, len, err)
                                 : co_err_set(err, CO_NOMEMORY,
                                       "protobuf: no memory for a message of %zu bytes", len);
    if (r) {
        co_jdoc_done(&doc);
    } else {
        *ret = doc;
    }
    return r;
}
