/* For tests only: translates JSON to the protobuf that an API server would have sent.  Knows the
 * name, version and labels of objects, lists, Statuses and watch events. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "common/json/proto.h"

CO_PROTO_TABLE(fake_meta, {1, "name", CO_PROTO_STRING}, {6, "resourceVersion", CO_PROTO_STRING});
CO_PROTO_TABLE(fake_object, {1, "metadata", CO_PROTO_MESSAGE, &fake_meta});

static inline void fake_varint(struct co_buf *b, uint64_t v) {
    int r = 0;
    do {
        r |= co_buf_add(
            b, &(unsigned char){(unsigned char)((v & 0x7F) | (v > 0x7F ? 0x80 : 0))}, 1, NULL);
        v >>= 7;
    } while (v);
    (void)r;
}

static inline void fake_bytes(struct co_buf *b, unsigned number, const void *data, size_t len) {
    fake_varint(b, number << 3 | 2);
    fake_varint(b, len);
    (void)!co_buf_add(b, data, len, NULL);
}

static inline void fake_text(struct co_buf *b, unsigned number, const char *text) {
    fake_bytes(b, number, text ? text : "", text ? strlen(text) : 0);
}

static inline void fake_number(struct co_buf *b, unsigned number, const json_t *v) {
    fake_varint(b, number << 3);
    fake_varint(b, (uint64_t)json_integer_value(v));
}

static inline void fake_item(struct co_buf *b, const json_t *object) {
    CO_AUTOBUF struct co_buf meta = CO_BUF(4096);
    fake_text(&meta, 1, co_json_str(object, "metadata", "name"));
    fake_text(&meta, 6, co_json_str(object, "metadata", "resourceVersion"));
    const char *key;
    json_t *value;
    json_object_foreach(co_json_at(object, "metadata", "labels"), key, value) {
        CO_AUTOBUF struct co_buf label = CO_BUF(4096);
        fake_text(&label, 1, key);
        fake_text(&label, 2, json_string_value(value));
        fake_bytes(&meta, 11, label.data, label.len);
    }
    fake_text(&meta, 17, "managed by nobody");
    fake_bytes(b, 1, meta.data, meta.len);
}

static inline const char *fake_message(struct co_buf *b, const json_t *object) {
    const json_t *items = json_object_get(object, "items");
    if (items) {
        CO_AUTOBUF struct co_buf meta = CO_BUF(4096);
        size_t i;
        json_t *v;
        fake_text(&meta, 2, co_json_str(object, "metadata", "resourceVersion"));
        fake_text(&meta, 3, co_json_str(object, "metadata", "continue"));
        fake_bytes(b, 1, meta.data, meta.len);
        json_array_foreach(items, i, v) {
            CO_AUTOBUF struct co_buf item = CO_BUF(4096);
            fake_item(&item, v);
            fake_bytes(b, 2, item.data, item.len);
        }
        return "PodList";
    }
    if (json_object_get(object, "metadata")) {
        fake_item(b, object);
        return "Pod";
    }
    CO_AUTOBUF struct co_buf details = CO_BUF(4096);
    fake_text(b, 3, co_json_str(object, "message"));
    fake_text(b, 4, co_json_str(object, "reason"));
    fake_number(&details, 5, co_json_at(object, "details", "retryAfterSeconds"));
    fake_bytes(b, 5, details.data, details.len);
    fake_number(b, 6, json_object_get(object, "code"));
    return "Status";
}

static inline void fake_unknown(struct co_buf *b, const json_t *object) {
    CO_AUTOBUF struct co_buf raw = CO_BUF(1 << 20), type = CO_BUF(64);
    const char *kind = fake_message(&raw, object);
    fake_text(&type, 1, "v1");
    fake_text(&type, 2, kind);
    (void)!co_buf_add(b, "k8s", 4, NULL);
    fake_bytes(b, 1, type.data, type.len);
    fake_bytes(b, 2, raw.data, raw.len);
    fake_text(b, 3, "");
    fake_text(b, 4, "");
}

static inline void fake_event(struct co_buf *b, const json_t *event) {
    CO_AUTOBUF struct co_buf frame = CO_BUF(1 << 20), object = CO_BUF(1 << 20),
                             raw = CO_BUF(1 << 20);
    fake_unknown(&raw, json_object_get(event, "object"));
    fake_bytes(&object, 1, raw.data, raw.len);
    fake_text(&frame, 1, co_json_str(event, "type"));
    fake_bytes(&frame, 2, object.data, object.len);
    const unsigned char length[4] = {0, (unsigned char)(frame.len >> 16),
        (unsigned char)(frame.len >> 8), (unsigned char)frame.len};
    (void)!co_buf_add(b, length, 4, NULL);
    (void)!co_buf_add(b, frame.data, frame.len, NULL);
}

/* Adds a body's translation: an object, or events line by line.  Anything else is copied. */
static inline void fake_proto(struct co_buf *b, const char *body) {
    while (*body) {
        size_t n = strcspn(body, "\n");
        n += body[n] == '\n';
        CO_AUTOJSON json_t *j = json_loadb(body, n, 0, NULL);
        if (json_object_get(j, "object")) {
            fake_event(b, j);
        } else if (json_is_object(j)) {
            fake_unknown(b, j);
        } else {
            (void)!co_buf_add(b, body, n, NULL);
        }
        body += n;
    }
}
