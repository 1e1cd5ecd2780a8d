#include "runtime/launch/rendezvous/poll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* This node is "b" of job j, which has two nodes. */
static void a_list_of_nodes_gives_ranks_or_an_error(void **state) {
    (void)state;
    static const struct {
        const char *body;
        bool sort_ip;
        int code;
        const char *text; /* names and values by rank, how many are there, or the error */
    } rows[] = {
        {"{}", false, 0, "0 here"},
        {"{\"/j/info/b/-1\":\"v\"}", false, 0, "1 here"},
        {"{\"/j/info/b/-1\":\"v\",\"/j/info/a/-1\":\"w\"}", false, 0, "a=w b=v self 1"},
        {"{\"/j/info/a/1\":\"w\",\"/j/info/b/0\":\"v\"}", false, 0, "b=v a=w self 0"},
        {"{\"/j/info/b/-1\":\"{\\\"candidate\\\":\\\"10.0.0.1:1\\\"}\","
         "\"/j/info/a/-1\":\"{\\\"candidate\\\":\\\"10.0.0.2:1\\\"}\"}",
            true, 0, "b={\"candidate\":\"10.0.0.1:1\"} a={\"candidate\":\"10.0.0.2:1\"} self 0"},
        /* all are there, but this node */
        {"{\"/j/info/c/-1\":\"v\",\"/j/info/a/-1\":\"w\"}", false, 0, "2 here"},
        {"", false, CO_INVALID, "the master's list of nodes: "},
        {"[]", false, CO_INVALID, "the master's list of nodes: not an object"},
        {"{\"/j/info/b/-1\":1}", false, CO_INVALID,
            "the master has a key \"/j/info/b/-1\" among nodes"},
        {"{\"/k/info/b/-1\":\"v\"}", false, CO_INVALID,
            "the master has a key \"/k/info/b/-1\" among nodes"},
        {"{\"/j/info/b\":\"v\"}", false, CO_INVALID, "key \"b\" is not that of a node"},
        {"{\"/j/info/a/0\":\"\",\"/j/info/b/1\":\"\",\"/j/info/c/2\":\"\"}", false, CO_NORESOURCE,
            "3 nodes came to a job of 2"},
        {"{\"/j/info/a/0\":\"\",\"/j/info/b/0\":\"\"}", false, CO_EXISTS, "rank 0"},
        {"{\"/j/info/a/0\":\"\",\"/j/info/b/-1\":\"\"}", false, CO_INVALID,
            "give every node a rank"},
        {"{\"/j/info/a/-1\":\"\",\"/j/info/b/-1\":\"\"}", true, CO_INVALID, "node a"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rdzv_poll_round round = {
            .prefix_job = "j", .name = "b", .size = 2, .sort_ip = rows[i].sort_ip};
        struct co_err err = {0};
        int r = rdzv_poll_parse(rows[i].body, strlen(rows[i].body), &round, &err);
        char text[256];
        if (!r && round.complete) {
            (void)snprintf(text, sizeof(text), "%s=%s %s=%s self %zu", round.peers[0].name,
                round.peers[0].value, round.peers[1].name, round.peers[1].value, round.self);
        } else if (!r) {
            (void)snprintf(text, sizeof(text), "%zu here", round.n);
        }
        const char *got = r ? err.msg : text;
        if (r != rows[i].code || strstr(got, rows[i].text) == NULL) {
            fail_msg("row %zu: %d \"%s\"", i, r, got);
        }
        rdzv_poll_done(&round);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_nodes_gives_ranks_or_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
