/* Any bytes: what parses dumps to text that parses to the same value; getters take any path. */
#include "common/json/json.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void get_all(const json_t *j, const char *path) {
    json_t *any;
    const char *s;
    int64_t i;
    (void)!co_json_get(j, path, JSON_OBJECT, &any, NULL);
    (void)!co_json_get_str(j, path, &s, NULL);
    (void)!co_json_get_i64(j, path, 0, 10, &i, NULL);
}

/* The input is a JSON text, or a path, a NUL and a JSON text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const char *text = (const char *)(nul ? nul + 1 : data);
    size_t len = nul ? size - (size_t)(nul + 1 - data) : size;
    CO_AUTOJSON json_t *j = NULL;
    struct co_err err = {0};
    if (co_json_parse(text, len, &j, &err)) {
        if (j || err.code != CO_INVALID || !err.msg[0]) {
            abort();
        }
        return 0;
    }
    if (nul) {
        get_all(j, (const char *)data);
    }
    CO_AUTOFREE char *plain = co_json_dump(j);
    CO_AUTOFREE char *theirs = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
    CO_AUTOFREE char *sorted = co_json_dump_sorted(j);
    CO_AUTOJSON json_t *again = NULL;
    if (!theirs || strcmp(plain, theirs) != 0 || strlen(plain) != strlen(sorted) ||
        co_json_parse(sorted, strlen(sorted), &again, &err) || !json_equal(j, again)) {
        abort();
    }
    return 0;
}
