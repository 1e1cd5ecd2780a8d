/* A whole checkpoint of one server: its manifest as text, then its chunks, with right checksums.  A
 * reader refuses it or loads it, and what does not verify is not loaded.
 *
 *     u16 length of the text | the text, without its last line | chunks: head as in a part, data
 */
#include "runtime/train/ckpt/chain.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/log.h"
#include "runtime/rt.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/restore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUDGET = 1 << 22, SIZE_MAX_ = 1 << 16 };

/* In memory: what is written is synced. */
static char dir[] = "/dev/shm/chain_fuzz_XXXXXX";

static void clean_up(void) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -rf %s", dir);
    (void)!system(cmd);
}

static void prepare(void) {
    static bool prepared;
    if (!prepared) {
        co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
        if (!mkdtemp(dir) || atexit(clean_up) != 0) {
            abort();
        }
        prepared = true;
    }
}

/* The manifest, which is one of a full checkpoint of one server.  False: it is refused. */
static bool read_manifest(const char *text, size_t len, struct ckpt_point *ret) {
    CO_AUTOBUF struct co_buf b = CO_BUF(CKPT_MANIFEST_MAX);
    if (co_buf_add(&b, text, len, NULL) < 0 || ckpt_lines_end(&b, NULL) < 0 ||
        ckpt_point_parse(b.data, b.len, ret, NULL) < 0) {
        return false;
    }
    ret->number = ret->base = 1;
    ret->previous = 0;
    ret->n_parts = 1;
    return true;
}

static int write_part(const uint8_t *data, size_t size, struct ckpt_part *part, const char *path) {
    CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = NULL;
    struct ckpt_part_origin place = {.number = 1, .servers = 1, .shards = part->shards};
    struct ckpt_part_sum sum = {0};
    int rc = ckpt_part_create(path, &place, &w, NULL);
    while (rc == 0 && size >= CKPT_PART_CHUNK) {
        struct ckpt_part_chunk c = {.kind = 1 + co_get_u32(data) % (CKPT_PART_KINDS - 1),
            .table = co_get_u32(data + 4),
            .shard = co_get_u32(data + 8),
            .items = co_get_u32(data + 12),
            .begin = co_get_u64(data + 16),
            .bytes = co_get_u32(data + 24)};
        size -= CKPT_PART_CHUNK;
        c.bytes = c.bytes < size ? c.bytes : (uint32_t)size;
        rc = ckpt_part_add(w, &c, data + CKPT_PART_CHUNK, NULL);
        data += CKPT_PART_CHUNK + c.bytes;
        size -= c.bytes;
    }
    rc = rc < 0 ? rc : ckpt_part_finish(w, &sum, NULL);
    part->bytes = sum.bytes;
    part->hash = sum.hash;
    return rc;
}

/* Loads it as a server's shard does, into tables of the same description. */
static int restore(const struct ckpt_chain *chain) {
    const struct ckpt_point *p = &chain->points[0];
    struct ps_table *tables = co_xcalloc(p->n_tables + 1UL, sizeof(*tables));
    struct table_budget budget = {.max = BUDGET};
    struct shard_tables t;
    int rc = 0;
    for (uint32_t i = 0; i < p->n_tables && rc == 0; i++) {
        const struct rt_table_spec spec = ps_table_spec_of(&p->tables[i]);
        rc = spec.size > SIZE_MAX_ ? CO_NORESOURCE : ps_table_make(&spec, &tables[i], NULL);
    }
    const struct shard_config c = {.mode = RT_ASYNC,
        .shards = 1,
        .servers = 1,
        .trainers = 1,
        .tables = tables,
        .n_tables = p->n_tables,
        .budget = &budget};
    rc = rc < 0 ? rc : shard_tables_init(&t, &c, NULL);
    if (rc == 0) {
        rc = shard_tables_restore(&t, chain, NULL);
        shard_tables_done(&t);
    }
    free(tables);
    return rc;
}

static bool is_small(const struct ckpt_point *p) {
    bool small = true;
    for (uint32_t i = 0; i < p->n_tables; i++) {
        small = small && p->tables[i].size <= SIZE_MAX_;
    }
    return small;
}

static void load(void) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    struct rt_model *m = NULL;
    if (ckpt_chain_open(dir, 1, &chain, NULL) < 0 || !is_small(&chain->points[0])) {
        return;
    }
    int whole = ckpt_chain_verify(chain, NULL), rc = restore(chain);
    int opened = rt_model_open(dir, &m, NULL);
    rt_model_close(m);
    if (whole < 0 && (rc == 0 || opened == 0)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ckpt_point p = {0};
    prepare();
    size_t len = size < 2 ? 0 : co_get_u16(data);
    if (size < 2 || len > size - 2 || !read_manifest((const char *)data + 2, len, &p)) {
        return 0;
    }
    CO_AUTOFREE char *at = ckpt_point_dir(dir, 1);
    CO_AUTOFREE char *path = ckpt_point_part(dir, 1, 0);
    (void)mkdir(at, 0700);
    if (write_part(data + 2 + len, size - 2 - len, &p.parts[0], path) == 0 &&
        ckpt_point_commit(dir, &p, NULL) == 0) {
        load();
    }
    ckpt_point_done(&p);
    return 0;
}
