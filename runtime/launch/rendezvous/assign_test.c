#include "runtime/launch/rendezvous/assign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

#define AT(ip) "{\"candidate\": \"" ip ":35100\"}"

struct row {
    const char *what;
    struct rdzv_assign_node nodes[4];
    struct rdzv_assign_rule rule;
    const char *order; /* names in rank order; or with code: the message */
    int code;
};

static const struct row rows[] = {
    {"no ranks: by name", {{"bbbbbb", -1}, {"cccccc", -1}, {"aaaaaa", -1}}, {0},
        "aaaaaa bbbbbb cccccc", 0},
    {"names sort with the slash of their keys", {{"pod-1", -1}, {"pod", -1}, {"pod0", -1}}, {0},
        "pod-1 pod pod0", 0},
    {"... the shorter one first", {{"pod", -1}, {"pod-1", -1}}, {0}, "pod-1 pod", 0},
    {"... the longer one first", {{"pod-1", -1}, {"pod", -1}}, {0}, "pod-1 pod", 0},
    {"... before a digit, the shorter one first", {{"pod", -1}, {"pod0", -1}}, {0}, "pod pod0", 0},
    {"... before a digit, the longer one first", {{"pod0", -1}, {"pod", -1}}, {0}, "pod pod0", 0},
    {"bytes, not letters", {{"b", -1}, {"B", -1}, {"\xc3\xa9", -1}}, {0}, "B b \xc3\xa9", 0},
    {"ranks as asked for", {{"a", 2}, {"b", 0}, {"c", 1}}, {0}, "b c a", 0},
    {"two ask for one", {{"a", 1}, {"b", 0}, {"c", 1}}, {0},
        "rank 1 is asked for by node a and by node c", CO_EXISTS},
    {"too high", {{"a", 3}, {"b", 0}, {"c", 1}}, {0}, "node a asks for rank 3 in a job of 3 nodes",
        CO_INVALID},
    {"some ask", {{"a", 0}, {"b", -1}}, {0},
        "node a asks for rank 0 and node b for none: give every node a rank, or none", CO_INVALID},
    {"some ask, the other way round", {{"a", -1}, {"b", 0}}, {0},
        "node b asks for rank 0 and node a for none: give every node a rank, or none", CO_INVALID},
    {"elastic: holes close", {{"a", 5}, {"b", 0}, {"c", 3}}, {.holes = true}, "b c a", 0},
    {"elastic: still one node a rank", {{"a", 5}, {"b", 5}}, {.holes = true},
        "rank 5 is asked for by node a and by node b", CO_EXISTS},
    {"by address, as numbers",
        {{"a", -1, AT("10.0.0.10")}, {"b", -1, AT("10.0.0.9")}, {"c", -1, AT("9.255.0.1")}},
        {.sort_ip = true}, "c b a", 0},
    {"by address whatever was asked for", {{"a", 0, AT("10.0.0.2")}, {"b", -1, AT("10.0.0.1")}},
        {.sort_ip = true}, "b a", 0},
    {"one address: by name", {{"b", -1, AT("10.0.0.2")}, {"a", -1, AT("10.0.0.2")}},
        {.sort_ip = true}, "a b", 0},
    {"by address, a name there", {{"a", -1, AT("10.0.0.1")}, {"b", -1, AT("host")}},
        {.sort_ip = true}, "--sort_ip: node b has no IPv4 address but \"host:35100\"", CO_INVALID},
    {"by address, no JSON", {{"a", -1, "x"}}, {.sort_ip = true},
        "--sort_ip: the value of node a is not JSON", CO_INVALID},
};

static void ranks(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct co_err err = {0};
        size_t n = 0, order[4];
        while (n < 4 && row->nodes[n].name) {
            n++;
        }
        int r = rdzv_assign(row->nodes, n, &row->rule, order, &err);
        if (r != row->code || (r && strcmp(err.msg, row->order) != 0)) {
            fail_msg("%s: %d %s", row->what, r, err.msg);
        }
        char got[128] = "";
        for (size_t k = 0; k < n && !r; k++) {
            size_t len = strlen(got);
            (void)snprintf(
                got + len, sizeof(got) - len, "%s%s", k ? " " : "", row->nodes[order[k]].name);
        }
        if (!r && strcmp(got, row->order) != 0) {
            fail_msg("%s: %s", row->what, got);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
