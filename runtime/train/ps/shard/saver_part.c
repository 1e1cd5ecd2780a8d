/* The files of a server's part, on the saver's thread, without the lock. */
#include <inttypes.h>
#include <string.h>

#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ps/shard/saver_internal.h"

static void remove_part(const struct shard_saver *sv, const char *at) {
    CO_AUTOFREE char *name = co_xasprintf("part-%05" PRIu32, sv->config.server);
    (void)!ckpt_disk_remove(at, name, NULL);
}

void shard_saver_part_abandon(struct shard_saver *sv) {
    ckpt_part_close(co_steal_ptr(sv->writer));
    remove_part(sv, sv->at);
    free(co_steal_ptr(sv->at));
    sv->writing = 0;
}

/* Removes the finished part of an earlier checkpoint that failed, as it does when another server
 * cannot write.  The next complete checkpoint would remove it as well, but while none succeeds such
 * parts would fill the disk.  The order's word for what is complete comes first: a network file
 * system may show a new manifest late. */
static void remove_failed(
    struct shard_saver *sv, const char *dir, uint64_t number, uint64_t previous) {
    struct ckpt_point p = {0};
    CO_AUTOFREE char *was = co_steal_ptr(sv->finished.dir);
    uint64_t n = sv->finished.number;
    if (!was || (strcmp(was, dir) == 0 && (n == number || n == previous))) {
        return;
    }
    if (ckpt_point_read(was, n, &p, NULL) == CO_NOTFOUND) {
        CO_AUTOFREE char *at = ckpt_point_dir(was, n);
        remove_part(sv, at);
        (void)!ckpt_disk_remove_dir(at, NULL); /* fails while another server's part is in it */
    }
    ckpt_point_done(&p);
}

static int check_incomplete(const char *dir, uint64_t number, struct co_err *err) {
    bool complete = false;
    CO_TRY(ckpt_is_complete(dir, number, &complete, err));
    if (complete) {
        return co_err_set(err, CO_CONFLICT,
            "checkpoint %" PRIu64 " in \"%s\" is complete, it stays as it is", number, dir);
    }
    return 0;
}

int shard_saver_part_open(struct shard_saver *sv, const char *dir, uint64_t number,
    uint64_t previous, struct co_err *err) {
    struct ckpt_part_origin place = {.number = number,
        .server = sv->config.server,
        .servers = sv->config.servers,
        .shards = sv->config.shards};
    int rc = check_incomplete(dir, number, err);
    if (rc < 0) {
        sv->writing = 0; /* there is nothing to remove */
        return rc;
    }
    sv->at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = ckpt_point_part(dir, number, sv->config.server);
    rc = ckpt_disk_mkdir(sv->at, err);
    remove_failed(sv, dir, number, previous); /* a full disk has room again */
    CO_TRY(rc);
    return ckpt_part_create(path, &place, &sv->writer, err);
}

int shard_saver_part_finish(struct shard_saver *sv, const char *dir, uint64_t number,
    struct ckpt_part *ret, struct co_err *err) {
    struct ckpt_part_sum sum = {0};
    int rc = ckpt_part_finish(sv->writer, &sum, err);
    if (rc == 0) {
        rc = ckpt_disk_sync_dir(sv->at, err);
    }
    if (rc < 0) {
        shard_saver_part_abandon(sv);
        return rc;
    }
    sv->finished = (struct shard_saver_part){co_xstrdup(dir), number};
    ckpt_part_close(co_steal_ptr(sv->writer));
    free(co_steal_ptr(sv->at));
    sv->writing = 0;
    *ret = (struct ckpt_part){sv->config.server, sv->config.shards, sum.bytes, sum.hash};
    return 0;
}
