#include "operator/kube/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/loop.h"

/* What the stamps received one after another leave, all against this moment. */
static void the_clock_follows_the_date_of_the_fastest_reply(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int64_t stamps[12], expected; /* seconds from now; 0 ends the stamps */
    } rows[] = {
        {"the server's clock is another", {-3600}, -3600},
        {"a slower reply changes nothing", {500, 498}, 500},
        {"a faster one is the better", {500, 501}, 501},
        {"some very slow ones, too", {500, 100, 100, 100, 100, 100, 100, 100, 500, 100}, 500},
        {"a clock that was set back", {500, 100, 100, 100, 100, 100, 100, 100, 101}, 101},
        {"a clock that was set forward", {500, 9000}, 9000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kube_clock_forget();
        int64_t now = co_wall_seconds();
        for (const int64_t *s = rows[i].stamps; *s; s++) {
            kube_clock_observe(now + *s);
        }
        print_message("%s\n", rows[i].what);
        assert_in_range(kube_clock_seconds() - (now + rows[i].expected), 0, 5);
    }
}

static void the_clock_is_the_local_one_before_any_reply(void **state) {
    (void)state;
    kube_clock_forget();
    int64_t wall = co_wall_seconds();
    assert_in_range(kube_clock_seconds() - wall, 0, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_follows_the_date_of_the_fastest_reply),
        cmocka_unit_test(the_clock_is_the_local_one_before_any_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
