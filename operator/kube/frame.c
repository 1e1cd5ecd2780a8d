/* Lines from a byte stream.  A line that arrives in one piece is not copied. */
#include "operator/kube/frame.h"

#include <string.h>

static const char *const types[] = {
    [KUBE_FRAME_ADDED] = "ADDED",
    [KUBE_FRAME_MODIFIED] = "MODIFIED",
    [KUBE_FRAME_DELETED] = "DELETED",
    [KUBE_FRAME_BOOKMARK] = "BOOKMARK",
    [KUBE_FRAME_ERROR] = "ERROR",
};

void kube_frame_init(struct kube_frame *f, size_t line_max) {
    f->part = CO_BUF(line_max);
}

void kube_frame_done(struct kube_frame *f) {
    co_buf_done(&f->part);
}

void kube_frame_clear(struct kube_frame *f) {
    co_buf_clear(&f->part);
}

static int too_long(const struct kube_frame *f, struct co_err *err) {
    return co_err_set(err, CO_NORESOURCE, "an event longer than %zu bytes", f->part.max);
}

static size_t trimmed_length(const char *line, size_t len) {
    return len && line[len - 1] == '\r' ? len - 1 : len;
}

/* Completes the line that began in an earlier piece.  Its buffer is taken out of the frame first,
 * because fn may free the frame. */
static int finish_part(struct kube_frame *f, const char *data, size_t len, kube_frame_fn fn,
    void *arg, struct co_err *err) {
    if (co_buf_add(&f->part, data, len, NULL)) {
        return too_long(f, err);
    }
    CO_AUTOBUF struct co_buf whole = f->part;
    f->part = CO_BUF(whole.max);
    size_t n = trimmed_length(whole.data, whole.len);
    return n ? fn(arg, whole.data, n) : 0;
}

int kube_frame_feed(struct kube_frame *f, const char *data, size_t len, kube_frame_fn fn, void *arg,
    struct co_err *err) {
    while (len) {
        const char *end = memchr(data, '\n', len);
        if (!end) {
            return co_buf_add(&f->part, data, len, NULL) ? too_long(f, err) : 0;
        }
        size_t n = (size_t)(end - data);
        int rc = 0;
        if (f->part.len) {
            rc = finish_part(f, data, n, fn, arg, err);
        } else if (n > f->part.max) {
            rc = too_long(f, err);
        } else if (trimmed_length(data, n)) {
            rc = fn(arg, data, trimmed_length(data, n));
        }
        if (rc) {
            return rc;
        }
        data = end + 1;
        len -= n + 1;
    }
    return 0;
}

bool kube_frame_torn(const struct kube_frame *f) {
    return f->part.len > 0;
}

int kube_frame_type_parse(
    const char *name, size_t len, enum kube_frame_type *ret, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(types); i++) {
        if (strlen(types[i]) == len && memcmp(types[i], name, len) == 0) {
            *ret = (enum kube_frame_type)i;
            return 0;
        }
    }
    return co_err_set(
        err, CO_INVALID, "unknown event type \"%.*s\"", (int)(len > 40 ? 40 : len), name);
}

int kube_frame_split(const char *line, size_t len, enum kube_frame_type *ret_type,
    const char **ret_object, size_t *ret_len, struct co_err *err) {
    static const char head[] = "{\"type\":\"";
    static const char middle[] = "\",\"object\":";
    const size_t head_len = sizeof(head) - 1;
    const size_t middle_len = sizeof(middle) - 1;
    const char *name = line + head_len;
    const char *quote = NULL;
    if (len > head_len && memcmp(line, head, head_len) == 0) {
        quote = memchr(name, '"', len - head_len);
    }
    const char *object = quote ? quote + middle_len : NULL;
    const char *end = line + len;
    if (!quote || (size_t)(end - quote) < middle_len + 3 ||
        memcmp(quote, middle, middle_len) != 0 || *object != '{' || end[-1] != '}' ||
        end[-2] != '}') {
        return co_err_set(err, CO_INVALID, "not the usual form of a watch event");
    }
    CO_TRY(kube_frame_type_parse(name, (size_t)(quote - name), ret_type, err));
    *ret_object = object;
    *ret_len = (size_t)(end - object) - 1;
    return 0;
}
