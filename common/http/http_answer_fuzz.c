/* An answer of any server, in pieces: the same comes out as in one piece, within the bounds. */
#include "common/http/http_answer.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const char *text, size_t len, size_t step, struct co_http_answer *a) {
    size_t at = 0, used = 0;
    int r = 0;
    co_http_answer_init(a, 4096);
    while (at < len && !r && !a->complete) {
        r = co_http_answer_feed(a, text + at, step < len - at ? step : len - at, &used, NULL);
        at += used;
    }
    return r ? r : co_http_answer_end(a, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct co_http_answer a, b;
    int r = run((const char *)data, size, size ? size : 1, &a);
    int q = run((const char *)data, size, 1 + size % 7, &b);
    if (r != q || a.status != b.status || a.close != b.close || a.body.len > 4096 ||
        (!r && (a.body.len != b.body.len ||
                   (a.body.len && memcmp(a.body.data, b.body.data, a.body.len) != 0)))) {
        abort();
    }
    co_http_answer_done(&a);
    co_http_answer_done(&b);
    return 0;
}
