/* One operator of several that share the jobs by namespace: shard i of N.
 *
 * Each shard has a Lease of its own; beside them one Lease says which N is in force.  A shard that
 * has its own lease acts only once it has written to that record, with the version it read: when
 * the record names another N, not before all leases of that N, and the one of an operator without
 * shards, are free or have run out.  So two layouts never act together, and a layout whose
 * operators have gone is followed by the next one.  Owned by the loop's thread. */
#pragma once

#include "operator/control/lease.h"

enum { OP_SHARDS_MAX = 64 };

struct op_shard_id {
    unsigned index, count; /* index of count; count 0: no shards */
};

/* "i/N", i from 0; CO_INVALID says what was expected. */
CO_MUST_CHECK int op_shard_parse(const char *text, struct op_shard_id *ret, struct co_err *err);
/* Whether a namespace is this one's.  Which shard has it must never change between versions. */
bool op_shard_has(const struct op_shard_id *id, const char *ns);
/* Name of its Lease. */
void op_shard_lease(const struct op_shard_id *id, char *ret, size_t size);

struct op_shard_opts {
    const char *ns; /* of the leases */
    struct op_shard_id id;
    int64_t retry_ms; /* between attempts; 0: 2 s */
    /* The layout is in force: this shard may act. */
    void (*admitted)(void *arg);
    void *arg;
};

struct op_shard;

struct op_shard *op_shard_new(
    struct co_loop *loop, struct op_kube_client *client, const struct op_shard_opts *opts);
/* It has its own lease: seeks admission.  false: it has lost it. */
void op_shard_leased(struct op_shard *s, bool leased);
void op_shard_free(struct op_shard *s); /* NULL allowed */
CO_DEFINE_CLEANUP(struct op_shard *, op_shard_free)
