/* This process's place among those that a batch system started, from what that system gives each
 * of them: Open MPI, MPICH and its kin, Slurm, an indexed Job or a StatefulSet of Kubernetes.
 * Pure, but for reading a file of hosts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum { CLUSTER_RANKS_MAX = 100000, CLUSTER_NAMES_MAX = 10000 };

struct cluster_rank {
    const char *by; /* static: "Open MPI", ... */
    uint32_t rank, size;
    uint32_t local; /* among those on this host */
    uint32_t here;  /* how many are on this host; 0: not known */
};

typedef const char *(*cluster_rank_getenv_fn)(void *arg, const char *name);

/* get NULL: the process's environment.  hostname: a StatefulSet's pod has its rank at the end of
 * it.  size: for systems that do not give it; 0: unknown.  CO_NOTFOUND: none of them started this
 * process; CO_INVALID names the variable. */
CO_MUST_CHECK int cluster_rank_find(cluster_rank_getenv_fn get, void *arg, const char *hostname,
    uint32_t size, struct cluster_rank *ret, struct co_err *err);

/* Every host's server is started by its first rank: CO_INVALID when so many hosts cannot all have
 * one, as so many ranks are on this. */
CO_MUST_CHECK int cluster_rank_check_hosts(
    const struct cluster_rank *r, size_t hosts, struct co_err *err);

struct cluster_names {
    char **item; /* owned strings */
    size_t n;
};
void cluster_names_done(struct cluster_names *l);

/* Hosts of a machine file: one a line, "host", "host slots=4", "host:4"; comments; each once. */
CO_MUST_CHECK int cluster_machines_read(
    const char *name, const char *text, struct cluster_names *ret, struct co_err *err);
/* Slurm's "a[01-03,7],b": each host once, in order. */
CO_MUST_CHECK int cluster_nodelist_read(
    const char *name, const char *text, struct cluster_names *ret, struct co_err *err);
/* Pods of a StatefulSet or an indexed Job: the own full name with every other rank in it. */
CO_MUST_CHECK int cluster_pods_name(
    const char *fqdn, uint32_t rank, uint32_t size, struct cluster_names *ret, struct co_err *err);
