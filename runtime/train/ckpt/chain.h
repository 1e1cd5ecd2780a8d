/* Checkpoints that servers write together, below one directory that all of them see:
 *
 *     dir/ckpt-000000000012/part-00000   of server 0 (part.h)
 *                           part-00001   of server 1
 *                           MANIFEST     text, written last: without it there is no checkpoint
 *
 *     paddlert checkpoint 2
 *     checkpoint number=12 base=10 previous=11 step=1200 mode=sync after=...
 *     table name=... kind=... size=... dim=... state=... seed=... optimizer=... init=...
 *           keeps=... zeros=1
 *     part server=0 shards=2 bytes=... hash=...
 *     end hash=...
 *
 * A full checkpoint has base = number and previous = 0. A delta has what changed since `previous`;
 * its `base` is the full checkpoint at the beginning of its chain; `after` is the hash of the
 * manifest of `previous`, since another job's checkpoint may have the same number. `save`, if not
 * 0, is the mode that chose the rows (enum rt_save_mode). `next`, if it is not step + 1, is the
 * step that its job makes next: `step` counts those of another job, too, whose tables it has
 * restored. A chain is read from its full checkpoint on:
 *
 *     ckpt-10 (full)  <-  ckpt-11  <-  ckpt-12
 *
 * Numbers only grow.  No threads, no state. */
#pragma once

#include <stdatomic.h>

#include "common/buf.h"
#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ckpt/part.h"

enum {
    CKPT_SERVERS_MAX = 65536,
    CKPT_CHAIN_MAX = 1024, /* deltas on one full checkpoint */
    CKPT_MANIFEST_MAX = 16 << 20,
    CKPT_SAVE_MODES = 4, /* as many as rt_save_mode has */
};

/* Checkpoints of some modes omit rows on purpose. They never share a chain with complete ones. */
static inline bool ckpt_save_is_partial(uint32_t save) {
    return save == 1 || save == 2;
}

struct ckpt_part {
    uint32_t server, shards;
    uint64_t bytes, hash;
};

struct ckpt_point {
    uint64_t number, base, previous;
    uint64_t after; /* hash of the manifest of `previous`; 0: none, or an earlier library's */
    uint64_t step;  /* of the trainers, that is in it */
    uint64_t next;  /* 0: step + 1 */
    bool sync;
    uint32_t save;
    uint32_t n_tables, n_parts;
    struct ckpt_table *tables; /* [n_tables], owned; what the writer fills is not used */
    struct ckpt_part *parts;   /* [n_parts], owned; by server */
    uint64_t hash;             /* of the manifest, once ckpt_point_read has read it */
};

static inline bool ckpt_point_full(const struct ckpt_point *p) {
    return p->base == p->number;
}
/* How many steps its own job had made. */
static inline uint64_t ckpt_point_steps(const struct ckpt_point *p) {
    return p->next > 0 ? p->next - 1 : p->step;
}
void ckpt_point_done(struct ckpt_point *p);

/* The path dir/ckpt-...; the caller frees it. */
char *ckpt_point_dir(const char *dir, uint64_t number);
/* The file of a server's part. */
char *ckpt_point_part(const char *dir, uint64_t number, uint32_t server);

/* ---- writing ---- */

/* Writes the manifest. From then on the checkpoint exists, so all its parts must be complete. */
CO_MUST_CHECK int ckpt_point_commit(
    const char *dir, const struct ckpt_point *p, struct co_err *err);
/* Removes the manifest: the checkpoint does not exist any more. */
void ckpt_point_revoke(const char *dir, uint64_t number);
/* Checks that all parts are there in the size that the manifest says. CO_DAMAGED names the file. */
CO_MUST_CHECK int ckpt_point_check(const char *dir, const struct ckpt_point *p, struct co_err *err);

/* What pruning has read in whole so far, so that it reads nothing twice. */
struct ckpt_read {
    struct ckpt_read_one {
        uint64_t number;
        bool whole; /* false: it is damaged */
    } * all;        /* [n], owned by the caller */
    size_t n;
};

/* Which checkpoints may be removed: those of this job's past. */
struct ckpt_past {
    const struct ckpt_point *newest; /* the one that was completed last; its tables count */
    uint64_t restored;               /* the job began with that one; 0: with none */
    uint64_t first;                  /* the first one that it wrote after that */
    struct ckpt_read *read;          /* of earlier calls with the same dir */
    const atomic_bool *stop;         /* once it is true, reading ends; NULL: never */
};
/* Keeps the newest `keep` (1 or more) whole full checkpoints of the past with their deltas, and
 * removes older ones of it, and what was begun before `newest` and never completed.  The past has
 * what was completed up to `restored`, and from `first` on to `newest`, if its manifest can be read
 * and has the same tables.  All others stay: they may be what somebody wants to go back to.  A full
 * one that is damaged, or cannot be read, does not count towards `keep`: each is read once for
 * that, when there is a newer one, unless this life began with it. */
CO_MUST_CHECK int ckpt_prune(
    const char *dir, uint32_t keep, const struct ckpt_past *past, struct co_err *err);

/* ---- reading ----
 *
 * Three things can be wrong with a checkpoint, and each has its code:
 *
 *     CO_DAMAGED   a checksum or a text is wrong, a file is missing: an older one may be whole
 *     CO_INVALID   it does not fit the tables of the job (for those who know them)
 *     others       it could not be read, so nobody knows what it has: an older one is no substitute
 *
 * CO_NOTFOUND means that there is none. */

/* CO_NOTFOUND: there is no manifest, so it was not completed. CO_DAMAGED names the manifest and the
 * mistake in it. */
CO_MUST_CHECK int ckpt_point_read(
    const char *dir, uint64_t number, struct ckpt_point *ret, struct co_err *err);

struct ckpt_chain {
    char *dir;
    struct ckpt_point *points; /* [n]: the full one, then its deltas in order */
    uint32_t n;
    uint64_t damaged; /* the newest damaged one, in whose place the search took this; 0: none */
    const atomic_bool *stop; /* once it is true, verifying ends with CO_CANCELED; NULL: never */
};

/* Called for each checkpoint that is skipped; why names it. */
typedef void ckpt_skip_fn(void *arg, const struct co_err *why);

/* How to look for the newest checkpoint. */
struct ckpt_search {
    const char *dir;
    uint64_t most;      /* of those with a number up to here */
    bool verify;        /* all files are read, as by ckpt_chain_verify; else only their sizes */
    ckpt_skip_fn *skip; /* NULL: not called */
    void *arg;
};
/* The newest chain that is not damaged. CO_NOTFOUND: nothing was completed. CO_DAMAGED: what was
 * completed is damaged. Any other error: one could not be read, and the search ended there. */
CO_MUST_CHECK int ckpt_chain_newest(
    const struct ckpt_search *search, struct ckpt_chain **ret, struct co_err *err);
/* The number at which a chain ends. */
static inline uint64_t ckpt_chain_number(const struct ckpt_chain *c) {
    return c->points[c->n - 1].number;
}
/* The chain that ends at the named checkpoint. CO_NOTFOUND: that one was not completed. */
CO_MUST_CHECK int ckpt_chain_open(
    const char *dir, uint64_t number, struct ckpt_chain **ret, struct co_err *err);
void ckpt_chain_close(struct ckpt_chain *c);
CO_DEFINE_CLEANUP(struct ckpt_chain *, ckpt_chain_close)
/* The checkpoints in dir, complete or not; none if there is no dir. Fails if dir cannot be listed
 * to its end: a file system that is away for a moment must not look empty. */
struct ckpt_numbers {
    uint64_t *all; /* [n], descending; the caller's to free */
    size_t n;
};
CO_MUST_CHECK int ckpt_numbers(const char *dir, struct ckpt_numbers *ret, struct co_err *err);
/* The largest number in dir, complete or not; 0: none, or no dir. Fails as ckpt_numbers does. */
CO_MUST_CHECK int ckpt_last_number(const char *dir, uint64_t *ret, struct co_err *err);
/* Whether that checkpoint has a manifest, of whatever content. Fails if that is unknown. */
CO_MUST_CHECK int ckpt_is_complete(const char *dir, uint64_t number, bool *ret, struct co_err *err);

/* CO_INVALID: dir does not have what is expected there, but what something else reads; the message
 * says which.  0: it has, or has neither, or that is unknown. */
enum ckpt_kind {
    CKPT_SAVE,   /* of rt_save: dir/MANIFEST */
    CKPT_POINTS, /* of servers: dir/ckpt-... */
    CKPT_EITHER,
};
CO_MUST_CHECK int ckpt_expect(const char *dir, enum ckpt_kind kind, struct co_err *err);
/* Whether rt_save has written to dir after that checkpoint was completed, by the times of the two
 * manifests.  For those who read either, and take the checkpoint: they say so. */
bool ckpt_has_newer_save(const char *dir, uint64_t number);

CO_MUST_CHECK int ckpt_chain_part(const struct ckpt_chain *c, uint32_t point, uint32_t part,
    struct ckpt_part_reader **ret, struct co_err *err);

/* Which chunks are read, and who gets them. */
struct ckpt_walk {
    const struct ckpt_chain *chain;
    unsigned kinds; /* mask of enum ckpt_part_kind */
    bool one_table; /* only chunks of this table: */
    uint32_t table;
    bool one_shard; /* only chunks of this shard of this server: */
    uint32_t server, shard;
    bool heads; /* data is not read; take gets NULL */
    /* Whether a chunk is wanted; NULL: all.  The data of others is not read. */
    bool (*wants)(void *arg, const struct ckpt_part_chunk *c);
    /* NULL: chunks are read, no more.  Not 0: the walk ends, and returns that. */
    int (*take)(
        void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err);
    void *arg;
    const atomic_bool *stop; /* once it is true, the walk ends with CO_CANCELED; NULL: never */
};
enum { CKPT_WALK_ALL = (1 << CKPT_PART_KINDS) - 1 };
/* Of one part, or of all parts of a checkpoint.  point: its index in the chain. */
CO_MUST_CHECK int ckpt_walk_part(
    const struct ckpt_walk *w, uint32_t point, uint32_t part, struct co_err *err);
CO_MUST_CHECK int ckpt_walk_point(const struct ckpt_walk *w, uint32_t point, struct co_err *err);

/* Reads a part to its end. CO_DAMAGED names the file and the offset of the fault. */
CO_MUST_CHECK int ckpt_chain_verify_part(
    const struct ckpt_chain *c, uint32_t point, uint32_t part, struct co_err *err);
/* Reads the whole chain, as a load would. */
CO_MUST_CHECK int ckpt_chain_verify(const struct ckpt_chain *c, struct co_err *err);

/* ---- for tests ---- */

CO_MUST_CHECK int ckpt_point_parse(
    const char *text, size_t len, struct ckpt_point *ret, struct co_err *err);
CO_MUST_CHECK int ckpt_point_print(
    const struct ckpt_point *p, struct co_buf *to, struct co_err *err);
