/* Any bytes: every document parses back to the same value, from JSON and from YAML as it is
 * written, and every key has a line. */
#include "common/yaml/yaml.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/yaml/yaml_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(const struct co_yaml *y, const json_t *doc, size_t size) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)doc, key, value) {
        int line = co_yaml_line(y, key);
        if (line < 1 || (size_t)line > size + 1) {
            abort();
        }
    }
}

static void check_round_trip(const json_t *doc) {
    CO_AUTOFREE char *text = co_json_dump(doc);
    CO_AUTOJSON json_t *again = NULL;
    if (co_json_parse(text, strlen(text), &again, NULL) || !json_equal(doc, again)) {
        abort();
    }
}

static void check_written(const json_t *doc) {
    CO_AUTOBUF struct co_buf text = CO_BUF(64 << 20);
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    CO_AUTOJSON json_t *again = NULL;
    if (co_yaml_write(doc, &text, NULL) == 0 &&
        (co_yaml_open("written", text.data, text.len, &y, NULL) || co_yaml_next(y, &again, NULL) ||
            !json_equal(doc, again))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    struct co_err err = {0};
    if (co_yaml_open("fuzz", (const char *)data, size, &y, &err)) {
        return 0;
    }
    for (;;) {
        CO_AUTOJSON json_t *doc = NULL;
        int r = co_yaml_next(y, &doc, &err);
        if (r) {
            if (doc || !err.msg[0] || err.code != r) {
                abort();
            }
            return 0;
        }
        check_round_trip(doc);
        check_written(doc);
        check_lines(y, doc, size);
        (void)co_yaml_line(y, "spec.worker.template.spec.containers.0.image");
    }
}
