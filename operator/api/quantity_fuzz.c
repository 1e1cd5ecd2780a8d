/* Any text: what is an amount has a canonical text that is the same amount, and is its own. */
#include "operator/api/quantity.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *text = co_xstrndup((const char *)data, size);
    struct op_quantity q, again, sum = {0};
    char first[OP_QUANTITY_TEXT], second[OP_QUANTITY_TEXT];
    struct co_err err = {0};
    if (op_quantity_parse(text, &q, &err)) {
        if (err.code != CO_INVALID || !err.msg[0]) {
            abort();
        }
        return 0;
    }
    op_quantity_format(&q, first);
    if (op_quantity_parse(first, &again, &err) || again.nano != q.nano) {
        abort();
    }
    op_quantity_format(&again, second);
    if (strcmp(first, second) != 0) {
        abort();
    }
    for (int i = 0; i < 3; i++) {
        op_quantity_add(&sum, &q, INT64_MAX);
    }
    op_quantity_format(&sum, first);
    return 0;
}
