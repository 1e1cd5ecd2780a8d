/* Namespace, name, subresource, key and value, NUL between them: whatever they hold, each stays one
 * segment or one parameter; and base64 gives back what it was given. */
#include "operator/kube/path.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count(const char *s, char c) {
    size_t n = 0;
    for (; *s; s++) {
        n += *s == c;
    }
    return n;
}

static void check_path(const char *part[5]) {
    static const struct kube_type type = {"batch.paddlepaddle.org", "v1", "paddlejobs", NULL};
    static const char fine[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%/";
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    if (kube_path_add(&b, &type, part[0], part[1], part[2], NULL)) {
        return;
    }
    if (strspn(b.data, fine) != b.len || count(b.data, '/') != 8 || strstr(b.data, "/../") ||
        strstr(b.data, "/./") || strstr(b.data, "//")) {
        abort();
    }
    size_t path = b.len;
    bool first = true;
    if (!kube_query_add(&b, &first, part[3], part[4], NULL) &&
        (b.data[path] != '?' || count(b.data + path, '?') != 1 || count(b.data + path, '=') != 1 ||
            count(b.data + path, '&') || count(b.data + path, '#') || count(b.data + path, ' '))) {
        abort();
    }
}

static void check_base64(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *text = co_base64(data, size);
    CO_AUTOFREE char *back = NULL;
    CO_AUTOFREE char *any = NULL;
    CO_AUTOFREE char *raw = co_xstrndup((const char *)data, size);
    size_t len = 0;
    if (co_base64_decode(text, &back, &len, NULL) || len != size || memcmp(back, data, size) != 0) {
        abort();
    }
    if (!co_base64_decode(raw, &any, &len, NULL) && len > size) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *all = co_xcalloc(size + 1, 1);
    memcpy(all, data, size);
    const char *part[5] = {"", "", "", "", ""};
    size_t at = 0;
    for (size_t i = 0; i < 5 && at < size; i++) {
        part[i] = all + at;
        at += strlen(all + at) + 1;
    }
    check_path(part);
    check_base64(data, size);
    free(all);
    return 0;
}
