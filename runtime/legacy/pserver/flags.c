/* The flags of `paddle pserver`; those of trainers and of removed parts are accepted and ignored.
 */
#include "runtime/legacy/pserver/flags.h"

#include <string.h>

#include "common/contract.h"
#include "common/mem.h"

struct pserver_options pserver_options;

/* Accepted without effect: flags of trainers, because scripts passed one flag file to both, and
 * flags for parts of the old server that do not exist here. */
static struct {
    bool flag[8];
    const char *text[8];
    int64_t number[16];
    double ratio[8];
} unused;

#define UNUSED(n, t, v, d)                                                                         \
    {                                                                                              \
        .name = (n), .type = (t), .value = (v), .def = (d), .help = "accepted and ignored",        \
        .hidden = true                                                                             \
    }

const struct co_flag pserver_flags[] = {
    {"port", CO_FLAG_INT, &pserver_options.port, "7164", .min = 1, .max = UINT16_MAX,
        .help = "first port to listen on"},
    {"ports_num", CO_FLAG_INT, &pserver_options.ports_num, "1", .min = 1, .max = 1000,
        .help = "number of ports for dense parameters"},
    {"ports_num_for_sparse", CO_FLAG_INT, &pserver_options.ports_num_for_sparse, "0", .min = 0,
        .max = 1000, .help = "number of further ports, for sparse parameters"},
    {"num_gradient_servers", CO_FLAG_INT, &pserver_options.num_gradient_servers, "1", .min = 1,
        .max = 1000000, .help = "number of trainers of the job"},
    {"nics", CO_FLAG_STR, &pserver_options.nics, "",
        .help = "network interfaces to listen on, joined by commas; empty: all of them"},
    {"pserver_num_threads", CO_FLAG_INT, &pserver_options.num_threads, "1", .min = 1, .max = 64,
        .help = "threads of each port's server"},
    {"rdma_tcp", CO_FLAG_STR, &pserver_options.rdma_tcp, "tcp", .help = "tcp; rdma is refused"},
    {"comment", CO_FLAG_STR, &pserver_options.comment, "",
        .help = "anything, to find the process by"},
    {"log_dir", CO_FLAG_STR, &pserver_options.log_dir, "",
        .help = "directory for paddle_pserver2.INFO; empty: $GLOG_log_dir, unless "
                "GLOG_logtostderr is on, else stderr"},
    UNUSED("use_gpu", CO_FLAG_BOOL, &unused.flag[0], NULL),
    UNUSED("small_messages", CO_FLAG_BOOL, &unused.flag[1], NULL),
    UNUSED("loadsave_parameters_in_pserver", CO_FLAG_BOOL, &unused.flag[2], NULL),
    UNUSED("check_sparse_distribution_in_pserver", CO_FLAG_BOOL, &unused.flag[3], NULL),
    UNUSED("show_check_sparse_distribution_log", CO_FLAG_BOOL, &unused.flag[4], NULL),
    UNUSED("log_barrier_abstract", CO_FLAG_BOOL, &unused.flag[5], "true"),
    UNUSED("log_barrier_show_log", CO_FLAG_BOOL, &unused.flag[6], NULL),
    UNUSED("logtostderr", CO_FLAG_BOOL, &unused.flag[7], NULL),
    UNUSED("pservers", CO_FLAG_STR, &unused.text[0], "127.0.0.1"),
    UNUSED("load_missing_parameter_strategy", CO_FLAG_STR, &unused.text[1], "fail"),
    UNUSED("trainer_id", CO_FLAG_INT, &unused.number[0], "0"),
    UNUSED("trainer_count", CO_FLAG_INT, &unused.number[1], "1"),
    UNUSED("log_period", CO_FLAG_INT, &unused.number[2], "100"),
    UNUSED("log_period_server", CO_FLAG_INT, &unused.number[3], "500"),
    UNUSED("parallel_thread_num", CO_FLAG_INT, &unused.number[4], "1"),
    UNUSED("sock_send_buf_size", CO_FLAG_INT, &unused.number[5], "41943040"),
    UNUSED("sock_recv_buf_size", CO_FLAG_INT, &unused.number[6], "41943040"),
    UNUSED("enable_grad_share", CO_FLAG_INT, &unused.number[7], "104857600"),
    UNUSED("grad_share_block_num", CO_FLAG_INT, &unused.number[8], "64"),
    UNUSED("check_sparse_distribution_batches", CO_FLAG_INT, &unused.number[9], "100"),
    UNUSED("log_barrier_lowest_nodes", CO_FLAG_INT, &unused.number[10], "5"),
    UNUSED("beam_size", CO_FLAG_INT, &unused.number[11], "1"),
    UNUSED("async_lagged_ratio_min", CO_FLAG_FLOAT, &unused.ratio[0], "1.0"),
    UNUSED("async_lagged_ratio_default", CO_FLAG_FLOAT, &unused.ratio[1], "1.5"),
    UNUSED("check_sparse_distribution_ratio", CO_FLAG_FLOAT, &unused.ratio[2], "0.6"),
    UNUSED("check_sparse_distribution_unbalance_degree", CO_FLAG_FLOAT, &unused.ratio[3], "2.0"),
    UNUSED("checkgrad_eps", CO_FLAG_FLOAT, &unused.ratio[4], "1e-5"),
};

const size_t pserver_n_flags = CO_ARRAY_LEN(pserver_flags);

static const char *negated(const char *word) {
    if (strncmp(word, "--no", 4) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < pserver_n_flags; i++) {
        const struct co_flag *f = &pserver_flags[i];
        if (f->type == CO_FLAG_BOOL && strcmp(f->name, word + 4) == 0) {
            return f->name;
        }
    }
    return NULL;
}

void pserver_argv(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = negated(argv[i]);
        if (name) {
            argv[i] = co_xasprintf("--%s=false", name); /* lives as long as argv: for ever */
        }
    }
}
