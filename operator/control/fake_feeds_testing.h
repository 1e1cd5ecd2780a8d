/* For tests: a client and feeds against a scripted server that never answers their list of jobs,
 * which comes before all others.  So the steps of the script answer the requests of the test alone.
 */
#pragma once

#include "operator/api/api_testing.h"
#include "operator/control/feeds.h"
#include "operator/kube/fake_server_testing.h"
#include "operator/plan/gang.h"

enum { FAKE_WATCHES = 1 /* that of jobs */, FAKE_STEPS_MAX = 300 };

static inline void fake_feeds_ignore(void *arg) {
    (void)arg;
}

/* The server plays `steps` after the feeds have sent their list request; *late (the test's
 * deadline) ends the wait for that.  The caller frees client and feeds. */
static inline void fake_feeds(struct fake_server *server, const struct fake_step *steps, size_t n,
    const struct kube_client_opts *opts, struct ctl_store *store, struct ctl_metrics *metrics,
    const bool *late, struct kube_client **ret_client, struct ctl_feeds **ret_feeds) {
    static struct fake_step script[FAKE_WATCHES + FAKE_STEPS_MAX];
    struct kube_client_opts all_at_once = *opts;
    all_at_once.lane_limit[KUBE_CLASS_LIST] = FAKE_WATCHES;
    assert_true(n <= FAKE_STEPS_MAX);
    for (size_t i = 0; i < FAKE_WATCHES; i++) {
        script[i] = (struct fake_step){"GET ", 0, NULL, FAKE_HOLD, NULL};
    }
    memcpy(script + FAKE_WATCHES, steps, n * sizeof(*steps));
    fake_script(server, script, FAKE_WATCHES + n);
    assert_int_equal(
        kube_client_new(server->loop, fake_config(server), &all_at_once, ret_client, NULL), 0);
    *ret_feeds = ctl_feeds_new(*ret_client, &(struct ctl_feeds_opts){.store = store,
                                                .metrics = metrics,
                                                .gang = plan_gang_find("volcano"),
                                                .shard = {.index = 0, .count = 1},
                                                .synced = fake_feeds_ignore,
                                                .no_groups = fake_feeds_ignore});
    while (server->served < FAKE_WATCHES && !*late) {
        co_loop_turn(server->loop);
    }
    assert_int_equal(server->served, FAKE_WATCHES);
}
