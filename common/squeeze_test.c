/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "common/squeeze.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

static const char like[] = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"\"}}";

static char *repeated(const char *part, size_t n) {
    size_t len = strlen(part);
    char *text = co_xcalloc(n * len + 1, 1);
    for (size_t i = 0; i < n * len; i++) {
        text[i] = part[i % len];
    }
    return text;
}

/* Nothing that zlib could make smaller. */
static char *noise(size_t n) {
    char *text = co_xcalloc(n + 1, 1);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (char)(x >> 24 ? x >> 24 : 1);
    }
    return text;
}

static void what_comes_back_is_what_went_in(void **state) {
    (void)state;
    struct {
        const char *what;
        char *text; /* owned */
        size_t most;
    } rows[] = {
        {"nothing", co_xstrdup(""), 0},
        {"a letter", co_xstrdup("x"), 1},
        {"what it is like", co_xstrdup(like), 8},
        {"the same with a name",
            co_xstrdup("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{"
                       "\"name\":\"j-worker-1\"}}"),
            24},
        {"one thing again and again", repeated("{\"name\":\"x\"},", 1000), 300},
        {"noise", noise(5000), 5000},
        {"the longest that is squeezed", repeated("0123456789abcdef", CO_SQUEEZE_MAX / 16), 1000},
        {"longer", repeated("0123456789abcdef", CO_SQUEEZE_MAX / 16 + 1), CO_SQUEEZE_MAX + 16},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_slab slab = {0};
        size_t len = strlen(rows[i].text);
        struct co_squeezed s = co_squeeze(&slab, rows[i].text, len, like);
        CO_AUTOFREE char *back = co_unsqueeze(&s, like);
        if (strcmp(back, rows[i].text) != 0 || s.len != len || s.size > rows[i].most) {
            fail_msg("%s: %zu bytes became %zu, at most %zu were expected", rows[i].what, len,
                s.size, rows[i].most);
        }
        co_slab_free(&slab, s.data, s.size);
        co_slab_done(&slab);
        free(rows[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back_is_what_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
