/* Base64 by GnuTLS, which the project links anyway. */
#include "common/base64.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>

/* GnuTLS takes pointers to non-const data, but only reads. */
static gnutls_datum_t datum_of(const void *data, size_t len) {
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)data, (unsigned)len};
}

int co_base64_decode(const char *text, char **ret_data, size_t *ret_len, struct co_err *err) {
    const gnutls_datum_t in = datum_of(text, strlen(text));
    gnutls_datum_t out = {0};
    /* GnuTLS stops at a dash without an error, since it takes it for the last line of a PEM file.
     */
    if (strchr(text, '-') || gnutls_base64_decode2(&in, &out) < 0) {
        return co_err_set(err, CO_INVALID, "not base64");
    }
    char *data = co_xcalloc((size_t)out.size + 1, 1);
    if (out.size) {
        memcpy(data, out.data, out.size);
        explicit_bzero(out.data, out.size); /* often a private key */
    }
    gnutls_free(out.data);
    *ret_data = data;
    *ret_len = out.size;
    return 0;
}

char *co_base64(const void *data, size_t len) {
    const gnutls_datum_t in = datum_of(data, len);
    gnutls_datum_t out = {0};
    if (gnutls_base64_encode2(&in, &out) < 0) { /* nothing else can fail */
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    char *text = co_xstrndup((const char *)out.data, out.size);
    gnutls_free(out.data);
    return text;
}
