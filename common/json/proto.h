/* Decodes Protocol Buffers to the nodes that the same object in JSON would give
 * (common/json/jdoc.h).  A table says which fields are wanted; all others are skipped.
 *
 * For servers that offer both formats, where JSON costs more.  Members are in the order of the
 * wire; a field that occurs twice gives a duplicate key, of which readers take the last.  Pure. */
#pragma once

#include "common/json/jdoc.h"

enum co_proto_kind {
    CO_PROTO_STRING, /* left out when empty, as with Go's omitempty */
    CO_PROTO_INT,    /* int32, int64, uint32 */
    CO_PROTO_INTS,   /* a list of such, not packed, as Kubernetes writes it */
    CO_PROTO_BOOL,
    CO_PROTO_TIME,     /* {seconds = 1}, as RFC 3339; null when it has none */
    CO_PROTO_MAP,      /* of strings to strings */
    CO_PROTO_MESSAGE,  /* by its own table */
    CO_PROTO_MESSAGES, /* a list of such */
};

struct co_proto_field {
    uint32_t number;
    const char *name;
    enum co_proto_kind kind;
    const struct co_proto_message *message; /* of the last two kinds */
};

/* At most 64 rows; a table must not contain itself. */
struct co_proto_message {
    const struct co_proto_field *fields;
    size_t n;
};
/* A table and its rows. */
#define CO_PROTO_TABLE(table, ...)                                                                 \
    static const struct co_proto_field table##_fields[] = {__VA_ARGS__};                           \
    static const struct co_proto_message table = {table##_fields, CO_ARRAY_LEN(table##_fields)}

/* Decodes one object; its strings are copied.  Invalid UTF-8 and NUL become U+FFFD.  CO_INVALID:
 * not protobuf, a field of another type than in the table, or a list with other fields between its
 * items, which no encoder writes; CO_NORESOURCE: too long; CO_NOMEMORY.  To be freed by
 * co_jdoc_done after success only. */
CO_MUST_CHECK int co_proto_read(const struct co_proto_message *message, const char *data,
    size_t len, struct co_jdoc *ret, struct co_err *err);

/* The bytes of the last field with this number; *ret NULL when there is none. */
CO_MUST_CHECK int co_proto_bytes(const char *data, size_t len, uint32_t number, const char **ret,
    size_t *ret_len, struct co_err *err);

/* A message's fields, one after the other. */
struct co_proto_value {
    uint32_t number;
    uint8_t wire;     /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t varint;  /* of wire 0 */
    const char *data; /* for the others; points into the message */
    size_t len;
};
/* The next field; advances *at.  CO_GONE at the end. */
CO_MUST_CHECK int co_proto_next(
    const char **at, const char *end, struct co_proto_value *ret, struct co_err *err);
