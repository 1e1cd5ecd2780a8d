/* `paddlerun mpi`: one process of mpirun or srun becomes a node of a job of Paddle 0.8 to 0.12. */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/contract.h"
#include "runtime/legacy/cluster/batch_node.h"
#include "runtime/legacy/cluster/legacy_commands.h"

enum { FILE_MAX = 8 << 20, HOSTS_MAX = 16 << 20 };

static const char usage[] =
    "paddlerun mpi [flags] -- PROGRAM [ARG...]\n\n"
    "One process of a job that mpirun, srun, an indexed Job or a StatefulSet started: the first\n"
    "on each host starts a server, each runs the program with PADDLE_INIT_* in its environment.";

static struct cluster_node node;
static const char *machines, *hostname_given;
static int64_t size;

static const struct co_flag flags[] = {
    {"machines", CO_FLAG_STR, &machines, "machines",
        .help = "file of hosts, one a line; when it is not there, the batch system's own list"},
    {"size", CO_FLAG_INT, &size, "0", .min = 0, .max = CLUSTER_RANKS_MAX,
        .help = "number of processes, where the batch system does not set it (Kubernetes)"},
    {"hostname", CO_FLAG_STR, &hostname_given,
        .help = "full name of this pod; empty: as the system knows it"},
    {"port", CO_FLAG_INT, &node.port, "7164", .min = 1, .max = UINT16_MAX,
        .help = "first port of every server"},
    {"ports_num", CO_FLAG_INT, &node.ports_num, "1", .min = 1, .max = 1000,
        .help = "ports for dense parameters"},
    {"ports_num_for_sparse", CO_FLAG_INT, &node.ports_num_for_sparse, "1", .min = 0, .max = 1000,
        .help = "ports for sparse parameters"},
    {"log_dir", CO_FLAG_STR, &node.log_dir, "",
        .help = "directory for pserver.log and train.log; empty: this process's output"},
    {"grace", CO_FLAG_DURATION, &node.grace_ms, "10s", .help = "SIGTERM to SIGKILL"},
    {"server-grace", CO_FLAG_DURATION, &node.linger_ms, "1m",
        .help = "how long the server may take to end after its job's only trainer"},
};

/* The name by which other pods find this one: its host name with the headless Service's appended.
 */
static char *full_name(const char *host) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME}, *a = NULL;
    /* no deadline: the resolver has one of its own */
    bool found = getaddrinfo(host, NULL, &hints, &a) == 0 && a;
    char *name = co_xstrdup(found && a->ai_canonname ? a->ai_canonname : host);
    if (found) {
        freeaddrinfo(a);
    }
    return name;
}

static int find_hosts(const struct cluster_rank *rank, const char *host, struct cluster_names *ret,
    struct co_err *err) {
    /* A step of srun may use only some of the job's nodes. */
    static const char step[] = "SLURM_STEP_NODELIST", job[] = "SLURM_JOB_NODELIST";
    const char *name = co_contract_getenv_of(step) ? step : job;
    const char *nodelist = co_contract_getenv_of(name);
    bool pods = strcmp(rank->by, "an indexed Job") == 0 || strcmp(rank->by, "a StatefulSet") == 0;
    if (access(machines, F_OK) == 0 || errno != ENOENT) {
        CO_AUTOBUF struct co_buf text = CO_BUF(FILE_MAX);
        CO_TRY(co_file_read(machines, FILE_MAX, &text, err));
        return cluster_machines_read(machines, text.data ? text.data : "", ret, err);
    }
    if (pods) {
        CO_AUTOFREE char *fqdn = full_name(host);
        return cluster_pods_name(fqdn, rank->rank, rank->size, ret, err);
    }
    if (strcmp(rank->by, "Slurm") == 0 && nodelist) {
        return cluster_nodelist_read(name, nodelist, ret, err);
    }
    if (rank->size == 1 || rank->here == rank->size) {
        return cluster_machines_read("this host", "127.0.0.1", ret, err);
    }
    return co_err_set(err, CO_INVALID,
        "%s does not name the hosts, expected --machines=FILE with one a line (\"%s\" "
        "is not there)",
        rank->by, machines);
}

static int prepare(struct co_buf *servers, struct co_err *err) {
    char host[HOST_NAME_MAX + 1] = "";
    CO_CLEANUP(cluster_names_done) struct cluster_names names = {.n = 0};
    (void)gethostname(host, sizeof(host) - 1);
    const char *own = hostname_given && *hostname_given ? hostname_given : host;
    CO_AUTOFREE char *first = co_xstrndup(own, strcspn(own, "."));
    CO_TRY(cluster_rank_find(NULL, NULL, first, (uint32_t)size, &node.rank, err));
    CO_TRY(find_hosts(&node.rank, own, &names, err));
    CO_TRY(cluster_rank_check_hosts(&node.rank, names.n, err));
    for (size_t i = 0; i < names.n; i++) {
        CO_TRY(co_buf_addf(servers, err, "%s%s", i ? "," : "", names.item[i]));
    }
    return 0;
}

int cluster_cmd_mpi(int argc, char **argv) {
    CO_AUTOBUF struct co_buf servers = CO_BUF(HOSTS_MAX);
    struct co_err err = {0};
    static char pserver[PATH_MAX + 64]; /* what the static node points to stays */
    int rest = 0, code = 0;
    if (!options_command_flags(usage, flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    if (rest == argc) {
        (void)co_err_set(
            &err, CO_INVALID, "no program given, expected: paddlerun mpi -- PROGRAM [ARG...]");
    }
    if (rest == argc || prepare(&servers, &err)) {
        (void)fprintf(stderr, "paddlerun mpi: %s\n", co_err_text(&err));
        return OPTIONS_USAGE;
    }
    cluster_pserver_path(pserver, sizeof(pserver));
    node.servers = servers.data;
    node.pserver = pserver;
    node.argv = argv + rest;
    if (cluster_node_run(&node, &code, &err)) {
        (void)fprintf(stderr, "paddlerun mpi: %s\n", co_err_text(&err));
    }
    return code;
}
