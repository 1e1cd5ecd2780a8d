#include "common/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_nearest_word_is_found(void **state) {
    (void)state;
    static const char *const known[] = {
        "backoffLimit", "replicas", "template", "ps", "worker", "withGloo"};
    static const struct {
        const char *word, *meant; /* "": none */
    } rows[] = {
        {"bakoffLimit", "backoffLimit"},
        {"backofflimit", "backoffLimit"},
        {"replica", "replicas"},
        {"templte", "template"},
        {"workers", "worker"},
        {"pss", "ps"},
        {"PS", "ps"},
        {"Ps", "ps"},
        {"PX", ""},
        {"REPLICAS", "replicas"},
        {"WITHGLOO", "withGloo"},
        {"x", ""},
        {"", ""},
        {"completelyElse", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct co_near near = co_near_begin(rows[i].word, strlen(rows[i].word));
        const char *meant = "";
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
            meant = co_near_try(&near, known[k]) ? known[k] : meant;
        }
        assert_string_equal(meant, rows[i].meant);
    }
}

static void words_of_any_length_are_compared(void **state) {
    (void)state;
    char word[300];
    memset(word, 'a', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    struct co_near near = co_near_begin(word, strlen(word));
    assert_true(co_near_try(&near, word));
    assert_false(co_near_try(&near, "b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_word_is_found),
        cmocka_unit_test(words_of_any_length_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
