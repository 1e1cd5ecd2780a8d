#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/parse.h"
#include "runtime/launch/node/launch_internal.h"
#include "runtime/launch/node/story.h"

enum {
    DETAIL_BYTES = 3000, /* of a failed child's log */
    QUIET_MS = 5000,     /* servers whom nobody was connected to for so long are not needed */
};

/* ---- logs -------------------------------------------------------------------------------- */

static void echo_done(void *arg) {
    struct rl_launch *l = arg;
    l->echoing = false;
    rl_launch_try_finish(l);
}

static void log_lost(void *arg, const struct co_err *err) {
    struct rl_launch *l = arg;
    rl_say(&l->say, RL_SAY_WARNING, "%s: the child goes on, what it prints now is lost",
        co_err_text(err));
}

static const char *log_path(const struct rl_launch *l, size_t i) {
    return l->log[i] ? rl_childlog_path(l->log[i]) : "None";
}

static int make_dirs(const char *path, struct co_err *err) {
    CO_AUTOFREE char *dir = co_xstrdup(path);
    for (char *p = dir + 1;; p++) {
        char c = *p;
        if (c && c != '/') {
            continue;
        }
        *p = '\0';
        if (mkdir(dir, 0777) && errno != EEXIST) {
            return co_err_errno(
                err, errno, "log_dir \"%.300s\": cannot make \"%.300s\"", path, dir);
        }
        *p = c;
        if (!c) {
            return 0;
        }
    }
}

/* A job's id may have slashes, and begins the names of files. */
static int make_log_dirs(const struct rl_launch *l, struct co_err *err) {
    const char *dir = l->options->text[RL_OPT_LOG_DIR];
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, l->job.id);
    *strrchr(path, '/') = '\0';
    return *dir ? make_dirs(path, err) : 0;
}

/* Without a file a child writes to this process's own output. */
static void open_log(struct rl_launch *l, size_t i) {
    const struct rl_options *o = l->options;
    const char *dir = o->text[RL_OPT_LOG_DIR];
    if (!*dir) {
        return;
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, l->plan.process[i].log);
    const struct rl_childlog_options options = {.path = path,
        .overwrite = l->round == 1 && o->number[RL_OPT_LOG_OVERWRITE] == 1,
        .max_size = o->number[RL_OPT_LOG_MAX_SIZE],
        .lost = log_lost,
        .arg = l};
    struct co_err err = {0};
    int r = rl_childlog_open(l->loop, &options, &l->log[i], &err);
    /* fleetrun shows its first worker, the new launchers their first process. */
    bool first = l->options->format == RL_FORMAT_2_0 ? l->job.mode != RL_MODE_PS && i == 0 : i == 0;
    if (!r && first) {
        r = rl_childlog_echo(l->log[i], STDOUT_FILENO, echo_done, l, &err);
    }
    if (r) {
        rl_say(&l->say, RL_SAY_WARNING, "%s", co_err_text(&err));
    }
}

static void close_logs(struct rl_launch *l) {
    for (size_t i = 0; l->log && i < l->plan.n; i++) {
        rl_childlog_close(l->log[i]);
    }
    free(l->log);
    l->log = NULL;
}

static void say_if_full(struct rl_launch *l) {
    struct statvfs v;
    const char *dir = l->options->text[RL_OPT_LOG_DIR];
    if (*dir && statvfs(dir, &v) == 0 && v.f_bavail == 0) {
        rl_say(&l->say, RL_SAY_ERROR, "log_dir \"%s\": no space left on its disk, which may be why",
            dir);
    }
}

size_t rl_round_failed_tail(const struct rl_launch *l, char *ret, size_t size) {
    return l->failed < l->plan.n && l->log && l->log[l->failed]
               ? rl_childlog_tail(l->log[l->failed], ret, size)
               : 0;
}

void rl_round_show_failed(struct rl_launch *l) {
    char text[DETAIL_BYTES + 1];
    size_t n = rl_round_failed_tail(l, text, sizeof(text));
    if (l->failed < l->plan.n) {
        rl_story_detail(&l->say, text, n);
    }
}

/* ---- processes --------------------------------------------------------------------------- */

/* Servers and heterogeneous workers serve the trainers, and end with them. */
static bool counts(const struct rl_launch *l, size_t i) {
    return l->job.way == RL_WAY_GIVEN || l->plan.process[i].seat == RL_SEAT_TRAINER;
}

void rl_round_stop_servers(struct rl_launch *l) {
    rl_story_workers_done(&l->say, &l->job, rl_children_running(l->children));
    if (l->running) {
        rl_children_stop(l->children, rl_launch_grace(l));
    }
}

static void nobody_connected(void *arg) {
    struct rl_launch *l = arg;
    rl_say(&l->say, RL_SAY_INFO,
        "no worker has been connected to the servers of this node for %d s", QUIET_MS / 1000);
    rl_round_stop_servers(l);
}

/* Launchers that were given lists do not meet: what is left is to look who is connected. */
static void watch_connections(struct rl_launch *l, bool used) {
    CO_AUTOFREE uint16_t *ports = co_xcalloc(l->plan.n, sizeof(*ports));
    size_t n = 0;
    for (size_t i = 0; i < l->plan.n; i++) {
        const struct rl_process *p = &l->plan.process[i];
        struct co_hostport hp;
        const char *endpoint = l->plan.endpoints[p->seat].item[p->index];
        if (p->seat != RL_SEAT_TRAINER && co_parse_hostport("server", endpoint, &hp, NULL) == 0) {
            ports[n++] = hp.port;
        }
    }
    l->quiet = rl_quiet_new(l->loop, ports, n, QUIET_MS, used, nobody_connected, l);
}

/* Servers of several nodes serve everybody's workers: they stay until all of those are done. */
static void workers_done(struct rl_launch *l) {
    const bool had_workers = l->n_workers > 0;
    l->completed = true;
    if (l->job.mode != RL_MODE_PS || l->job.way == RL_WAY_GIVEN) {
        return; /* the last one has ended */
    }
    if (l->rdzv) {
        rl_rdzv_done(l->rdzv);
    } else if (l->plan.n_nodes == 1) {
        rl_round_stop_servers(l);
    } else if (rl_children_running(l->children)) {
        watch_connections(l, had_workers);
    }
}

static void failed(struct rl_launch *l, size_t i, int status) {
    char name[64], how[64], why[160];
    rl_process_name(&l->plan.process[i], name, sizeof(name));
    rl_exit_text(status, how, sizeof(how));
    (void)snprintf(why, sizeof(why), "%s: %s", name, how);
    rl_children_stop(l->children,
        rl_launch_grace(l)); /* first of all: the others wait for the one that is gone */
    rl_story_failed(&l->say, &l->job, &l->plan, i, status, log_path(l, i));
    say_if_full(l);
    l->failed = i;
    if (l->rdzv && l->job.level == 1) {
        l->code = rl_exit_code(status);
        rl_rdzv_restart(l->rdzv, why);
        return;
    }
    rl_launch_end(l, rl_exit_code(status), why);
}

static void ended(void *arg, size_t i, int status) {
    struct rl_launch *l = arg;
    if (l->log[i] && rl_childlog_finish(l->log[i])) {
        l->echoing = true;
    }
    if (l->over || l->again || l->completed || l->failed < l->plan.n) {
        return; /* told to end: how tells nothing */
    }
    if (rl_exit_code(status) != 0) {
        failed(l, i, status);
    } else if (counts(l, i) && --l->n_left == 0) {
        workers_done(l);
    }
}

static void killing(void *arg, size_t n, bool strays) {
    const struct rl_launch *l = arg;
    rl_say(&l->say, RL_SAY_WARNING, "%zu process%s%s did not end after SIGTERM: SIGKILL", n,
        n == 1 ? "" : "es", strays ? " that left their sessions" : "");
}

static void empty(void *arg, size_t n_lost) {
    struct rl_launch *l = arg;
    l->running = false;
    if (n_lost) {
        rl_say(&l->say, RL_SAY_ERROR, "%zu processes did not even end after SIGKILL", n_lost);
    }
    if (l->again && !l->over) {
        rl_rdzv_again(l->rdzv, NULL);
    } else if (l->failed < l->plan.n && l->rdzv && !l->parting && !l->over) {
        return; /* the others are being asked to start again: `changed` or `ended` comes */
    } else {
        rl_launch_end(l, l->completed ? 0 : l->code, "");
    }
}

/* The i-th of n equal shares of this process's cores; at least one core. */
static void share_cores(size_t i, size_t n, cpu_set_t *ret) {
    cpu_set_t all;
    CPU_ZERO(ret);
    if (sched_getaffinity(0, sizeof(all), &all) < 0) {
        return;
    }
    const size_t count = (size_t)CPU_COUNT(&all);
    const size_t from = i * count / n, to = (i + 1) * count / n;
    size_t k = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            if (k == from || (k > from && k < to)) {
                CPU_SET(cpu, ret);
            }
            k++;
        }
    }
}

/* This process's environment without proxies, which collective libraries stumble over, and with
 * what the plan sets. */
static void child_env(const struct rl_process *p, struct rl_env *ret) {
    static const char *const proxies[] = {"http_proxy", "https_proxy"};
    rl_env_inherit(ret, environ, true);
    for (size_t i = 0; i < CO_ARRAY_LEN(proxies); i++) {
        const char *value = rl_env_get(ret, proxies[i]);
        if (value) {
            CO_AUTOFREE char *kept = co_xasprintf("%s_original", proxies[i]);
            rl_env_set(ret, kept, value);
            rl_env_remove(ret, proxies[i]);
        }
    }
    for (size_t i = 0; i < p->set.n; i++) {
        size_t len = strcspn(p->set.item[i], "=");
        CO_AUTOFREE char *name = co_xstrndup(p->set.item[i], len);
        rl_env_set(ret, name, p->set.item[i] + len + 1);
    }
}

static int start_process(struct rl_launch *l, size_t i, int null, struct co_err *err) {
    open_log(l, i);
    struct rl_env env = {0};
    child_env(&l->plan.process[i], &env);
    cpu_set_t cores;
    share_cores(i, l->plan.n, &cores);
    const bool spread = strcmp(l->options->text[RL_OPT_CPU_AFFINITY], "spread") == 0;
    const int fd = l->log[i] ? rl_childlog_fd(l->log[i]) : -1;
    const struct rl_spawn s = {.argv = l->plan.command.item,
        .envp = env.item,
        .in = null,
        .out = fd,
        .err = fd,
        .cpus = spread ? &cores : NULL,
        .session = true};
    int r = rl_children_start(l->children, &s, err);
    if (l->log[i]) {
        rl_childlog_started(l->log[i]);
    }
    rl_env_done(&env);
    return r;
}

static void start_processes(struct rl_launch *l) {
    CO_AUTOCLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    l->log = co_xcalloc(l->plan.n, sizeof(struct rl_childlog *));
    l->running = true;
    struct co_err err = {0};
    int r = 0;
    rl_ports_release(&l->ports);
    for (size_t i = 0; i < l->plan.n && !r; i++) {
        r = start_process(l, i, null, &err);
    }
    if (r) {
        rl_launch_error(l, rl_spawn_exit_code(r), &err);
    } else {
        rl_story_running(&l->say, &l->job, &l->plan);
    }
    rl_children_started(l->children);
}

void rl_round_start(struct rl_launch *l, const struct rl_offer *offers, const char *const *values,
    size_t n, size_t self) {
    close_logs(l);
    rl_plan_done(&l->plan);
    rl_children_clear(l->children);
    CO_AUTOFREE char *scratch = co_xasprintf("%s/paddlerun-gloo-%s-%d",
        getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", l->node.pod, ++l->round);
    struct co_err err = {0};
    int r = rl_plan_make(&l->job, offers, n, self, scratch, &l->plan, &err);
    l->failed = l->plan.n;
    l->code = 0;
    if (r) {
        rl_launch_error(l, 1, &err);
        return;
    }
    l->completed = l->again = false;
    l->n_left = 0;
    for (size_t i = 0; i < l->plan.n; i++) {
        l->n_left += counts(l, i);
    }
    l->n_workers = l->n_left;
    rl_story_run(&l->say, &l->job, &l->plan);
    if (make_log_dirs(l, &err)) {
        rl_say(&l->say, RL_SAY_WARNING, "%s", co_err_text(&err));
    }
    rl_story_files(&l->say, &l->job, &l->plan, values, n);
    start_processes(l);
    if (l->n_left == 0 && !l->over) {
        workers_done(l); /* servers only: the other nodes' workers decide */
    }
}

const struct rl_children_fns rl_round_fns = {.ended = ended, .killing = killing, .empty = empty};

void rl_round_done(struct rl_launch *l) {
    rl_quiet_free(l->quiet);
    close_logs(l);
    rl_plan_done(&l->plan);
}
