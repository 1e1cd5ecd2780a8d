/* Who keeps a slot when there are more connections than slots. */
#include "runtime/net/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 4 };

/* Each letter is a connection from the address of that name; they come one after the other.  An
 * upper-case one has shown that it is no stranger.  left: whose slots the first N are at the end;
 * "-": a newcomer had to wait. */
static const struct {
    const char *come, *left;
} rows[] = {
    {"abcd", "abcd"},     /* room for all */
    {"abcde", "ebcd"},    /* one each: the oldest */
    {"baaac", "bcaa"},    /* the oldest of the address with most */
    {"baaaaaaa", "baaa"}, /* a flood from one address displaces itself */
    {"Aaaaa", "Aaaa"},    /* also where it comes from the address of one that is known */
    {"Abcde", "Aecd"},    /* and one from many addresses does not displace who is known */
    {"AAbcd", "AAdc"},    /* known ones do not count against their address */
    {"ABCDe", "ABCD-"},
};

static void strangers_displace_each_other(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
        struct net_slot p[N] = {0};
        char left[N + 2] = "";
        for (size_t k = 0; rows[r].come[k]; k++) {
            char c = rows[r].come[k], host[2] = {(char)(c | 0x20)};
            size_t i = net_slots_find(p, N);
            if (i == N) {
                left[N] = '-';
                continue;
            }
            if (p[i].taken) {
                net_slots_leave(p, N, i);
            }
            net_slots_take(p, N, i, host, (int64_t)k);
            if (c < 'a') {
                net_slots_know(p, N, i);
            }
        }
        for (size_t i = 0; i < N; i++) {
            left[i] = (char)(p[i].known ? p[i].host[0] & ~0x20 : p[i].host[0]);
        }
        assert_string_equal(left, rows[r].left);
    }
}

/* The counts are those of the slots, whatever came and went. */
static void slots_of_the_same_host_are_counted(void **state) {
    (void)state;
    struct net_slot p[N] = {0};
    uint32_t seed = 1;
    for (int turn = 0; turn < 10000; turn++) {
        seed = seed * 1664525 + 1013904223;
        size_t i = seed >> 30;
        char host[2] = {(char)('a' + (seed >> 28 & 1))};
        if (!p[i].taken) {
            net_slots_take(p, N, i, host, turn);
        } else if (seed >> 27 & 1 && !p[i].known) {
            net_slots_know(p, N, i);
        } else {
            net_slots_leave(p, N, i);
        }
        for (i = 0; i < N; i++) {
            uint32_t mates = 0;
            for (size_t k = 0; k < N; k++) {
                mates += p[k].taken && !p[k].known && strcmp(p[k].host, p[i].host) == 0;
            }
            assert_true(!p[i].taken || p[i].known || p[i].mates == mates);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_displace_each_other),
        cmocka_unit_test(slots_of_the_same_host_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
