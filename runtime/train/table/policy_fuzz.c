/* Fuzzes the policy parsers: a text is accepted or refused with a message, and an accepted policy
 * can be applied to a row. */
#include "runtime/train/table/policy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct table_policy *p) {
    float head[TABLE_POLICY_HEAD_MAX] = {0}, words[TABLE_POLICY_HEAD_MAX] = {0};
    for (uint32_t now = 0; now < 3; now++) {
        table_evict_seen(p, head, now, 3, 1);
        table_evict_save(p, head, now, words);
        table_evict_load(p, head, now, words);
        (void)table_evict_shrink(p, head, now + 1);
        for (int mode = 0; mode < RT_SAVE_MODES; mode++) {
            table_evict_saved(p, head, (enum rt_save_mode)mode);
            if (mode == RT_SAVE_ALL && !table_evict_saves(p, head, RT_SAVE_ALL)) {
                abort();
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[256];
    if (size >= sizeof(text)) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    struct table_policy p;
    struct co_err err = {0};
    if (table_admit_parse(text, &p, &err) < 0 && err.code != CO_INVALID) {
        abort();
    }
    err.code = 0;
    int rc = table_evict_parse(text, &p, &err);
    if (rc < 0 && err.code != CO_INVALID) {
        abort();
    }
    if (rc == 0) {
        use(&p);
    }
    return 0;
}
