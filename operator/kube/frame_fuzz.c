/* The first byte says how the rest is cut into pieces; whatever the cut, the lines are the same. */
#include "operator/kube/frame.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
    uint64_t hash;
    size_t lines;
};

static int on_line(void *arg, const char *line, size_t len) {
    struct sum *s = arg;
    enum kube_frame_type type;
    const char *object;
    size_t object_len;
    s->lines++;
    for (size_t i = 0; i < len; i++) {
        s->hash = (s->hash ^ (unsigned char)line[i]) * 1099511628211u;
    }
    if (!kube_frame_split(line, len, &type, &object, &object_len, NULL) &&
        (object < line || object + object_len > line + len)) {
        __builtin_trap();
    }
    return 0;
}

static int feed(const char *text, size_t len, size_t piece, struct sum *ret) {
    struct kube_frame f;
    int rc = 0;
    kube_frame_init(&f, 256);
    for (size_t at = 0; !rc && at < len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        rc = kube_frame_feed(&f, text + at, n, on_line, ret, NULL);
    }
    kube_frame_done(&f);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    struct sum whole = {0}, cut = {0};
    int a = feed((const char *)data + 1, size - 1, size, &whole);
    int b = feed((const char *)data + 1, size - 1, (size_t)data[0] + 1, &cut);
    if (a != b || whole.hash != cut.hash || whole.lines != cut.lines) {
        __builtin_trap();
    }
    return 0;
}
