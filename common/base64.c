#include "common/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int not_base64(struct co_err *err) {
    return co_err_set(err, CO_INVALID, "not base64");
}

int co_base64_decode(const char *text, char **ret_data, size_t *ret_len, struct co_err *err) {
    size_t used = 0, digits = 0, padding = 0;
    uint32_t v = 0;
    CO_AUTOFREE char *data = co_xmalloc(strlen(text) / 4 * 3 + 4);
    for (const char *p = text; *p; p++) {
        const char *at = strchr(alphabet, *p);
        if (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') {
            continue;
        }
        if (*p == '=') {
            padding++;
        } else if (!at || padding) {
            return not_base64(err);
        }
        v = v << 6 | (at ? (uint32_t)(at - alphabet) : 0);
        if (++digits % 4 == 0) {
            if (padding > 2) {
                return not_base64(err);
            }
            data[used++] = (char)(v >> 16 & 255);
            data[used++] = (char)(v >> 8 & 255);
            data[used++] = (char)(v & 255);
            used -= padding;
        }
    }
    if (digits % 4 || (padding && digits == 0)) {
        return not_base64(err);
    }
    data[used] = '\0';
    *ret_data = co_steal_ptr(data);
    *ret_len = used;
    return 0;
}

char *co_base64(const void *data, size_t len) {
    const unsigned char *in = data;
    char *text = co_xmalloc((len + 2) / 3 * 4 + 1);
    size_t used = 0;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t v = (uint32_t)in[i] << 16;
        v |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        v |= left > 2 ? (uint32_t)in[i + 2] : 0;
        text[used++] = alphabet[v >> 18];
        text[used++] = alphabet[(v >> 12) & 63];
        text[used++] = left > 1 ? alphabet[(v >> 6) & 63] : '=';
        text[used++] = left > 2 ? alphabet[v & 63] : '=';
    }
    text[used] = '\0';
    return text;
}
