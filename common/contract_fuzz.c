/* First byte: which row; the rest: its value.  Nothing may crash, and what a list check accepts
 * must come out of the list walk unchanged. */
#include "common/contract.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count(void *arg, size_t index, const char *element, struct co_err *err) {
    size_t *bytes = arg;
    (void)err;
    *bytes += strlen(element) + (index > 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    enum co_var var = (enum co_var)(data[0] % CO_VAR_COUNT);
    CO_AUTOFREE char *value = co_xstrndup((const char *)data + 1, size - 1);
    struct co_err err = {0};
    int r = co_contract_check(var, value, &err);
    if (r && !err.code) {
        abort();
    }
    size_t bytes = 0;
    enum co_var_type type = co_contract[var].type;
    if (!r && (type == CO_TYPE_HOSTS || type == CO_TYPE_ENDPOINTS) &&
        (co_contract_list(var, value, count, &bytes, NULL) || bytes != strlen(value))) {
        abort();
    }
    return 0;
}
