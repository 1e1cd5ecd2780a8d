/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "common/map.h"

#include <stdio.h>

#include "common/mem.h"

static void set_get_replace_remove(void **state) {
    (void)state;
    struct co_map m = {0};
    int a, b;
    assert_null(co_map_get(&m, "k"));
    assert_null(co_map_remove(&m, "k"));
    assert_null(co_map_set(&m, "k", &a));
    assert_ptr_equal(&a, co_map_set(&m, "k", &b));
    assert_ptr_equal(&b, co_map_get(&m, "k"));
    assert_int_equal(1, m.nodes.len);
    assert_ptr_equal(&b, co_map_remove(&m, "k"));
    assert_null(co_map_get(&m, "k"));
    assert_int_equal(0, m.nodes.len);
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
    assert_int_equal(500, m.nodes.len);
    assert_null(co_map_get(&m, "501"));
    assert_int_equal(500, *(int *)co_map_get(&m, "500"));
    co_map_done(&m);
}

struct item {
    struct co_link link;
    int number;
};

static void drop_odd_item(void *arg, struct co_link *l) {
    if (((struct item *)l)->number % 2) {
        co_index_remove(arg, l);
    }
}

/* Ten items share each hash. */
static void an_index_finds_all_of_a_hash(void **state) {
    (void)state;
    enum { N = 500, SHARED = 10 };
    static struct item items[N];
    struct co_index x = {0};
    assert_null(co_index_first(&x, 0));
    for (int i = 0; i < N; i++) {
        items[i].number = i;
        co_index_add(&x, &items[i].link, (uint64_t)(i / SHARED) << 40);
    }
    co_index_each(&x, drop_odd_item, &x);
    assert_int_equal(x.len, N / 2);
    for (int h = 0; h < N / SHARED; h++) {
        int sum = 0;
        int n = 0;
        for (struct co_link *l = co_index_first(&x, (uint64_t)h << 40); l; l = co_index_next(l)) {
            sum += ((struct item *)l)->number - h * SHARED;
            n++;
        }
        assert_int_equal(n, SHARED / 2);
        assert_int_equal(sum, 0 + 2 + 4 + 6 + 8);
    }
    assert_null(co_index_first(&x, 1));
    co_index_done(&x);
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
        cmocka_unit_test(an_index_finds_all_of_a_hash),
        cmocka_unit_test(the_hash_is_fnv_1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
