/* A saver, for saver.c, its thread and its queue; saver_part.c, the files of the part; and
 * saver_requests.c, what else the thread does in directories of checkpoints. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/train/ps/shard/saver.h"

/* Directories of which it is remembered what this server wrote there. */
enum { SHARD_SAVER_PASTS = 16 };

/* Of the part, and of the other job. */
enum shard_saver_state {
    SHARD_SAVER_NONE,  /* none was begun so far */
    SHARD_SAVER_OPEN,  /* being written */
    SHARD_SAVER_DONE,  /* part: complete and on disk */
    SHARD_SAVER_FAILED /* the error says why */
};

struct shard_saver_listener {
    void (*wake)(void *arg);
    void *arg;
};

/* What this job has in a directory (ckpt_past). */
struct shard_saver_past {
    char *dir;
    uint64_t restored, first; /* first 0: it has written none since */
    struct ckpt_read read;
};

/* The part that was finished last; whether its checkpoint became complete is not known. */
struct shard_saver_part {
    char *dir; /* of the checkpoints; NULL: there is none */
    uint64_t number;
};

struct shard_saver {
    struct shard_saver_config config;
    bool of_budget;    /* config.copies_max is a share of the budget */
    pthread_mutex_t m; /* guards what follows, except for the thread's own fields */
    pthread_cond_t changed;
    pthread_t thread;
    bool running;
    atomic_bool stopping;                   /* set under m, and looked at by what may take long */
    struct shard_saver_listener *listeners; /* [shards] */

    /* the part */
    enum shard_saver_state state;
    uint64_t number, ticket;
    uint64_t previous; /* the last complete one when it was begun; 0: none is known */
    uint64_t maker;    /* incarnation of the trainer that began it */
    int64_t begin_ms;
    char *dir;
    uint32_t ended; /* shards that have added all their chunks */
    struct shard_save_chunk *first, **last;
    size_t queued; /* bytes */
    size_t room;   /* with so much queued, shards pause their slices */
    size_t batch;  /* with so much queued, the thread is woken */
    double price;  /* recent cost of a byte, in nanoseconds of the thread's processor time */
    struct ckpt_part result;
    struct co_err err;

    struct shard_saver_past pasts[SHARD_SAVER_PASTS]; /* [n_pasts] */
    size_t n_pasts;

    /* the other job: a commit, a find or a check */
    enum shard_saver_state job_state; /* SHARD_SAVER_OPEN: one is done, or waits, or both */
    Rpc__Control *job, *doing;        /* that waits; that the thread does.  NULL: none */
    Rpc__CkptFound found;
    struct co_err job_err;
    const struct ps_table *tables;
    uint32_t n_tables;
    bool sync;

    /* the thread's own */
    struct ckpt_part_writer *writer;
    uint64_t writing; /* ticket of the part that is open; 0: none */
    char *at;         /* directory of that part */
    struct shard_saver_part finished;
    struct ckpt_claim *claims[SHARD_SAVER_PASTS]; /* [n_claims] */
    size_t n_claims;
};

/* What this job has in dir.  The lock is held.  If there are too many, the one that came first is
 * forgotten, and then nothing that is there now is ever removed. */
struct shard_saver_past *shard_saver_past(struct shard_saver *sv, const char *dir);
void shard_saver_forget(struct shard_saver_past *p);

/* For what follows: on the saver's thread, without the lock. */

/* Makes the file of the part; its chunks go to sv->writer.  The checkpoint must not be complete. */
CO_MUST_CHECK int shard_saver_part_open(struct shard_saver *sv, const char *dir, uint64_t number,
    uint64_t previous, struct co_err *err);
/* All chunks are in it.  After a failure the part is abandoned. */
CO_MUST_CHECK int shard_saver_part_finish(struct shard_saver *sv, const char *dir, uint64_t number,
    struct ckpt_part *ret, struct co_err *err);
/* Removes the unfinished file of a part that was given up. */
void shard_saver_part_abandon(struct shard_saver *sv);
/* A commit, a find or a check. */
CO_MUST_CHECK int shard_saver_do(
    struct shard_saver *sv, const Rpc__Control *job, struct co_err *err);
