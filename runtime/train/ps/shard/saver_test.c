/* What a server commits: its own part, of its present tables.  A saver without shards. */
#include "runtime/train/ps/shard/saver.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/ps/shard/slow_testing.h"
#include "runtime/train/ps/spec.h"

enum { DEADLINE_MS = 60000 };

struct world {
    struct shard_saver *saver;
    struct ps_table table;
    int woken;
    char dir[40];
};

static void wake(void *arg) {
    uint64_t one = 1;
    (void)!write(((struct world *)arg)->woken, &one, sizeof(one));
}

/* A server's life: a saver without memory of the ones before. */
static void live(struct world *w) {
    const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = 10, .optimizer = "sgd:lr=1"};
    assert_int_equal(0, ps_table_make(&spec, &w->table, NULL));
    w->saver =
        shard_saver_new(&(struct shard_saver_config){.servers = 1, .shards = 1, .quiet = true});
    shard_saver_listen(w->saver, 0, wake, w);
    shard_saver_describe(w->saver, &w->table, 1, true);
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/saver_test_XXXXXX");
    w->woken = eventfd(0, EFD_CLOEXEC);
    *state = w;
    if (!mkdtemp(w->dir)) {
        return -1;
    }
    live(w);
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w->dir);
    shard_saver_free(w->saver);
    co_close(w->woken);
    free(w);
    return system(cmd);
}

static void await(const struct world *w) {
    struct pollfd p = {w->woken, POLLIN, 0};
    uint64_t n;
    assert_int_equal(1, poll(&p, 1, DEADLINE_MS));
    (void)!read(w->woken, &n, sizeof(n));
}

/* Writes the part of a full checkpoint, which is empty. */
static struct ckpt_part write_part(struct world *w, uint64_t number) {
    struct ckpt_part part = {0};
    struct co_err err = {0};
    uint64_t ticket = 0;
    int rc = shard_saver_begin(w->saver, w->dir, number, 0, 0, &ticket, &err);
    assert_int_equal(0, rc);
    shard_saver_end(w->saver, ticket);
    while ((rc = shard_saver_result(w->saver, ticket, &part, &err)) == 0) {
        await(w);
    }
    assert_int_equal(1, rc);
    return part;
}

static int commit(struct world *w, uint64_t number, const struct ckpt_part *part, uint32_t keep,
    struct co_err *err) {
    Rpc__Control *m = co_xcalloc(1, sizeof(*m));
    Rpc__CkptCommit *k = co_xcalloc(1, sizeof(*k));
    Rpc__CkptPart *p = co_xcalloc(1, sizeof(*p));
    Rpc__CkptFound found;
    rpc__control__init(m);
    rpc__ckpt_commit__init(k);
    rpc__ckpt_part__init(p);
    k->order = co_xcalloc(1, sizeof(*k->order));
    rpc__ckpt_order__init(k->order);
    k->order->dir = co_xstrdup(w->dir);
    k->order->number = k->order->root = number;
    p->shards = part->shards;
    p->bytes = part->bytes;
    p->hash = part->hash;
    k->parts = co_xcalloc(1, sizeof(*k->parts));
    k->parts[0] = p;
    k->n_parts = 1;
    k->keep = keep;
    m->body_case = RPC__CONTROL__BODY_CKPT_COMMIT;
    m->ckpt_commit = k;
    CO_TRY(shard_saver_submit(w->saver, m, false, err));
    for (;;) {
        int over = shard_saver_answer(w->saver, &found, err);
        CO_TRY(over);
        if (over) {
            return 0;
        }
        await(w);
    }
}

static bool is_complete(const struct world *w, uint64_t number) {
    bool is = false;
    assert_int_equal(0, ckpt_is_complete(w->dir, number, &is, NULL));
    return is;
}

static void save(struct world *w, uint64_t number, uint32_t keep) {
    const struct ckpt_part part = write_part(w, number);
    struct co_err err = {0};
    if (commit(w, number, &part, keep, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_true(is_complete(w, number));
}

static int submit_find(struct world *w, uint64_t most, bool waits) {
    Rpc__Control *m = co_xcalloc(1, sizeof(*m));
    rpc__control__init(m);
    m->body_case = RPC__CONTROL__BODY_CKPT_FIND;
    m->ckpt_find = co_xcalloc(1, sizeof(*m->ckpt_find));
    rpc__ckpt_find__init(m->ckpt_find);
    m->ckpt_find->dir = co_xstrdup(w->dir);
    m->ckpt_find->most = most;
    return shard_saver_submit(w->saver, m, waits, NULL);
}

static uint64_t await_found(struct world *w) {
    Rpc__CkptFound found = {0};
    int rc = 0;
    while ((rc = shard_saver_answer(w->saver, &found, NULL)) == 0) {
        await(w);
    }
    assert_int_equal(1, rc);
    return found.last;
}

/* Number 7, whose manifest is empty. */
static void put_empty(struct world *w) {
    CO_AUTOFREE char *point = co_xasprintf("%s/ckpt-%012d", w->dir, 7);
    CO_AUTOFREE char *manifest = co_xasprintf("%s/MANIFEST", point);
    assert_int_equal(0, mkdir(point, 0700));
    assert_int_equal(0, co_file_write(manifest, "", 0, 0600, NULL));
    slow_begin();
}

/* A server that is slow to read its files. */
static void a_request_that_comes_again_is_done_once(void **state) {
    struct world *w = *state;
    put_empty(w);
    assert_int_equal(0, submit_find(w, 9, false));
    assert_int_equal(0, submit_find(w, 9, false)); /* on a new connection */
    assert_int_equal(0, submit_find(w, 9, true));
    assert_int_equal(CO_CONFLICT, submit_find(w, 8, true));
    slow_release();
    assert_int_equal(7, await_found(w));
    assert_int_equal(0, submit_find(w, 9, true)); /* it is over: a new one */
    slow_release();
    assert_int_equal(7, await_found(w));
    slow_end();
}

/* Its trainer was started again, and asks for something else. */
static void an_abandoned_request_is_replaced_by_the_next(void **state) {
    struct world *w = *state;
    put_empty(w);
    assert_int_equal(0, submit_find(w, 9, false));
    slow_await(); /* it is being done */
    assert_int_equal(0, submit_find(w, 8, false));
    assert_int_equal(0, submit_find(w, 6, false)); /* sees nothing to read */
    slow_release();
    assert_int_equal(7, await_found(w));
    slow_end();
}

static int looked = -1;
static atomic_int looks;

static void look(void) {
    if (atomic_fetch_add(&looks, 1) == 1) { /* the first one of the wait */
        (void)eventfd_write(looked, 1);
    }
}

/* It waits ten seconds for a sign of life of another machine's job, whose directory it would have
 * then. */
static void a_saver_that_ends_waits_for_no_other_job(void **state) {
    static const char owner[] = "job theirs\nendpoint 10.0.0.9:8000\nhost far\nmachine m/pid:[1]\n"
                                "life 0000000000000001\nprocess 7 8\nsince 1000000000\n";
    struct world *w = *state;
    CO_AUTOFREE char *path = co_xasprintf("%s/OWNER", w->dir);
    CO_AUTOBUF struct co_buf left = CO_BUF(4096);
    assert_int_equal(0, co_file_write(path, owner, strlen(owner), 0600, NULL));
    looked = eventfd(0, EFD_CLOEXEC);
    ckpt_claim_looks = look;
    assert_int_equal(0, submit_find(w, 9, false));
    struct pollfd p = {looked, POLLIN, 0};
    assert_int_equal(1, poll(&p, 1, DEADLINE_MS));
    shard_saver_free(w->saver);
    ckpt_claim_looks = NULL;
    live(w);
    co_close(looked);
    assert_int_equal(0, co_file_read(path, 4096, &left, NULL));
    assert_int_equal(strlen(owner), left.len);
    assert_memory_equal(owner, left.data, left.len);
}

/* Its parts are whole, but the job went back to 1 while its commit was in flight. */
static void a_late_commit_is_refused(void **state) {
    struct world *w = *state;
    struct co_err err = {0};
    save(w, 1, 0);
    const struct ckpt_part late = write_part(w, 2);
    shard_saver_go_back(w->saver, w->dir, 1);
    assert_int_equal(CO_CANCELED, commit(w, 2, &late, 0, &err));
    assert_false(is_complete(w, 2));
    save(w, 3, 0);
}

static void a_restarted_server_refuses_what_it_did_not_write(void **state) {
    struct world *w = *state;
    struct co_err err = {0};
    const struct ckpt_part done = write_part(w, 1);
    assert_int_equal(0, commit(w, 1, &done, 0, &err));
    const struct ckpt_part late = write_part(w, 2);
    shard_saver_free(w->saver);
    live(w);
    assert_int_equal(CO_CANCELED, commit(w, 2, &late, 0, &err));
    assert_false(is_complete(w, 2));
    err = (struct co_err){0};
    assert_int_equal(0, commit(w, 1, &done, 0, &err)); /* it is done; the answer was lost */
    assert_int_equal(0, err.code);
}

/* Somebody has read it already, so it was complete. */
static void the_checkpoint_that_the_job_goes_back_to_stays(void **state) {
    struct world *w = *state;
    struct co_err err = {0};
    const struct ckpt_part part = write_part(w, 1);
    shard_saver_go_back(w->saver, w->dir, 1);
    assert_int_equal(0, commit(w, 1, &part, 0, &err));
    assert_true(is_complete(w, 1));
}

/* Numbers 1 and 2 are of a life before; which of them this one may remove depends on what it took.
 */
static void only_checkpoints_up_to_the_restored_one_are_removed(void **state) {
    static const struct {
        uint64_t restored;
        bool left[2];
    } rows[] = {{0, {true, true}}, {1, {false, true}}, {2, {false, false}}};
    struct world *w = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *cmd = co_xasprintf("rm -rf %s/ckpt-*", w->dir);
        CO_AUTOFREE char *slash = co_xasprintf("%s/", w->dir);
        assert_int_equal(0, system(cmd));
        shard_saver_free(w->saver);
        live(w);
        save(w, 1, 0);
        save(w, 2, 0);
        shard_saver_free(w->saver);
        live(w);
        if (rows[i].restored) {
            shard_saver_restored(w->saver, slash, rows[i].restored);
        }
        for (uint64_t n = 3; n <= 5; n++) {
            save(w, n, 1);
        }
        for (uint64_t n = 1; n <= 5; n++) {
            assert_int_equal(n <= 2 ? rows[i].left[n - 1] : n == 5, is_complete(w, n));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_that_comes_again_is_done_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_abandoned_request_is_replaced_by_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(a_saver_that_ends_waits_for_no_other_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_late_commit_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_restarted_server_refuses_what_it_did_not_write, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_checkpoint_that_the_job_goes_back_to_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(
            only_checkpoints_up_to_the_restored_one_are_removed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
