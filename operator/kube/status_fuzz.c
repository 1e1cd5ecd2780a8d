/* Two bytes of HTTP status, then whatever a server or a proxy answers: always a code that says what
 * to do and a text, and never a wait of more than an hour. */
#include "operator/kube/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    int http = data[0] << 8 | data[1];
    if (http >= 200 && http <= 299) {
        return 0;
    }
    CO_AUTOFREE char *text = co_xstrndup((const char *)data + 2, size - 2);
    size_t len = strlen(text);
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    (void)!co_jdoc_read(text, len, NULL, &doc, NULL);
    const struct co_jnode *body = doc.node;
    struct co_err err = {0};
    int code = kube_status_err(&err, "create pods default/x", http, body, text);
    if (code >= 0 || err.code != code || !err.msg[0]) {
        abort();
    }
    int64_t of_body = kube_status_retry_ms(body);
    int64_t of_header = kube_retry_header_ms(text, size - 2);
    if (of_body < -1 || of_body > 3600 * 1000 || of_header < -1 || of_header > 3600 * 1000) {
        abort();
    }
    char texts[KUBE_WARNINGS_MAX] = "";
    kube_warnings_add(texts, text, len);
    kube_warnings_add(texts, (const char *)data, size);
    if (!memchr(texts, '\0', sizeof(texts)) || strpbrk(texts, "\r\n")) {
        abort();
    }
    return 0;
}
