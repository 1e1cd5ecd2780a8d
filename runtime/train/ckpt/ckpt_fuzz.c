/* The first byte chooses: a manifest, or a table file.  Table files get their hashes put right
 * now and then, so that what is behind them is reached. */
#include <string.h>

#include "runtime/train/ckpt/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void manifest(const char *text, size_t len) {
    struct ckpt_table *tables = co_xcalloc(CKPT_TABLES_MAX, sizeof(*tables));
    uint32_t n = 0;
    uint64_t generation = 0;
    (void)!ckpt_manifest_parse(text, len, tables, &n, &generation, NULL);
    /* Again with the right last line. */
    char *copy = co_xmalloc(len + 32);
    memcpy(copy, text, len);
    int end =
        snprintf(copy + len, 32, "end hash=%016llx\n", (unsigned long long)ckpt_hash(copy, len));
    if (ckpt_manifest_parse(copy, len + (size_t)end, tables, &n, &generation, NULL) == 0 &&
        n > CKPT_TABLES_MAX) {
        abort();
    }
    free(copy);
    free(tables);
}

static void file(const uint8_t *data, size_t size, bool repair) {
    struct ckpt_table t = {.name = "t", .sparse = size & 1, .size = 10, .dim = 2, .state = 1};
    size_t len = CKPT_HEAD + size;
    unsigned char *all = co_xmalloc(len);
    ckpt_head(&t, all);
    memcpy(all + CKPT_HEAD, data, size);
    for (size_t at = CKPT_HEAD; repair && at + CKPT_CHUNK_HEAD <= len;) {
        uint32_t items = co_get_u32(all + at), bytes = co_get_u32(all + at + 4);
        size_t left = len - at - CKPT_CHUNK_HEAD;
        uint64_t hash = ckpt_hash(all + at + CKPT_CHUNK_HEAD, bytes < left ? bytes : left);
        ckpt_chunk_head(items, bytes, hash, all + at);
        at += CKPT_CHUNK_HEAD + (bytes < left ? bytes : left);
    }
    FILE *stream = fmemopen(all, len, "r");
    struct ckpt_file *f = NULL;
    if (stream && ckpt_file_from(stream, "fuzz", &t, &f, NULL) == 0) {
        uint32_t items;
        const void *p;
        size_t bytes;
        while (ckpt_next(f, &items, &p, &bytes, NULL) == 0) {
            if (bytes != ckpt_data_bytes(&t, items)) {
                abort();
            }
        }
        ckpt_file_close(f);
    }
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    if (data[0] & 1) {
        manifest((const char *)data + 1, size - 1);
    } else {
        file(data + 1, size - 1, data[0] & 2);
    }
    return 0;
}
