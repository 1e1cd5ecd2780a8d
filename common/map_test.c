/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "common/map.h"

#include "common/mem.h"

#include <stdio.h>

static void set_get_replace_remove(void **state) {
    (void)state;
    struct co_map m = {0};
    int a, b;
    assert_null(co_map_get(&m, "k"));
    assert_null(co_map_remove(&m, "k"));
    assert_null(co_map_set(&m, "k", &a));
    assert_ptr_equal(&a, co_map_set(&m, "k", &b));
    assert_ptr_equal(&b, co_map_get(&m, "k"));
    assert_int_equal(1, m.len);
    assert_ptr_equal(&b, co_map_remove(&m, "k"));
    assert_null(co_map_get(&m, "k"));
    assert_int_equal(0, m.len);
    co_map_done(&m);
}

struct visit {
    struct co_map *map;
    int seen;
};

static void drop_odd(void *arg, const char *key, void *value) {
    struct visit *v = arg;
    v->seen++;
    if (*(int *)value % 2) {
        assert_ptr_equal(value, co_map_remove(v->map, key));
    }
}

static void each_may_remove_its_own(void **state) {
    (void)state;
    static int numbers[1000];
    struct co_map m = {0};
    char key[16];
    for (int i = 0; i < 1000; i++) {
        numbers[i] = i;
        (void)snprintf(key, sizeof(key), "%d", i);
        co_map_set(&m, key, &numbers[i]);
    }
    struct visit v = {.map = &m};
    co_map_each(&m, drop_odd, &v);
    assert_int_equal(1000, v.seen);
    assert_int_equal(500, m.len);
    assert_null(co_map_get(&m, "501"));
    assert_int_equal(500, *(int *)co_map_get(&m, "500"));
    co_map_done(&m);
}

/* Ports and ids are derived from it: it must never change. */
static void the_hash_is_fnv_1a(void **state) {
    (void)state;
    assert_true(co_hash("", 0) == 0xcbf29ce484222325U);
    assert_true(co_hash_str("a") == 0xaf63dc4c8601ec8cU);
    assert_true(co_hash_str("foobar") == 0x85944171f73967e8U);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_get_replace_remove),
        cmocka_unit_test(each_may_remove_its_own),
        cmocka_unit_test(the_hash_is_fnv_1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
