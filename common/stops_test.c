#include "common/stops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/mem.h"

static void signals_of_one_moment_are_one_request(void **state) {
    (void)state;
    static const struct {
        int64_t at;
        int n;
    } rows[] = {
        {7, 1}, /* however early: nothing came before it */
        {7, 0}, /* the same signal, to the group */
        {150, 0},
        {300, 0}, /* one after the other: it has not stopped yet */
        {500, 2}, /* a second request */
        {699, 0},
        {2000, 3},
    };
    struct co_stops s = {.n = 0};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(co_stops_note(&s, rows[i].at), rows[i].n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_of_one_moment_are_one_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
