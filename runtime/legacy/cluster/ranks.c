/* Finds rank, size and host names of a process that mpirun or srun started, from their environment
 * variables. */
#include "runtime/legacy/cluster/ranks.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/parse.h"

/* Launchers in the order in which they are tried: the first that sets a rank counts. strict: the
 * local rank must be set, too. */
static const struct {
    const char *by, *rank, *size, *local, *here;
    bool strict;
} systems[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE"},
    /* mpirun of MPICH and its relatives. Inside a Slurm job srun starts its helpers, so
     * SLURM_PROCID in a rank's environment is the helper's. */
    {"MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", .strict = true},
    /* srun --mpi=pmi2 sets PMI_RANK, too. */
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {"MPI", "PMI_RANK", "PMI_SIZE", NULL, NULL},
    {"an indexed Job", "JOB_COMPLETION_INDEX", NULL, NULL, NULL},
};

static const char *from_process(void *arg, const char *name) {
    (void)arg;
    return co_contract_getenv_of(name);
}

/* Leaves *ret alone when it is not set. */
static int number(
    const char *name, const char *text, int64_t min, uint32_t *ret, struct co_err *err) {
    int64_t v = 0;
    if (!text) {
        return 0;
    }
    int r = co_parse_i64(name, text, min, CLUSTER_RANKS_MAX, &v, err);
    *ret = r ? *ret : (uint32_t)v;
    return r;
}

static int check_rank(const char *name, const struct cluster_rank *r, struct co_err *err) {
    if (r->size == 0) {
        return co_err_set(
            err, CO_INVALID, "%s does not say how many ranks there are, expected --size", r->by);
    }
    if (r->rank >= r->size) {
        return co_err_set(err, CO_INVALID,
            "%s is %u, expected a number below %u, that of all ranks", name, r->rank, r->size);
    }
    return 0;
}

int cluster_rank_find(cluster_rank_getenv_fn get, void *arg, const char *hostname, uint32_t size,
    struct cluster_rank *ret, struct co_err *err) {
    get = get ? get : from_process;
    for (size_t i = 0; i < CO_ARRAY_LEN(systems); i++) {
        const char *rank = get(arg, systems[i].rank);
        struct cluster_rank found = {.by = systems[i].by, .size = size};
        if (!rank || (systems[i].strict && !get(arg, systems[i].local))) {
            continue;
        }
        CO_TRY(number(systems[i].rank, rank, 0, &found.rank, err));
        if (systems[i].size) {
            CO_TRY(number(systems[i].size, get(arg, systems[i].size), 1, &found.size, err));
        }
        if (systems[i].local) {
            CO_TRY(number(systems[i].local, get(arg, systems[i].local), 0, &found.local, err));
        }
        if (systems[i].here) {
            CO_TRY(number(systems[i].here, get(arg, systems[i].here), 1, &found.here, err));
        }
        CO_TRY(check_rank(systems[i].rank, &found, err));
        *ret = found;
        return 0;
    }
    const char *dash = strrchr(hostname, '-');
    struct cluster_rank found = {.by = "a StatefulSet", .size = size};
    if (!size || !dash || number("hostname", dash + 1, 0, &found.rank, NULL)) {
        return co_err_set(err, CO_NOTFOUND,
            "this process has no rank, expected one of OMPI_COMM_WORLD_RANK, PMI_RANK, "
            "SLURM_PROCID, JOB_COMPLETION_INDEX, or --size and a host name that ends with -<rank>");
    }
    CO_TRY(check_rank("the host name's number", &found, err));
    *ret = found;
    return 0;
}

int cluster_rank_check_hosts(const struct cluster_rank *r, size_t hosts, struct co_err *err) {
    size_t elsewhere = r->size > r->here ? r->size - r->here : 0;
    if (r->here && hosts > elsewhere + 1) {
        return co_err_set(err, CO_INVALID,
            "%u of %u processes are on this host, so of %zu hosts some have none, expected one on "
            "each (mpirun --map-by node, or slots=1 in the list)",
            r->here, r->size, hosts);
    }
    return 0;
}

/* ---- hosts ------------------------------------------------------------------------------ */

void cluster_names_done(struct cluster_names *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i]);
    }
    free(l->item);
    *l = (struct cluster_names){.n = 0};
}

static int names_add(
    struct cluster_names *l, const char *name, const char *text, size_t len, struct co_err *err) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:";
    CO_AUTOFREE char *host = co_xstrndup(text, len);
    if (len > CO_HOST_MAX - 1) {
        return co_err_set(err, CO_INVALID,
            "%s: \"%.60s...\" is not a host: %zu characters, expected at most %d", name, host, len,
            CO_HOST_MAX - 1);
    }
    if (!*host || *host == '-' || strspn(host, good) != len) {
        return co_err_set(err, CO_INVALID, "%s: \"%.60s\" is not a host", name, host);
    }
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->item[i], host) == 0) {
            return 0;
        }
    }
    if (l->n == CLUSTER_NAMES_MAX) {
        return co_err_set(
            err, CO_INVALID, "%s has more than %d hosts", name, (int)CLUSTER_NAMES_MAX);
    }
    l->item = co_xgrow(l->item, l->n, sizeof(*l->item));
    l->item[l->n++] = co_steal_ptr(host);
    return 0;
}

static int finish(struct cluster_names *l, int r, struct cluster_names *ret) {
    if (r) {
        cluster_names_done(l);
    } else {
        *ret = *l;
    }
    return r;
}

int cluster_machines_read(
    const char *name, const char *text, struct cluster_names *ret, struct co_err *err) {
    struct cluster_names l = {.n = 0};
    int r = 0;
    for (const char *p = text; !r && *p;) {
        size_t line = strcspn(p, "\n");
        const char *word = p + strspn(p, " \t\r");
        size_t len = strcspn(word, " \t\r\n#");
        const char *colon = memchr(word, ':', len);
        bool v6 = colon && memchr(colon + 1, ':', len - (size_t)(colon + 1 - word));
        if (len) {
            r = names_add(&l, name, word, colon && !v6 ? (size_t)(colon - word) : len, err);
        }
        p += line + (p[line] != '\0');
    }
    if (!r && !l.n) {
        r = co_err_set(err, CO_INVALID, "%s has no host", name);
    }
    return finish(&l, r, ret);
}

/* "01-03": every number with the leading zeros of the first. */
static int add_range(struct cluster_names *l, const char *name, const char *prefix, size_t n_prefix,
    const char *range, size_t len, struct co_err *err) {
    char text[64];
    int from = 0, to = 0, used = 0, width = 0;
    (void)snprintf(text, sizeof(text), "%.*s", (int)len, range);
    if (len < sizeof(text) && sscanf(text, "%9d%n-%9d%n", &from, &width, &to, &used) == 1) {
        to = from;
        used = width;
    }
    if (len >= sizeof(text) || used == 0 || (size_t)used != len || from < 0 || to < from) {
        return co_err_set(err, CO_INVALID, "%s: \"%s\" is not a range of numbers", name, text);
    }
    for (int i = from; i <= to; i++) {
        CO_AUTOFREE char *host = co_xasprintf("%.*s%0*d", (int)n_prefix, prefix, width, i);
        CO_TRY(names_add(l, name, host, strlen(host), err));
    }
    return 0;
}

int cluster_nodelist_read(
    const char *name, const char *text, struct cluster_names *ret, struct co_err *err) {
    struct cluster_names l = {.n = 0};
    int r = 0;
    for (const char *p = text; !r && *p;) {
        size_t plain = strcspn(p, ",[");
        if (p[plain] != '[') {
            r = names_add(&l, name, p, plain, err);
            p += plain + (p[plain] == ',');
            continue;
        }
        const char *close = strchr(p, ']');
        if (!close || (close[1] && close[1] != ',')) {
            r = co_err_set(err, CO_INVALID, "%s: \"%.60s\" has no \"]\" at its end", name, p);
            break;
        }
        for (const char *q = p + plain + 1; !r && q < close;) {
            size_t len = strcspn(q, ",]");
            r = add_range(&l, name, p, plain, q, len, err);
            q += len + 1;
        }
        p = close + 1 + (close[1] == ',');
    }
    if (!r && !l.n) {
        r = co_err_set(err, CO_INVALID, "%s has no host", name);
    }
    return finish(&l, r, ret);
}

int cluster_pods_name(
    const char *fqdn, uint32_t rank, uint32_t size, struct cluster_names *ret, struct co_err *err) {
    char number[16];
    struct cluster_names l = {.n = 0};
    int n = snprintf(number, sizeof(number), "-%u", rank);
    size_t first = strcspn(fqdn, ".");
    const char *at = fqdn + first - n;
    if (first <= (size_t)n || strncmp(at, number, (size_t)n) != 0) {
        return co_err_set(err, CO_INVALID,
            "the host name \"%.100s\" does not end with the rank %u in its first part", fqdn, rank);
    }
    int r = 0;
    for (uint32_t i = 0; !r && i < size; i++) {
        CO_AUTOFREE char *host = co_xasprintf("%.*s-%u%s", (int)(at - fqdn), fqdn, i, fqdn + first);
        r = names_add(&l, "host name", host, strlen(host), err);
    }
    return finish(&l, r, ret);
}
