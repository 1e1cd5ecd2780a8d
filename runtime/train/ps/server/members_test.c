#include "runtime/train/ps/server/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* States as letters: absent, alive, lost, finished; capitals wait at the barrier. */
static void members_of(struct pss_members *m, const char *states) {
    pss_members_init(m, (uint32_t)strlen(states));
    for (uint32_t i = 0; i < m->n; i++) {
        bool came = strchr("vVlf", states[i]) != NULL;
        if (came) {
            pss_member_set(m, i, PSS_MEMBER_ALIVE);
        }
        if (states[i] == 'l' || states[i] == 'f') {
            pss_member_set(m, i, states[i] == 'l' ? PSS_MEMBER_LOST : PSS_MEMBER_FINISHED);
        }
        m->all[i].waits = states[i] == 'V';
    }
}

static void the_barrier_is_full_without_lost_and_finished_trainers(void **state) {
    (void)state;
    static const struct {
        const char *states;
        bool full;
    } rows[] = {
        {"V", true},
        {"v", false},
        {"f", false},
        {"l", false}, /* nobody is there */
        {"VV", true},
        {"Vv", false},
        {"Va", false}, /* one may still come */
        {"Vl", true},
        {"Vf", true},
        {"lVf", true},
        {"lVfa", false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct pss_members m;
        members_of(&m, rows[i].states);
        if (pss_members_barrier_full(&m) != rows[i].full) {
            fail_msg("%s", rows[i].states);
        }
        pss_members_done(&m);
    }
}

/* What somebody waited for in a former life is not waited for in the next one. */
static void a_change_of_state_ends_the_wait(void **state) {
    (void)state;
    struct pss_members m;
    members_of(&m, "V");
    pss_member_set(&m, 0, PSS_MEMBER_LOST);
    pss_member_set(&m, 0, PSS_MEMBER_ALIVE);
    assert_false(m.all[0].waits);
    assert_int_equal(1, pss_members_in(&m, PSS_MEMBER_ALIVE));
    assert_int_equal(0, pss_members_in(&m, PSS_MEMBER_LOST));
    pss_members_done(&m);
}

static void a_list_that_is_too_long_is_cut(void **state) {
    (void)state;
    char text[64];
    struct pss_members m;
    members_of(&m, "avala");
    pss_members_list(&m, PSS_MEMBER_ABSENT, text, sizeof(text));
    assert_string_equal("0, 2, 4", text);
    pss_members_list(&m, PSS_MEMBER_FINISHED, text, sizeof(text));
    assert_string_equal("", text);
    pss_members_done(&m);

    pss_members_init(&m, 100000);
    for (size_t size = 24; size <= sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        pss_members_list(&m, PSS_MEMBER_ABSENT, text, size);
        size_t len = strnlen(text, size);
        assert_true(len < size);
        assert_string_equal(", ...", text + len - 5);
        assert_true(strncmp(text, "0, 1", 4) == 0 || size < 30);
    }
    pss_members_done(&m);
}

static void a_lost_trainer_is_described(void **state) {
    (void)state;
    char text[200];
    struct pss_members m;
    members_of(&m, "vl");
    m.all[1].received_ms = 1000;
    (void)snprintf(m.all[1].peer, sizeof(m.all[1].peer), "10.0.0.1:4711");
    (void)snprintf(m.all[1].cause, sizeof(m.all[1].cause), "connection closed");
    pss_member_describe(&m, 1, 3500, text, sizeof(text));
    assert_string_equal(
        "trainer 1 (10.0.0.1:4711) lost: connection closed, last message 2.5 s ago", text);
    pss_members_done(&m);
}

static void a_refusal_is_said_while_its_trainer_is_awaited(void **state) {
    (void)state;
    struct co_err why = {0}, door = {0};
    char text[PSS_REFUSED_MAX];
    struct pss_members m;
    members_of(&m, "vvla");
    co_err_set(&why, CO_PERMISSION, "dim is 16");
    co_err_set(&door, CO_PERMISSION, "the token is another");
    pss_members_refuse(&m, 0, "10.0.0.1:1", &why); /* one that calls itself as one that is here */
    pss_members_refuse(&m, 2, "10.0.0.3:1", &why); /* nobody waits for it */
    pss_members_refused(&m, text, sizeof(text));
    assert_string_equal("", text);
    pss_members_refuse(&m, UINT32_MAX, "10.0.0.2:1", &door);
    pss_members_refused(&m, text, sizeof(text));
    assert_string_equal("; refused a connection from 10.0.0.2:1: the token is another", text);
    pss_member_set(&m, 1, PSS_MEMBER_AWAY);
    pss_members_refuse(&m, 1, "10.0.0.2:1", &why);
    pss_members_refused(&m, text, sizeof(text));
    assert_string_equal("; trainer 1 was refused: dim is 16", text);
    pss_member_set(&m, 1, PSS_MEMBER_ALIVE);
    pss_member_set(&m, 3, PSS_MEMBER_ALIVE);
    pss_members_refused(&m, text, sizeof(text));
    assert_string_equal("", text);
    pss_members_done(&m);
}

/* A letter and a step for each trainer, as above. */
static void a_deadlock_is_reported(void **state) {
    (void)state;
    static const struct {
        const char *states;
        uint64_t steps[4];
        uint32_t backup;
        const char *says; /* NULL: they continue */
    } rows[] = {
        {"vV", {2, 1}, 0, "at barrier 1, after step 1: trainer 1; in step 2: trainer 0; each"},
        {"vV", {2, 1}, 1, NULL},
        {"vVV", {2, 1, 1}, 1, "trainer 1, 2; in step 2: trainer 0; each"},
        {"vV", {2, 2}, 0, NULL},
        {"vVf", {2, 1, 0}, 1, NULL},
        /* Who is lost is one of those that the step does without. */
        {"vVl", {2, 1, 1}, 1, "trainer 1; in step 2: trainer 0; lost: trainer 2; each waits"},
        {"vVl", {2, 1, 1}, 2, NULL},
        {"vVl", {2, 1, 2}, 1, NULL}, /* it had come to that step before */
        {"vvl", {2, 1, 1}, 1, NULL}, /* one is slow */
        {"vvll", {2, 2, 1, 1}, 1, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct pss_members m;
        struct co_err err = {0};
        members_of(&m, rows[i].states);
        for (uint32_t k = 0; k < m.n; k++) {
            m.all[k].steps = rows[i].steps[k];
        }
        int rc = pss_members_check_order(&m, rows[i].backup, &err);
        if (rc != (rows[i].says ? CO_INVALID : 0) ||
            (rows[i].says && !strstr(err.msg, rows[i].says))) {
            fail_msg("%zu, \"%s\": %d %s", i, rows[i].states, rc, err.msg);
        }
        pss_members_done(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_barrier_is_full_without_lost_and_finished_trainers),
        cmocka_unit_test(a_change_of_state_ends_the_wait),
        cmocka_unit_test(a_list_that_is_too_long_is_cut),
        cmocka_unit_test(a_lost_trainer_is_described),
        cmocka_unit_test(a_refusal_is_said_while_its_trainer_is_awaited),
        cmocka_unit_test(a_deadlock_is_reported),
    };
    return cmocka_run_group_tests_name("members", tests, NULL, NULL);
}
