/* Chunks of any content, with right checksums, as a checkpoint of one server: what looks at it
 * refuses them or not, and does nothing worse. */
#include "runtime/tools/inspect/inspect.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHUNK = 8 };

static struct ckpt_table tables[] = {{.name = "rows",
                                         .sparse = true,
                                         .dim = 1,
                                         .state = 1,
                                         .optimizer = "adagrad:lr=1",
                                         .init = "zero"},
    {.name = "w", .size = 9, .state = 20, .optimizer = "adam:lr=1", .init = "zero"}};

/* In memory: what is written is synced. */
static char dir[] = "/dev/shm/inspect_fuzz_XXXXXX";

static void clean_up(void) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -rf %s", dir);
    (void)!system(cmd);
}

/* 8 bytes say what a chunk is, then its data follow. */
static void add_chunks(struct ckpt_part_writer *w, const uint8_t *data, size_t size) {
    while (size >= CHUNK) {
        size_t bytes = data[4] < size - CHUNK ? data[4] : size - CHUNK;
        struct ckpt_part_chunk c = {.kind = 1U + data[0] % (CKPT_PART_KINDS - 1),
            .table = data[1] % 3,
            .shard = data[2] % 2,
            .items = data[3],
            .begin = data[5],
            .bytes = (uint32_t)bytes};
        if (data[6] == 255) {
            c.items = UINT32_MAX - data[3];
            c.begin = UINT64_MAX - data[5];
        }
        (void)!ckpt_part_add(w, &c, data + CHUNK, NULL);
        data += CHUNK + bytes;
        size -= CHUNK + bytes;
    }
}

static void write_point(uint64_t number, const uint8_t *data, size_t size) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = ckpt_point_part(dir, number, 0);
    CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = NULL;
    struct ckpt_part_origin place = {.number = number, .servers = 1, .shards = 2};
    struct ckpt_part_sum sum = {0};
    (void)mkdir(at, 0700);
    if (ckpt_part_create(path, &place, &w, NULL) < 0) {
        return;
    }
    add_chunks(w, data, size);
    struct ckpt_part part = {.shards = 2};
    struct ckpt_point p = {.number = number,
        .base = 1,
        .previous = number - 1,
        .n_tables = 2,
        .n_parts = 1,
        .tables = tables,
        .parts = &part};
    if (ckpt_part_finish(w, &sum, NULL) == 0) {
        part.bytes = sum.bytes;
        part.hash = sum.hash;
        (void)!ckpt_point_commit(dir, &p, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *nowhere;
    if (!nowhere) {
        nowhere = fopen("/dev/null", "we");
        if (!nowhere || !mkdtemp(dir)) {
            abort();
        }
        (void)atexit(clean_up);
    }
    size_t cut = size ? data[0] % size : 0;
    write_point(1, data, cut);
    write_point(2, data + cut, size - cut);
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = NULL;
    if (inspect_view_open(dir, NULL, NULL, &v, NULL) < 0) {
        return 0;
    }
    v->memory = size % 2 ? 64 : INSPECT_VIEW_MEMORY;
    for (uint32_t i = 0; i < inspect_view_tables(v); i++) {
        struct inspect_view_sum sum;
        struct inspect_diff d;
        double lr;
        uint64_t n;
        struct inspect_export what = {.table = (int)i, .state = true};
        (void)!inspect_view_sum(v, i, &sum, NULL);
        (void)!inspect_view_rate(v, i, &lr, &n, NULL);
        (void)!inspect_view_print(v, &what, nowhere, NULL);
        if (inspect_view_diff(v, i, v, i, &d, NULL) == 0 && d.changed + d.added + d.erased > 0) {
            abort();
        }
    }
    return 0;
}
