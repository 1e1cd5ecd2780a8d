/* Decoding of Kubernetes' protobuf envelope, of lists and of watch events. */
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
CO_PROTO_TABLE(list, {1, "metadata", CO_PROTO_MESSAGE, &list_meta});

/* ---- objects ---- */

struct bytes {
    const char *data; /* NULL: absent */
    size_t len;
};

static int find_field(struct bytes of, uint32_t number, struct bytes *ret, struct co_err *err) {
    return co_proto_bytes(of.data ? of.data : "", of.len, number, &ret->data, &ret->len, err);
}

static bool ends_with(struct bytes s, const char *end) {
    size_t n = strlen(end);
    return s.len >= n && memcmp(s.data + s.len - n, end, n) == 0;
}

static bool is_word(struct bytes s, const char *word) {
    return s.len == strlen(word) && ends_with(s, word);
}

bool kube_proto_is(const char *text, size_t len) {
    return len >= sizeof(magic) && memcmp(text, magic, sizeof(magic)) == 0;
}

/* The runtime.Unknown that follows "k8s\0". */
struct unknown {
    struct bytes kind, raw;
};

static int open_unknown(const char *data, size_t len, struct unknown *ret, struct co_err *err) {
    enum { TYPE = 1, RAW = 2, KIND = 2 };
    if (!kube_proto_is(data, len)) {
        return co_err_set(err, CO_INVALID, "protobuf: no \"k8s\" at the beginning");
    }
    const struct bytes all = {data + sizeof(magic), len - sizeof(magic)};
    struct bytes type;
    CO_TRY(find_field(all, TYPE, &type, err));
    CO_TRY(find_field(all, RAW, &ret->raw, err));
    CO_TRY(find_field(type, KIND, &ret->kind, err));
    if (!ret->raw.data || !ret->kind.data) {
        return co_err_set(err, CO_INVALID, "protobuf: an object without kind or content");
    }
    return 0;
}

static bool is_list(const struct unknown *u) {
    return ends_with(u->kind, "List");
}

int kube_proto_read(const struct co_proto_message *table, const char *data, size_t len,
    struct co_jdoc *ret, struct co_err *err) {
    struct unknown u = {.kind = {NULL, 0}};
    CO_TRY(open_unknown(data, len, &u, err));
    table = is_word(u.kind, "Status") ? &status : is_list(&u) ? &list : table;
    return co_proto_read(table, u.raw.data, u.raw.len, ret, err);
}

int kube_proto_items(
    const char *data, size_t len, const char **ret_at, const char **ret_end, struct co_err *err) {
    struct unknown u = {.kind = {NULL, 0}};
    CO_TRY(open_unknown(data, len, &u, err));
    *ret_at = u.raw.data;
    *ret_end = u.raw.data + (is_list(&u) ? u.raw.len : 0);
    return 0;
}

int kube_proto_item(
    const char **at, const char *end, const char **ret, size_t *ret_len, struct co_err *err) {
    enum { ITEMS = 2 };
    struct co_proto_value v;
    int r;
    do {
        r = co_proto_next(at, end, &v, err);
    } while (!r && (v.number != ITEMS || !v.data));
    *ret = v.data;
    *ret_len = v.len;
    return r;
}

/* ---- watches ---- */

bool kube_proto_stream_is(struct kube_proto_stream *s, const char *data, size_t len) {
    if (!s->begun && len) {
        s->begun = true;
        s->proto = *data == '\0';
    }
    return s->proto;
}

void kube_proto_stream_done(struct kube_proto_stream *s) {
    co_buf_done(&s->part);
    *s = (struct kube_proto_stream){.begun = false};
}

static int report_event(struct bytes event, kube_proto_fn fn, void *arg, struct co_err *err) {
    enum { TYPE = 1, OBJECT = 2, RAW = 1 };
    struct bytes type, object, raw;
    CO_TRY(find_field(event, TYPE, &type, err));
    CO_TRY(find_field(event, OBJECT, &object, err));
    CO_TRY(find_field(object, RAW, &raw, err));
    if (!type.data || !raw.data) {
        return co_err_set(err, CO_INVALID, "protobuf: an event without type or object");
    }
    return fn(arg, type.data, type.len, raw.data, raw.len, err);
}

static size_t length_of(const char *four) {
    const unsigned char *u = (const unsigned char *)four;
    return (size_t)u[0] << 24 | (size_t)u[1] << 16 | (size_t)u[2] << 8 | u[3];
}

static int too_long(size_t n, size_t event_max, struct co_err *err) {
    return co_err_set(err, CO_NORESOURCE, "an event of %zu bytes, the limit is %zu", n, event_max);
}

/* Moves bytes from *data to part until part has `whole` bytes. */
static int fill_bytes(
    struct co_buf *part, size_t whole, const char **data, const char *end, struct co_err *err) {
    size_t missing = whole > part->len ? whole - part->len : 0;
    size_t left = (size_t)(end - *data);
    size_t n = missing < left ? missing : left;
    int r = n ? co_buf_add(part, *data, n, err) : 0;
    *data += n;
    return r;
}

/* Completes the event that began in an earlier piece: first its length, then its content. */
static int fill_part(
    struct co_buf *part, size_t event_max, const char **data, const char *end, struct co_err *err) {
    part->max = LENGTH_SIZE + event_max;
    int r = part->len ? fill_bytes(part, LENGTH_SIZE, data, end, err) : 0;
    if (r || part->len < LENGTH_SIZE) {
        return r;
    }
    size_t n = length_of(part->data);
    return n > event_max ? too_long(n, event_max, err)
                         : fill_bytes(part, LENGTH_SIZE + n, data, end, err);
}

static bool is_whole(const char *data, size_t len) {
    return len >= LENGTH_SIZE && len - LENGTH_SIZE >= length_of(data);
}

int kube_proto_feed(struct kube_proto_stream *s, size_t event_max, const char *data, size_t len,
    kube_proto_fn fn, void *arg, struct co_err *err) {
    const char *end = data + len;
    int r = fill_part(&s->part, event_max, &data, end, err);
    if (!r && is_whole(s->part.data, s->part.len)) {
        CO_AUTOBUF struct co_buf whole = s->part; /* taken out, because fn may free the stream */
        s->part = CO_BUF(whole.max);
        r = report_event(
            (struct bytes){whole.data + LENGTH_SIZE, whole.len - LENGTH_SIZE}, fn, arg, err);
    }
    while (!r && end - data >= LENGTH_SIZE) {
        size_t n = length_of(data);
        if (n > event_max) {
            return too_long(n, event_max, err);
        }
        if (!is_whole(data, (size_t)(end - data))) {
            break;
        }
        r = report_event((struct bytes){data + LENGTH_SIZE, n}, fn, arg, err);
        data += LENGTH_SIZE + n;
    }
    return r || data == end ? r : co_buf_add(&s->part, data, (size_t)(end - data), err);
}
