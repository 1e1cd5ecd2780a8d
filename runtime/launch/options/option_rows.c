/* The table of all options of `paddlerun launch`.  options.h explains the columns.  --help,
 * docs/launch.md, the manual and the completions are generated from it: run `make manifests` after
 * a change. */
#include "runtime/launch/options/options.h"

enum {
    F3 = 1U << OPTIONS_FORMAT_3,
    F23 = 1U << OPTIONS_FORMAT_2_3,
    F20 = 1U << OPTIONS_FORMAT_2_0,
    ALL = F3 | F23 | F20,
    NEW = F3 | F23,
    MANY = 1000000,
    PORTS = 65535,
};

static const char *const compat_words[] = {"3", "3.x", "2.3", "2.0", "legacy", NULL};
static const char *const affinity_words[] = {"none", "spread", NULL};
static const char *const mode_words[] = {"collective", "ps", "ps-heter", "rpc", "ps-gpu", NULL};
static const char *const backend_words[] = {
    "auto", "nccl", "gloo", "bkcl", "heter", "xccl", "flagcx", NULL};
static const char *const level_words[] = {
    "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", NULL};

#define TUNER "its tuner is a Python program inside Paddle: start such a job with Paddle's launcher"
#define TOPOLOGY                                                                                   \
    "Paddle's planner decides it, which is no part of a launcher: choose processes with "          \
    "--nproc_per_node, --devices and --rank, or start such a job with Paddle's launcher"
#define COORDINATOR "federated training needs a coordinator program that only Paddle has"

const struct options_option_row options_option_rows[OPTIONS_OPT_COUNT] = {
    [OPTIONS_OPT_AUTO_CLUSTER_CONFIG] = {"auto_cluster_config", .env = "PADDLE_AUTO_CLUSTER",
        .type = OPTIONS_OPTION_BOOL, .def = "0", .formats = F3,
        .help = "passed to children as PADDLE_AUTO_CLUSTER"},
    [OPTIONS_OPT_AUTO_PARALLEL_CONFIG] = {"auto_parallel_config",
        .env = "PADDLE_AUTO_PARALLEL_CONFIG", .formats = F3, .support = OPTIONS_BETTER,
        .note = "in a collective job the program runs once before the workers, with "
                "PADDLE_AUTO_PARALLEL_STAGE=tuner, as under Paddle's launcher; a file that is no "
                "such one is an error that names it",
        .help = "file of the automatic parallelisation, JSON; its tuner_run_mode is tuner_and_run "
                "(default), tuner_only or run_only"},
    [OPTIONS_OPT_AUTO_TUNER_JSON] = {"auto_tuner_json", .formats = F3, .support = OPTIONS_REFUSED,
        .note = TUNER, .help = "file of the automatic tuner"},
    [OPTIONS_OPT_BACKEND] = {"backend", .def = "auto", .words = backend_words, .legacy = true,
        .support = OPTIONS_BETTER,
        .note = "an unknown backend ends with exit code 2, as all errors in the command do; "
                "Paddle's launcher ends with 1",
        .help = "passed to children as PADDLE_DISTRI_BACKEND, unless auto"},
    [OPTIONS_OPT_CLUSTER_TOPO_PATH] = {"cluster_topo_path", .legacy = true,
        .support = OPTIONS_REFUSED, .note = TOPOLOGY, .help = "file of a cluster's topology"},
    [OPTIONS_OPT_COMPAT] = {"compat", .words = compat_words, .support = OPTIONS_OURS,
        .help = "the Paddle version whose log lines and files are imitated: 3 (2.4 to 3.x), 2.3, "
                "or 2.0, also called legacy; by default 3, and 2.0 where Paddle's launcher would "
                "run its legacy version"},
    [OPTIONS_OPT_COORDINATOR_NUM] = {"coordinator_num", .legacy = true, .support = OPTIONS_REFUSED,
        .note = COORDINATOR, .help = "number of coordinators"},
    [OPTIONS_OPT_COORDINATORS] = {"coordinators", .legacy = true, .support = OPTIONS_REFUSED,
        .note = COORDINATOR, .help = "endpoints of coordinators"},
    [OPTIONS_OPT_CPU_AFFINITY] = {"cpu_affinity", .def = "none", .words = affinity_words,
        .support = OPTIONS_OURS,
        .help = "spread: every child gets an equal share of this process's cores"},
    [OPTIONS_OPT_DEVICES] = {"devices", .alias = {"gpus", "npus", "xpus"},
        .old_alias = {"selected_gpus", "selected_xpus"}, .env = "PADDLE_DEVICES",
        .old_name = "gpus", .formats = ALL, .support = OPTIONS_BETTER,
        .note = "an id that is not visible gives an error message instead of a crash; ids on a "
                "machine without devices are accepted unchanged",
        .help = "devices for the children, as absolute ids joined by commas; one process each"},
    [OPTIONS_OPT_DRY_RUN] = {"dry_run", .alias = {"dry-run"}, .type = OPTIONS_OPTION_SWITCH,
        .support = OPTIONS_OURS,
        .help = "only print the processes that would be started, with their environments"},
    [OPTIONS_OPT_ELASTIC_LEVEL] = {"elastic_level", .env = "PADDLE_ELASTIC_LEVEL",
        .type = OPTIONS_OPTION_INT, .def = "-1", .min = -1, .max = 2, .formats = NEW,
        .support = OPTIONS_BETTER,
        .note =
            "2, for programs that take back a worker (paddlert.elastic): a worker that fails "
            "is started again by itself, --max_restart times on this node, and the others run on",
        .help = "-1: a change of nodes ends the job; 0: a node whose child fails ends, and the "
                "others continue without it; 1: all nodes restart"},
    [OPTIONS_OPT_ELASTIC_PRE_HOOK] = {"elastic_pre_hook", .legacy = true,
        .support = OPTIONS_REFUSED, .note = "use a wrapper script as the training script instead",
        .help = "shell command before every start"},
    [OPTIONS_OPT_ELASTIC_SERVER] = {"elastic_server", .env = "PADDLE_ELASTIC_SERVER",
        .legacy = true, .help = "etcd's host:port; the same as --master etcd://host:port"},
    [OPTIONS_OPT_ELASTIC_TIMEOUT] = {"elastic_timeout", .env = "PADDLE_ELASTIC_TIMEOUT",
        .type = OPTIONS_OPTION_INT, .def = "30", .max = MANY, .formats = NEW,
        .help = "seconds to wait for more nodes once there are MIN of them"},
    [OPTIONS_OPT_ENABLE_AUTO_MAPPING] = {"enable_auto_mapping", .type = OPTIONS_OPTION_BOOL,
        .legacy = true, .support = OPTIONS_REFUSED, .note = TOPOLOGY,
        .help = "map ranks to devices automatically"},
    [OPTIONS_OPT_ENABLE_GPU_LOG] = {"enable_gpu_log", .type = OPTIONS_OPTION_BOOL, .def = "True",
        .formats = F3, .support = OPTIONS_IGNORED,
        .note = "no {job}.gpu.log is written; a cluster's device exporter reports more",
        .help = "a table of the devices' load every 30 s"},
    [OPTIONS_OPT_FORCE] = {"force", .type = OPTIONS_OPTION_BOOL, .legacy = true,
        .support = OPTIONS_REFUSED,
        .note = "there is nothing to overwrite: bounds come from every node's --nnodes",
        .help = "overwrite the number of nodes in etcd"},
    [OPTIONS_OPT_GLOO_PORT] = {"gloo_port", .env = "PADDLE_GLOO_PORT", .type = OPTIONS_OPTION_INT,
        .def = "6767", .min = 1, .max = PORTS, .formats = NEW,
        .help = "port of gloo's rendezvous on server 0's host, with --servers and --trainers"},
    [OPTIONS_OPT_HETER_DEVICES] = {"heter_devices", .legacy = true,
        .help = "HETER_DEVICE_TYPE of heterogeneous workers, one for each stage: \"cpu;gpu\""},
    [OPTIONS_OPT_HETER_WORKER_NUM] = {"heter_worker_num", .formats = F20, .legacy = true,
        .support = OPTIONS_BETTER,
        .note = "also works together with --master: stages span all nodes",
        .help = "heterogeneous workers on this node, by stage behind the trainers: \"2;1\""},
    [OPTIONS_OPT_HETER_WORKERS] = {"heter_workers", .def = "", .formats = F20, .legacy = true,
        .help = "endpoints of all heterogeneous workers, stages between \";\""},
    [OPTIONS_OPT_HOST] = {"host", .old_alias = {"node_ip"}, .env = "POD_IP", .formats = NEW,
        .support = OPTIONS_BETTER,
        .note = "IPv6 addresses are accepted, too; other values without a dot are ignored, as in "
                "Paddle",
        .help = "this node's address"},
    [OPTIONS_OPT_HTTP_PORT] = {"http_port", .type = OPTIONS_OPTION_INT, .min = 1, .max = PORTS,
        .formats = F20, .legacy = true, .help = "port of gloo's rendezvous on server 0's host"},
    [OPTIONS_OPT_IPS] = {"ips", .old_alias = {"cluster_node_ips"}, .env = "PADDLE_IPS",
        .old_def = "127.0.0.1", .formats = F3 | F20, .support = OPTIONS_BETTER,
        .note = "a node that is not in the list is an error; Paddle treats it as the first one",
        .help = "addresses of all nodes, by rank; there is no rendezvous then"},
    [OPTIONS_OPT_JOB_ID] = {"job_id", .env = "PADDLE_JOB_ID", .def = "default", .formats = NEW,
        .support = OPTIONS_BETTER,
        .note = "default in a pod of an elastic job: PADDLE_ELASTIC_JOB_ID, so that jobs that "
                "share an etcd do not mix",
        .help = "the job's name, in logs and at the master"},
    [OPTIONS_OPT_JOIN_TIMEOUT] = {"join_timeout", .type = OPTIONS_OPTION_DURATION, .def = "15m",
        .min = 1, .support = OPTIONS_OURS,
        .help =
            "how long to wait for all nodes; the error then names the nodes that came; also how "
            "long a node whose worker failed, or whose neighbour is gone, waits for an etcd that "
            "is away"},
    [OPTIONS_OPT_LEGACY] = {"legacy", .type = OPTIONS_OPTION_BOOL, .def = "False", .formats = NEW,
        .support = OPTIONS_BETTER,
        .note = "`--legacy true` works, too; Paddle treats that word as the script",
        .help = "the same as --compat legacy"},
    [OPTIONS_OPT_LOG_DIR] = {"log_dir", .env = "PADDLE_LOG_DIR", .def = "log", .formats = ALL,
        .support = OPTIONS_BETTER,
        .note =
            "in a pod, or with several nodes, files are in a folder of this node's own in there, "
            "named after host and rank (elastic: host and a random word), and links have the usual "
            "names: nodes may share the "
            "folder; so is a second launcher's on one machine while the first one runs; \"\" "
            "works, "
            "where Paddle fails; a folder that cannot be written gives a "
            "one-line message",
        .help = "folder for the children's output; \"\": this process's own output"},
    [OPTIONS_OPT_LOG_LEVEL] = {"log_level", .env = "PADDLE_LOG_LEVEL", .def = "INFO",
        .words = level_words, .formats = NEW,
        .help = "lowest level of the launcher's own log lines"},
    [OPTIONS_OPT_LOG_MAX_SIZE] = {"log_max_size", .type = OPTIONS_OPTION_SIZE, .def = "0",
        .support = OPTIONS_OURS,
        .help = "size at which a child's log is rotated: it is renamed to {log}.1 and a new one is "
                "begun; 0: never"},
    [OPTIONS_OPT_LOG_OVERWRITE] = {"log_overwrite", .env = "PADDLE_LOG_OVERWRITE",
        .type = OPTIONS_OPTION_BOOL, .def = "False", .formats = F3,
        .help = "truncate the children's logs instead of appending to them"},
    [OPTIONS_OPT_MASTER] = {"master", .env = "PADDLE_MASTER", .formats = NEW,
        .support = OPTIONS_BETTER,
        .note = "host names and IPv6 work; the wait is limited; errors name duplicate and surplus "
                "nodes",
        .help = "address of the rendezvous: host:port, served by the first node that can, or "
                "etcd://host:port (etcds: TLS; PADDLE_ETCD_USER has name:password, PADDLE_ETCD_CA, "
                "_CERT "
                "and _KEY have files)"},
    [OPTIONS_OPT_MAX_RESTART] = {"max_restart", .env = "PADDLE_MAX_RESTART",
        .type = OPTIONS_OPTION_INT, .def = "3", .max = MANY, .formats = NEW,
        .help = "elastic jobs: maximum number of restarts"},
    [OPTIONS_OPT_NNODES] = {"nnodes", .env = "PADDLE_NNODES", .def = "1", .formats = NEW,
        .support = OPTIONS_BETTER,
        .note = "default in a pod of an elastic job: PADDLE_ELASTIC_NP, --elastic_level 1, and "
                "worker 0 as master (spec.intranet Service or DNS), else the etcd of the Service "
                "paddle-elastic-etcd",
        .help = "number of nodes: N, or MIN:MAX for an elastic job"},
    [OPTIONS_OPT_NP] = {"np", .legacy = true, .help = "the same as --nnodes"},
    [OPTIONS_OPT_NPROC_PER_NODE] = {"nproc_per_node", .env = "PADDLE_NPROC_PER_NODE",
        .type = OPTIONS_OPTION_INT, .max = 1024, .formats = ALL,
        .help = "processes on this node; by default one per device"},
    [OPTIONS_OPT_PRINT_CONFIG] = {"print_config", .type = OPTIONS_OPTION_BOOL, .legacy = true,
        .support = OPTIONS_IGNORED, .note = "the configuration is always printed",
        .help = "of the launcher of 1.x"},
    [OPTIONS_OPT_RANK] = {"rank", .env = "PADDLE_RANK", .type = OPTIONS_OPTION_INT, .def = "-1",
        .min = -1, .max = MANY, .formats = NEW,
        .help = "this node's rank; -1: assigned by the rendezvous; PADDLE_TRAINER_ID in the "
                "environment wins over the command, PADDLE_RANK over both"},
    [OPTIONS_OPT_RANK_MAPPING_PATH] = {"rank_mapping_path", .old_alias = {"rank_mapping_file"},
        .legacy = true, .support = OPTIONS_REFUSED, .note = TOPOLOGY,
        .help = "file of ranks and devices"},
    [OPTIONS_OPT_REQUIRE_TOKEN] = {"require_token", .env = "PADDLERUN_REQUIRE_TOKEN",
        .type = OPTIONS_OPTION_SWITCH, .support = OPTIONS_OURS,
        .help = "nodes and the master at host:port prove to each other that they know "
                "PADDLE_JOB_TOKEN, on all nodes or none; Paddle's own launcher cannot"},
    [OPTIONS_OPT_RUN_MODE] = {"run_mode", .env = "PADDLE_RUN_MODE", .words = mode_words,
        .formats = NEW,
        .help = "collective, ps, ps-heter or rpc; the default follows from the other options"},
    [OPTIONS_OPT_SCALE] = {"scale", .type = OPTIONS_OPTION_INT, .legacy = true,
        .support = OPTIONS_REFUSED,
        .note = "start or stop nodes between MIN and MAX; kubectl scale does it in a cluster",
        .help = "change the number of nodes in etcd"},
    [OPTIONS_OPT_SERVER_NUM] = {"server_num", .env = "PADDLE_SERVER_NUM",
        .type = OPTIONS_OPTION_INT, .max = 1024, .formats = ALL, .support = OPTIONS_BETTER,
        .note = "0 means none on this node; Paddle starts one all the same",
        .help = "parameter servers on this node"},
    [OPTIONS_OPT_SERVERS] = {"servers", .env = "PADDLE_SERVERS_ENDPOINTS", .def = "",
        .formats = ALL, .support = OPTIONS_BETTER,
        .note = "hosts are compared as a whole; only one of the two lists is an error, where "
                "Paddle ignores it",
        .help = "endpoints of all parameter servers; with --trainers: no rendezvous"},
    [OPTIONS_OPT_SILENT_TIMEOUT] = {"silent_timeout", .type = OPTIONS_OPTION_DURATION, .def = "10s",
        .min = 1, .support = OPTIONS_OURS,
        .help =
            "a node, or the master, that is connected but silent for so long is lost; the others "
            "log its silence after a second; so is one of several nodes whose launcher is stopped "
            "for longer, as by Ctrl-Z, which stops its processes until it continues"},
    [OPTIONS_OPT_SORT_IP] = {"sort_ip", .env = "PADDLE_SORT_IP", .type = OPTIONS_OPTION_BOOL,
        .def = "False", .formats = F3,
        .help = "assign the nodes' ranks in the order of their addresses"},
    [OPTIONS_OPT_START_PORT] = {"start_port", .old_alias = {"started_port"},
        .env = "PADDLE_START_PORT", .type = OPTIONS_OPTION_INT, .def = "6070", .min = 1,
        .max = PORTS, .formats = F3, .help = "first port of every node, with --ips"},
    [OPTIONS_OPT_STOP_TIMEOUT] = {"stop_timeout", .type = OPTIONS_OPTION_DURATION, .def = "25s",
        .support = OPTIONS_OURS,
        .help =
            "time between SIGTERM and SIGKILL for children; by default 25s, which is within "
            "Kubernetes' 30 s, or in a pod of paddle-operator what terminationGracePeriodSeconds "
            "leaves (PADDLERUN_STOP_TIMEOUT)"},
    [OPTIONS_OPT_TERMINATION_LOG] = {"termination_log", .def = "/dev/termination-log",
        .support = OPTIONS_OURS,
        .help = "file for the last lines of a failed child and the cause, written if it exists "
                "and is empty; Kubernetes shows them in the pod's status"},
    [OPTIONS_OPT_TRAINER_NUM] = {"trainer_num", .env = "PADDLE_TRAINER_NUM",
        .type = OPTIONS_OPTION_INT, .max = 1024, .formats = NEW, .support = OPTIONS_BETTER,
        .note = "0 means none on this node; Paddle starts one all the same",
        .help = "trainers on this node, with parameter servers"},
    [OPTIONS_OPT_TRAINERS] = {"trainers", .env = "PADDLE_TRAINERS_ENDPOINTS", .def = "",
        .formats = NEW, .support = OPTIONS_BETTER, .note = "see servers",
        .help = "endpoints of all trainers"},
    [OPTIONS_OPT_SCRIPT] = {"training_script", .type = OPTIONS_OPTION_WORDS, .formats = ALL,
        .help = "*.py is run by python3 -u: the one beside this program, else the first in PATH "
                "(PADDLERUN_PYTHON: another program); other files are run directly; run_check: "
                "Paddle's own training that tests the setup"},
    [OPTIONS_OPT_SCRIPT_ARGS] = {"training_script_args", .type = OPTIONS_OPTION_WORDS,
        .formats = ALL, .help = "all words behind the script are passed to it"},
    [OPTIONS_OPT_USE_PADDLECLOUD] = {"use_paddlecloud", .type = OPTIONS_OPTION_SWITCH,
        .legacy = true, .support = OPTIONS_IGNORED,
        .note = "PADDLE_TRAINERS, PADDLE_TRAINER_ID, POD_IP, TRAINER_PORTS_NUM and "
                "PADDLE_TRAINERS_NUM in the environment decide, as since 2.0",
        .help = "of the launcher of 1.x"},
    [OPTIONS_OPT_WITH_GLOO] = {"with_gloo", .env = "PADDLE_WITH_GLOO", .def = "1", .old_def = "0",
        .formats = NEW, .help = "0: off, 1: workers, 2: workers and servers meet through gloo"},
    [OPTIONS_OPT_WORKER_NUM] = {"worker_num", .type = OPTIONS_OPTION_INT, .max = 1024,
        .formats = F20, .legacy = true, .support = OPTIONS_BETTER,
        .note = "also with a value behind a blank and together with --master",
        .help = "the same as --trainer_num"},
    [OPTIONS_OPT_WORKERS] = {"workers", .def = "", .formats = F20, .legacy = true,
        .support = OPTIONS_BETTER,
        .note = "also with a value behind a blank and together with --master",
        .help = "the same as --trainers"},
};
