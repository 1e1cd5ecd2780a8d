/* Fuzzes what a trainer may send: a shard must answer or refuse every input.  Cuts the input into
 * frames, unpacks control messages and their table specs, and hands all other frames to small
 * tables in sync and async mode. */
#include <string.h>

#include "runtime/train/ps/control.h"
#include "runtime/train/ps/shard/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void do_control(const struct rpc_frame *f) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *c = NULL;
    struct ps_table *tables = NULL;
    if (ps_control_unpack(f, &c, NULL) == 0 && c->body_case == RPC__CONTROL__BODY_HELLO &&
        ps_control_tables(c->hello, &tables, NULL) == 0) {
        free(tables);
    }
}

static void do_frames(struct rpc_frame *first, struct shard_tables *t) {
    for (struct rpc_frame *f = first, *next; f; f = next) {
        next = f->next;
        if (f->head.kind == RPC_FRAME_CONTROL) {
            do_control(f);
        } else {
            struct rpc_frame *a = NULL;
            struct co_err err = {0};
            if (shard_tables_do(t, 0, f, &a, &err) < 0 && err.code == 0) {
                abort();
            }
            rpc_frame_free(a);
        }
        rpc_frame_free(f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct rt_table_spec specs[] = {
        {.name = "dense", .kind = RT_DENSE, .size = 20, .optimizer = "adam"},
        {.name = "rows",
            .kind = RT_SPARSE,
            .dim = 2,
            .optimizer = "adagrad",
            .schedule = "cosine:steps=3"},
        {.name = "narrow",
            .kind = RT_SPARSE,
            .dim = 3,
            .storage = "bf16",
            .wire = "f16",
            .evict = "ctr:delete_threshold=0.3"},
    };
    if (size < 1) {
        return 0;
    }
    struct table_budget budget = {.max = 1 << 20};
    struct ps_table tables[CO_ARRAY_LEN(specs)];
    for (size_t i = 0; i < CO_ARRAY_LEN(specs); i++) {
        if (ps_table_make(&specs[i], &tables[i], NULL) < 0) {
            abort();
        }
    }
    struct shard_config config = {.shards = 1,
        .servers = 1,
        .trainers = 1,
        .mode = data[0] & 1 ? RT_SYNC : RT_ASYNC,
        .tables = tables,
        .n_tables = CO_ARRAY_LEN(specs),
        .budget = &budget};
    struct shard_tables t;
    if (shard_tables_init(&t, &config, NULL) < 0) {
        abort();
    }
    struct rpc_splitter sp;
    struct rpc_frame *first = NULL;
    rpc_splitter_init(&sp, size - 1);
    if (rpc_splitter_feed(&sp, data + 1, size - 1, NULL) == 0 &&
        rpc_splitter_take(&sp, &first, NULL) == 0) {
        do_frames(first, &t);
        (void)!shard_tables_step(&t, 1, NULL);
    }
    rpc_splitter_done(&sp);
    shard_tables_done(&t);
    return 0;
}
