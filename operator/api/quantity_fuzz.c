/* Any text: what is an amount has a canonical text that is the same amount, and is its own. */
#include "operator/api/quantity.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *text = co_xstrndup((const char *)data, size);
    struct api_quantity q, again, sum = {0};
    char first[API_QUANTITY_TEXT], second[API_QUANTITY_TEXT];
    struct co_err err = {0};
    if (api_quantity_parse(text, &q, &err)) {
        if (err.code != CO_INVALID || !err.msg[0]) {
            abort();
        }
        return 0;
    }
    api_quantity_format(&q, first);
    if (api_quantity_parse(first, &again, &err) || again.nano != q.nano) {
        abort();
    }
    api_quantity_format(&again, second);
    if (strcmp(first, second) != 0) {
        abort();
    }
    for (int i = 0; i < 3; i++) {
        api_quantity_add(&sum, &q, INT64_MAX);
    }
    api_quantity_format(&sum, first);
    return 0;
}
