/* The table of torchrun's options and their translation.  See torchrun_words.h. */
#include "runtime/launch/options/torchrun_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/parse.h"

enum {
    NAME_MAX_LEN = 32,
    C10D_PORT = 29400,
    STATIC_PORT = 29500,
    ETCD_PORT = 2379,
    NODES = 100000
};

enum verdict {
    TAKEN,   /* to one of launch's options, or decides about several */
    IGNORED, /* there is nothing to do */
    REFUSED,
};

static const struct {
    const char *name;   /* with dashes */
    const char *letter; /* NULL: none */
    const char *value;  /* NULL: it is a switch */
    enum verdict verdict;
    const char *here; /* launch's option; "": see the text */
    const char *text; /* what it means here, or what to write instead */
} rows[OPTIONS_TORCHRUN_COUNT] = {
    [OPTIONS_TORCHRUN_NNODES] = {"nnodes", NULL, "N|MIN:MAX", TAKEN, "--nnodes",
        "number of nodes, 1 by default; of a range, nodes may come and go"},
    [OPTIONS_TORCHRUN_NPROC] = {"nproc-per-node", NULL, "N|gpu|xpu|auto", TAKEN, "--nproc_per_node",
        "processes on this node, 1 by default; gpu, xpu, auto: one for each device, 1 where there "
        "is none"},
    [OPTIONS_TORCHRUN_NODE_RANK] = {"node-rank", NULL, "N", TAKEN, "--rank",
        "this node's rank where the number of nodes is fixed; else the rendezvous assigns it"},
    [OPTIONS_TORCHRUN_BACKEND] = {"rdzv-backend", NULL, "static|c10d|etcd|etcd-v2", TAKEN, "",
        "static and c10d: launchers meet at the endpoint, and the first node that can serves it; "
        "etcd, etcd-v2: the endpoint is an etcd, of API version 3"},
    [OPTIONS_TORCHRUN_ENDPOINT] = {"rdzv-endpoint", NULL, "HOST[:PORT]", TAKEN, "--master",
        "where the nodes meet; one node needs none"},
    [OPTIONS_TORCHRUN_ID] = {"rdzv-id", NULL, "TEXT", TAKEN, "--job_id", "the job's name"},
    [OPTIONS_TORCHRUN_CONF] = {"rdzv-conf", NULL, "TEXT", REFUSED, "",
        "write paddlerun launch with --join_timeout and --elastic_timeout"},
    [OPTIONS_TORCHRUN_STANDALONE] = {"standalone", NULL, NULL, TAKEN, "",
        "one node; what is said about a rendezvous does not count"},
    [OPTIONS_TORCHRUN_MASTER_ADDR] = {"master-addr", NULL, "HOST", TAKEN, "--master",
        "the same as --rdzv-endpoint, with --master-port"},
    [OPTIONS_TORCHRUN_MASTER_PORT] = {"master-port", NULL, "N", TAKEN, "--master",
        "29500 by default; MASTER_PORT of the processes is a free port"},
    [OPTIONS_TORCHRUN_LOCAL_ADDR] = {"local-addr", NULL, "ADDRESS", TAKEN, "--host",
        "this node's address"},
    [OPTIONS_TORCHRUN_MAX_RESTARTS] = {"max-restarts", NULL, "N", TAKEN, "--max_restart",
        "how often all processes are started again after a failure, 0 by default"},
    [OPTIONS_TORCHRUN_MODULE] = {"module", "m", NULL, TAKEN, "", "the script is a Python module"},
    [OPTIONS_TORCHRUN_NO_PYTHON] = {"no-python", NULL, NULL, TAKEN, "",
        "the script is run as it is; a file *.py by Python all the same"},
    [OPTIONS_TORCHRUN_RUN_PATH] = {"run-path", NULL, NULL, IGNORED, "",
        "Python runs the script, as without it"},
    [OPTIONS_TORCHRUN_LOG_DIR] = {"log-dir", NULL, "DIR", TAKEN, "--log_dir",
        "folder for the output of all processes; that of the first is shown, too"},
    [OPTIONS_TORCHRUN_REDIRECTS] = {"redirects", "r", "0|3", TAKEN, "--log_dir",
        "3: output goes to files, in the folder log if no other is named"},
    [OPTIONS_TORCHRUN_TEE] = {"tee", "t", "0|3", TAKEN, "--log_dir", "the same as --redirects"},
    [OPTIONS_TORCHRUN_SHUTDOWN_TIMEOUT] = {"shutdown-timeout", NULL, "SECONDS", TAKEN,
        "--stop_timeout", "time between SIGTERM and SIGKILL for processes, 25 by default"},
    [OPTIONS_TORCHRUN_ROLE] = {"role", NULL, "TEXT", IGNORED, "",
        "ROLE_NAME and the others of a role are not set"},
    [OPTIONS_TORCHRUN_MONITOR_INTERVAL] = {"monitor-interval", NULL, "SECONDS", IGNORED, "",
        "the end of a process is seen at once"},
    [OPTIONS_TORCHRUN_START_METHOD] = {"start-method", NULL, "spawn|fork|forkserver", IGNORED, "",
        "scripts are always started as new programs"},
    [OPTIONS_TORCHRUN_EVENT_LOG_HANDLER] = {"event-log-handler", NULL, "NAME", REFUSED, "",
        "leave it out: there are no handlers here, the launcher's log says what happens"},
    [OPTIONS_TORCHRUN_LINE_PREFIX] = {"log-line-prefix-template", NULL, "TEXT", REFUSED, "",
        "leave it out: write --log-dir DIR, and each process has a file"},
    [OPTIONS_TORCHRUN_RANKS_FILTER] = {"local-ranks-filter", NULL, "N,...", REFUSED, "",
        "leave it out: with --log-dir only the first process's output is shown"},
    [OPTIONS_TORCHRUN_STDOUT_FILTERS] = {"duplicate-stdout-filters", NULL, "TEXT", REFUSED, "",
        "leave it out: search the files of --log-dir"},
    [OPTIONS_TORCHRUN_STDERR_FILTERS] = {"duplicate-stderr-filters", NULL, "TEXT", REFUSED, "",
        "leave it out: search the files of --log-dir"},
    [OPTIONS_TORCHRUN_LOGS_SPECS] = {"logs-specs", NULL, "NAME", REFUSED, "",
        "leave it out: --log-dir is the only kind of log here"},
    [OPTIONS_TORCHRUN_NUMA_BINDING] = {"numa-binding", NULL, "MODE", REFUSED, "",
        "write paddlerun launch with --cpu_affinity spread"},
    [OPTIONS_TORCHRUN_SIGNALS] = {"signals-to-handle", NULL, "NAME,...", IGNORED, "",
        "SIGTERM, SIGINT, SIGHUP and SIGQUIT end the job; SIGUSR1 and SIGUSR2 are forwarded; "
        "SIGTSTP "
        "(Ctrl-Z) stops launcher and processes until SIGCONT"},
    [OPTIONS_TORCHRUN_VIRTUAL_RANK] = {"virtual-local-rank", NULL, NULL, REFUSED, "",
        "leave it out: each process chooses its device by LOCAL_RANK"},
    [OPTIONS_TORCHRUN_COMPLETION] = {"print-completion", NULL, "SHELL", REFUSED, "",
        "write paddlerun docs bash or paddlerun docs zsh"},
    [OPTIONS_TORCHRUN_DRY_RUN] = {"dry-run", NULL, NULL, TAKEN, "--dry_run",
        "only print the processes that would be started; torchrun has no such option"},
};

size_t options_torchrun_flags(
    struct options_torchrun_given *to, struct co_flag ret[OPTIONS_TORCHRUN_FLAGS]) {
    static char underscored[OPTIONS_TORCHRUN_COUNT][NAME_MAX_LEN];
    size_t n = 0;
    for (size_t i = 0; i < OPTIONS_TORCHRUN_COUNT; i++) {
        (void)snprintf(underscored[i], NAME_MAX_LEN, "%s", rows[i].name);
        for (char *p = underscored[i]; (p = strchr(p, '-')); p++) {
            *p = '_';
        }
        const bool two = strcmp(underscored[i], rows[i].name) != 0;
        const char *const names[] = {rows[i].name, two ? underscored[i] : NULL, rows[i].letter};
        for (size_t k = 0; k < CO_ARRAY_LEN(names); k++) {
            if (names[k]) {
                ret[n++] = (struct co_flag){.name = names[k],
                    .type = rows[i].value ? CO_FLAG_STR : CO_FLAG_BOOL,
                    .value = rows[i].value ? (void *)&to->text[i] : (void *)&to->on[i],
                    .help = rows[i].text,
                    .metavar = rows[i].value && !strchr(rows[i].value, '|') ? rows[i].value : NULL,
                    .hidden = k > 0 || rows[i].verdict == REFUSED};
            }
        }
    }
    return n;
}

bool options_torchrun_knows(const char *word, size_t len) {
    CO_AUTOFREE char *dashed = co_xstrndup(word, len);
    for (char *p = dashed; (p = strchr(p, '_')); p++) {
        *p = '-';
    }
    for (size_t i = 0; i < OPTIONS_TORCHRUN_COUNT; i++) {
        if (strcmp(rows[i].name, dashed) == 0) {
            return true;
        }
    }
    return false;
}

static bool has(const struct options_torchrun_given *g, enum options_torchrun id) {
    return (g->text[id] && *g->text[id]) || g->on[id];
}

static int number(const struct options_torchrun_given *g, enum options_torchrun id, int64_t min,
    int64_t max, int64_t *ret, struct co_err *err) {
    CO_AUTOFREE char *what = co_xasprintf("--%s", rows[id].name);
    return has(g, id) ? co_parse_i64(what, g->text[id], min, max, ret, err) : 0;
}

/* "--name value", the value in the same word, as it may begin with a dash. */
static void add(struct options_list *to, const char *name, const char *value) {
    options_list_add_own(to, co_xasprintf("%s=%s", name, value));
}

static void add_number(struct options_list *to, const char *name, int64_t n) {
    options_list_add_own(to, co_xasprintf("%s=%" PRId64, name, n));
}

static int refuse(const struct options_torchrun_given *g, struct co_err *err) {
    for (size_t i = 0; i < OPTIONS_TORCHRUN_COUNT; i++) {
        if (rows[i].verdict == REFUSED && has(g, (enum options_torchrun)i)) {
            return co_err_set(
                err, CO_UNSUPPORTED, "--%s is not known here: %s", rows[i].name, rows[i].text);
        }
    }
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct nodes {
    int64_t min, max;
};

static int read_nodes(
    const struct options_torchrun_given *g, struct nodes *ret, struct co_err *err) {
    const char *text = has(g, OPTIONS_TORCHRUN_NNODES) ? g->text[OPTIONS_TORCHRUN_NNODES] : "1";
    const char *colon = strchr(text, ':');
    CO_AUTOFREE char *min = co_xstrndup(text, colon ? (size_t)(colon - text) : strlen(text));
    struct nodes n = {.min = 0};
    if (co_parse_i64("", min, 1, NODES, &n.min, NULL) ||
        co_parse_i64("", colon ? colon + 1 : min, 1, NODES, &n.max, NULL)) {
        return co_err_set(
            err, CO_INVALID, "--nnodes is \"%.100s\", expected N or MIN:MAX, as 2 or 1:4", text);
    }
    if (n.min > n.max) {
        return co_err_set(err, CO_INVALID,
            "--nnodes is \"%.100s\": MIN %" PRId64 " is above MAX %" PRId64, text, n.min, n.max);
    }
    if (g->on[OPTIONS_TORCHRUN_STANDALONE] && n.max > 1) {
        return co_err_set(err, CO_INVALID,
            "--standalone is for one node, and --nnodes is \"%.100s\": write --rdzv-endpoint "
            "HOST:PORT instead of it",
            text);
    }
    *ret = n;
    return 0;
}

/* Appends the port where the endpoint has none. */
static char *with_port(const char *endpoint, int64_t port) {
    const char *bracket = strrchr(endpoint, ']');
    const char *colon = strchr(bracket ? bracket : endpoint, ':');
    const bool bare6 = !bracket && colon && strchr(colon + 1, ':');
    return bare6   ? co_xasprintf("[%s]:%" PRId64, endpoint, port)
           : colon ? co_xstrdup(endpoint)
                   : co_xasprintf("%s:%" PRId64, endpoint, port);
}

static int add_master(
    const struct options_torchrun_given *g, struct options_list *to, struct co_err *err) {
    const char *backend = g->text[OPTIONS_TORCHRUN_BACKEND];
    const char *endpoint = g->text[OPTIONS_TORCHRUN_ENDPOINT];
    const bool fixed = !*backend || strcmp(backend, "static") == 0;
    const bool etcd = strncmp(backend, "etcd", 4) == 0;
    if (!*endpoint && !fixed) {
        return co_err_set(err, CO_INVALID,
            "--rdzv-backend %s needs --rdzv-endpoint HOST:PORT, where the nodes meet", backend);
    }
    int64_t port = STATIC_PORT;
    CO_TRY(number(g, OPTIONS_TORCHRUN_MASTER_PORT, 1, UINT16_MAX, &port, err));
    const char *addr = g->text[OPTIONS_TORCHRUN_MASTER_ADDR];
    CO_AUTOFREE char *at = *endpoint ? with_port(endpoint, etcd    ? ETCD_PORT
                                                           : fixed ? STATIC_PORT
                                                                   : C10D_PORT)
                                     : with_port(*addr ? addr : "127.0.0.1", port);
    struct co_hostport hp;
    if (co_parse_hostport("", at, &hp, NULL) || !*hp.host) {
        return co_err_set(err, CO_INVALID,
            "--%s is \"%.100s\", expected %s, without http:// (an IPv6 address in brackets: "
            "[::1]:29400)",
            *endpoint ? "rdzv-endpoint" : "master-addr", *endpoint ? endpoint : addr,
            *endpoint ? "HOST or HOST:PORT" : "HOST");
    }
    if (!hp.port) {
        return co_err_set(err, CO_INVALID,
            "--rdzv-endpoint is \"%.100s\", and other nodes must know its port: write one from 1 "
            "to 65535",
            endpoint);
    }
    options_list_add_own(to, co_xasprintf("--master=%s%s", etcd ? "etcd://" : "", at));
    return 0;
}

static int check_backend(const struct options_torchrun_given *g, struct co_err *err) {
    static const char *const known[] = {"", "static", "c10d", "etcd", "etcd-v2"};
    const char *backend = g->text[OPTIONS_TORCHRUN_BACKEND];
    for (size_t i = 0; i < CO_ARRAY_LEN(known); i++) {
        if (strcmp(backend, known[i]) == 0) {
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID,
        "--rdzv-backend is \"%.100s\", expected one of static, c10d, etcd, etcd-v2", backend);
}

/* Processes are started again only where launchers meet, as all nodes have to do so together. */
static int add_nodes(const struct options_torchrun_given *g,
    const struct options_torchrun_place *at, struct options_list *to, struct co_err *err) {
    struct nodes n;
    int64_t rank = -1, restarts = 0;
    CO_TRY(check_backend(g, err));
    CO_TRY(read_nodes(g, &n, err));
    CO_TRY(number(g, OPTIONS_TORCHRUN_NODE_RANK, 0, NODES, &rank, err));
    CO_TRY(number(g, OPTIONS_TORCHRUN_MAX_RESTARTS, 0, NODES, &restarts, err));
    const bool range = n.min < n.max, alone = n.max == 1;
    if (!alone) {
        CO_TRY(add_master(g, to, err));
        options_list_add_own(to, range ? co_xasprintf("--nnodes=%" PRId64 ":%" PRId64, n.min, n.max)
                                       : co_xasprintf("--nnodes=%" PRId64, n.max));
        if (!range && rank >= 0) {
            add_number(to, "--rank", rank);
        }
    } else if (restarts > 0 && at->port) {
        add(to, "--nnodes", "1:1");
        options_list_add_own(to, co_xasprintf("--master=127.0.0.1:%u", (unsigned)at->port));
    }
    if (range || restarts > 0) {
        add_number(to, "--elastic_level", 1);
    }
    add_number(to, "--max_restart", restarts);
    return 0;
}

bool options_torchrun_wants_port(const struct options_torchrun_given *g, bool inside) {
    struct nodes n;
    int64_t restarts = 0;
    return !inside && read_nodes(g, &n, NULL) == 0 && n.max == 1 &&
           number(g, OPTIONS_TORCHRUN_MAX_RESTARTS, 0, NODES, &restarts, NULL) == 0 && restarts > 0;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* The word says one for each device, launch's default. */
static bool is_by_device(const char *text) {
    return strcmp(text, "gpu") == 0 || strcmp(text, "xpu") == 0 || strcmp(text, "auto") == 0;
}

static int add_processes(
    const struct options_torchrun_given *g, struct options_list *to, struct co_err *err) {
    const char *text = g->text[OPTIONS_TORCHRUN_NPROC];
    int64_t n = 1;
    if (is_by_device(text)) {
        return 0;
    }
    if (*text && co_parse_i64("", text, 1, 1024, &n, NULL)) {
        return co_err_set(err, CO_INVALID,
            "--nproc-per-node is \"%.100s\", expected a number from 1 to 1024, gpu, xpu or auto",
            text);
    }
    add_number(to, "--nproc_per_node", n);
    return 0;
}

bool options_torchrun_several(const struct options_torchrun_given *g) {
    const char *text = g->text[OPTIONS_TORCHRUN_NPROC];
    return *text && strcmp(text, "1") != 0 && !is_by_device(text);
}

/* Without a folder all output is this process's, as torchrun's. */
static int add_logs(
    const struct options_torchrun_given *g, struct options_list *to, struct co_err *err) {
    static const enum options_torchrun ids[] = {OPTIONS_TORCHRUN_REDIRECTS, OPTIONS_TORCHRUN_TEE};
    bool files = has(g, OPTIONS_TORCHRUN_LOG_DIR);
    for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
        const char *text = g->text[ids[i]];
        if (*text && strcmp(text, "0") != 0 && strcmp(text, "3") != 0) {
            return co_err_set(err, CO_INVALID,
                "--%s is \"%.100s\", expected 0 or 3: stdout and stderr of a process go to one "
                "file, and those of all processes do or none",
                rows[ids[i]].name, text);
        }
        files |= strcmp(text, "3") == 0;
    }
    const char *dir = g->text[OPTIONS_TORCHRUN_LOG_DIR];
    add(to, "--log_dir", !files ? "" : *dir ? dir : "log");
    return 0;
}

static int add_script(const struct options_torchrun_given *g,
    const struct options_torchrun_place *at, struct options_list *to, struct co_err *err) {
    if (g->n_script == 0) {
        return co_err_set(
            err, CO_INVALID, "no training script, expected: [options] SCRIPT [its arguments]");
    }
    if (g->on[OPTIONS_TORCHRUN_MODULE] && g->on[OPTIONS_TORCHRUN_NO_PYTHON]) {
        return co_err_set(err, CO_INVALID, "--module and --no-python exclude each other");
    }
    if (!g->on[OPTIONS_TORCHRUN_NO_PYTHON]) { /* whatever the script's name ends with */
        options_list_add(to, at->python);
        options_list_add(to, "-u");
    }
    if (g->on[OPTIONS_TORCHRUN_MODULE]) {
        options_list_add(to, "-m");
    }
    for (int i = 0; i < g->n_script; i++) {
        options_list_add(to, g->script[i]);
    }
    return 0;
}

int options_torchrun_words(const struct options_torchrun_given *g,
    const struct options_torchrun_place *at, struct options_list *ret, struct co_err *err) {
    int64_t seconds = -1;
    CO_TRY(refuse(g, err));
    CO_TRY(number(g, OPTIONS_TORCHRUN_SHUTDOWN_TIMEOUT, 0, INT32_MAX, &seconds, err));
    options_list_add(ret, "launch");
    options_list_add(
        ret, "--log_level=WARNING"); /* torchrun says nothing of a training that runs */
    CO_TRY(add_processes(g, ret, err));
    CO_TRY(add_nodes(g, at, ret, err));
    CO_TRY(add_logs(g, ret, err));
    if (has(g, OPTIONS_TORCHRUN_ID)) {
        add(ret, "--job_id", g->text[OPTIONS_TORCHRUN_ID]);
    }
    if (has(g, OPTIONS_TORCHRUN_LOCAL_ADDR)) {
        add(ret, "--host", g->text[OPTIONS_TORCHRUN_LOCAL_ADDR]);
    }
    if (seconds >= 0) {
        add_number(ret, "--stop_timeout", seconds);
    }
    if (g->on[OPTIONS_TORCHRUN_DRY_RUN]) {
        options_list_add(ret, "--dry_run");
    }
    return add_script(g, at, ret, err);
}

/* ---- the page -------------------------------------------------------------------------------- */

int options_torchrun_markdown(struct co_buf *ret, struct co_err *err) {
    static const char *const words[] = {
        [TAKEN] = "taken", [IGNORED] = "no effect", [REFUSED] = "refused"};
    CO_TRY(co_buf_adds(ret,
        "| torchrun's option | value | here | of `paddlerun launch` | meaning |\n"
        "| --- | --- | --- | --- | --- |\n",
        err));
    for (size_t i = 0; i < OPTIONS_TORCHRUN_COUNT; i++) {
        CO_TRY(co_buf_addf(ret, err, "| `--%s`", rows[i].name));
        CO_TRY(rows[i].letter ? co_buf_addf(ret, err, ", `-%s` |", rows[i].letter)
                              : co_buf_adds(ret, " |", err));
        for (const char *p = rows[i].value ? rows[i].value : ""; *p;) {
            const size_t len = strcspn(p, "|");
            CO_TRY(co_buf_addf(ret, err, "%s%.*s", p == rows[i].value ? " " : ", ", (int)len, p));
            p += len + (p[len] == '|');
        }
        const char *code = *rows[i].here ? "`" : "";
        CO_TRY(co_buf_addf(
            ret, err, " | %s | %s%s%s", words[rows[i].verdict], code, rows[i].here, code));
        CO_TRY(co_buf_addf(ret, err, " | %s |\n", rows[i].text));
    }
    return 0;
}
