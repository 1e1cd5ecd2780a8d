/* What jansson takes is taken unchanged; whatever else is taken can be written and read back. */
#include <string.h>

#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    CO_AUTOJSON json_t *plain = NULL;
    CO_AUTOJSON json_t *odd = NULL;
    CO_AUTOJSON json_t *again = NULL;
    struct co_err err = {0};
    int p = co_json_parse(text, size, &plain, NULL);
    int r = co_json_parse_odd(text, size, &odd, &err);
    if ((r && !err.code) || (!p && (r || !json_equal(plain, odd)))) {
        abort();
    }
    if (!r) {
        CO_AUTOFREE char *written = json_dumps(odd, JSON_ENCODE_ANY | JSON_COMPACT);
        if (!written || co_json_parse(written, strlen(written), &again, NULL)) {
            abort();
        }
    }
    return 0;
}
