/* The texts of the log lines about a job.  Their odd English is Paddle's, and programs parse it, so
 * it must stay as it is.  See log_lines.h. */
#include "runtime/launch/node/log_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/launch/job/report.h"
#include "runtime/launch/process/spawn.h"

enum { TEXT_MAX = 1 << 24 };

static bool is_old(const struct node_log *s) {
    return s->format == OPTIONS_FORMAT_2_0;
}

static void say_each_line(const struct node_log *s, enum node_log_level level, const char *text) {
    while (text && *text) {
        size_t len = strcspn(text, "\n");
        node_log(s, level, "%.*s", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

static void print_text(const struct node_log *s, const char *text) {
    node_log_out(s, text, strlen(text));
}

/* ---- the beginning ----------------------------------------------------------------------- */

static void say_notes(const struct node_log *s, const struct options_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        const char *text = strchr(l->item[i], ' ') + 1;
        bool warn = l->item[i][0] == 'W';
        node_log(s, warn ? NODE_LOG_WARNING : NODE_LOG_INFO, "%s", text);
    }
}

static void say_old_mode(const struct node_log *s, const struct job *j) {
    const struct options *o = j->options;
    const size_t n = j->node->visible.n;
    if (j->mode == JOB_MODE_PS) {
        static const enum options_option ids[] = {OPTIONS_OPT_WORKER_NUM, OPTIONS_OPT_SERVER_NUM,
            OPTIONS_OPT_HETER_WORKER_NUM, OPTIONS_OPT_SERVERS, OPTIONS_OPT_WORKERS,
            OPTIONS_OPT_HETER_WORKERS, OPTIONS_OPT_HTTP_PORT};
        CO_CLEANUP(options_list_done) struct options_list given = {0};
        for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
            if (options_option_given(o, ids[i])) {
                options_list_add_own(
                    &given, co_xasprintf("--%s", options_option_rows[ids[i]].name));
            }
        }
        CO_AUTOFREE char *list = options_list_python(given.item, given.n);
        node_log_at(s, NODE_LOG_INFO, "launch.py:298",
            "Run parameter-sever mode. pserver arguments:%s, cuda count:%zu", list, n);
        return;
    }
    if (j->devices.n && !options_option_given(o, OPTIONS_OPT_IPS)) {
        node_log_at(s, NODE_LOG_WARNING, "launch.py:316",
            "Not found distinct arguments and compiled with cuda. Default use collective mode");
    }
    print_text(s, j->devices.n ? "launch train in GPU mode\n" : "launch train in CPU mode\n");
}

void node_log_lines_begin(const struct node_log *s, const struct job *j) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    (void)!job_report_configuration(j, &b, NULL);
    say_notes(s, &j->notes);
    if (is_old(s)) {
        print_text(s, "-----------  Configuration Arguments -----------\n");
        print_text(s, b.data);
        print_text(s, "------------------------------------------------\n");
        say_old_mode(s, j);
        return;
    }
    node_log(s, NODE_LOG_INFO, "-----------  Configuration  ----------------------");
    say_each_line(s, NODE_LOG_INFO, b.data);
    node_log(s, NODE_LOG_INFO, "--------------------------------------------------");
}

void node_log_lines_job(const struct node_log *s, const struct job *j, size_t n_nodes) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    if (!is_old(s) && job_report_job(j, n_nodes, &b, NULL) == 0) {
        node_log(s, NODE_LOG_INFO, "%s", b.data);
    }
}

/* ---- processes --------------------------------------------------------------------------- */

/* fleetrun's names of the processes, and the places in its source that its log lines show. */
static const struct {
    const char *name, *where;
} old_roles[JOB_ROLE_COUNT] = {
    [JOB_ROLE_SERVER] = {"server ", "launch_utils.py:973"},
    [JOB_ROLE_TRAINER] = {"worker ", "launch_utils.py:1041"},
    [JOB_ROLE_HETER] = {"heter_worker ", "launch_utils.py:1109"},
};

static void say_old_tables(
    const struct node_log *s, const struct job *j, const struct job_plan *p) {
    const bool ps = j->mode == JOB_MODE_PS;
    for (size_t i = 0; i < p->n; i++) {
        if (p->process[i].local != 0) {
            continue;
        }
        enum job_role role = p->process[i].role;
        CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
        (void)!job_report_table(&p->process[i], &b, NULL);
        node_log_at(s, NODE_LOG_INFO, ps ? old_roles[role].where : "launch_utils.py:472",
            "Local %sstart %zu processes. First process distributed environment info (Only For "
            "Debug): \n%s",
            ps ? old_roles[role].name : "", j->n[role], b.data ? b.data : "");
    }
}

void node_log_lines_run(const struct node_log *s, const struct job *j, const struct job_plan *p) {
    if (is_old(s)) {
        say_old_tables(s, j, p);
    } else {
        node_log(s, NODE_LOG_INFO, "Run Pod: %s, replicas %zu, status ready", j->node->pod, p->n);
    }
}

void node_log_lines_running(
    const struct node_log *s, const struct job *j, const struct job_plan *p) {
    const char *dir = p->log_dir;
    if (!is_old(s)) {
        node_log(
            s, NODE_LOG_INFO, "Watching Pod: %s, replicas %zu, status running", j->node->pod, p->n);
    } else if (j->mode == JOB_MODE_PS) {
        node_log_at(s, NODE_LOG_INFO, "launch_utils.py:903",
            "Please check servers, workers and heter_worker logs in %s/workerlog.*, "
            "%s/serverlog.* and %s/heterlog.*",
            dir, dir, dir);
    } else {
        node_log_at(s, NODE_LOG_INFO, "launch_utils.py:475",
            "details abouts PADDLE_TRAINER_ENDPOINTS can be found in %s/endpoints.log, and detail "
            "running logs maybe found in %s/workerlog.0",
            dir, dir);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

void node_log_lines_failed(const struct node_log *s, const struct job *j, const struct job_plan *p,
    size_t i, int status, const char *log) {
    char how[64], name[64];
    proc_exit_text(status, how, sizeof(how));
    job_process_name(&p->process[i], name, sizeof(name));
    if (is_old(s)) {
        /* Paddle calls servers trainers here, too, which sends people to the wrong log. */
        static const char *const kinds[JOB_ROLE_COUNT] = {"server", "trainer", "heter worker"};
        const enum job_role role = p->process[i].role;
        node_log_at(s, NODE_LOG_ERROR, "launch_utils.py:604",
            "ABORT!!! Out of all %zu %ss, the %s process with rank=[%zu] was aborted. "
            "Please check its log. (%s: %s, log %s)",
            p->endpoints[role].n, kinds[role], kinds[role], p->process[i].index, name, how, log);
        return;
    }
    CO_AUTOFREE char *command = options_list_python(p->command.item, p->command.n);
    (void)j;
    node_log(s, NODE_LOG_INFO, "Pod failed");
    node_log(s, NODE_LOG_ERROR,
        "Container failed !!!\nContainer rank %zu status failed cmd %s code %d log %s\n%s: %s", i,
        command, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), log, name, how);
}

void node_log_lines_detail(const struct node_log *s, const char *text, size_t len) {
    if (!is_old(s)) {
        node_log(s, NODE_LOG_INFO,
            "------------------------- ERROR LOG DETAIL -------------------------");
    }
    node_log_out(s, text, len);
    if (len && text[len - 1] != '\n') {
        node_log_out(s, "\n", 1);
    }
}

void node_log_lines_workers_done(const struct node_log *s, const struct job *j, size_t n_servers) {
    if (j->mode == JOB_MODE_PS && is_old(s)) {
        node_log_at(s, NODE_LOG_INFO, "launch_utils.py:914",
            "all workers exit, going to finish parameter server and heter_worker.");
    } else if (j->mode == JOB_MODE_PS && n_servers) {
        node_log(s, NODE_LOG_INFO, "all workers exit, going to finish parameter server");
    }
}

void node_log_lines_end(const struct node_log *s, const struct job *j, int code) {
    const bool completed = code == 0;
    if (!is_old(s)) {
        if (completed) {
            node_log(s, NODE_LOG_INFO, "Pod completed");
        }
        node_log(s, NODE_LOG_INFO, "Exit code %d", code);
    } else if (completed && j->mode == JOB_MODE_PS) {
        if (j->n[JOB_ROLE_HETER]) {
            node_log_at(s, NODE_LOG_INFO, "launch_utils.py:920", "all heter_worker are killed");
        }
        node_log_at(s, NODE_LOG_INFO, "launch_utils.py:926", "all parameter server are killed");
    } else if (completed) {
        node_log_at(s, NODE_LOG_INFO, "launch.py:436", "Local processes completed.");
    }
}

/* ---- files ------------------------------------------------------------------------------- */

static void write_file(const struct node_log *s, const struct job_plan *p, const char *name,
    bool append, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", p->log_dir, name);
    CO_AUTOCLOSE int fd = -1;
    struct co_err err = {0};
    if (co_file_open_log(path, append ? O_APPEND : O_TRUNC, 0644, &fd, &err)) {
        node_log(s, NODE_LOG_WARNING, "%s", co_err_text(&err));
        return;
    }
    ssize_t n = write(fd, text, strlen(text));
    if (n < 0 || (size_t)n < strlen(text)) {
        node_log(s, NODE_LOG_WARNING, "cannot write \"%s\": %s", path,
            n < 0 ? strerror(errno) : "no space left for the whole");
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_env_file(
    const struct node_log *s, const struct job *j, const struct job_plan *p, size_t i) {
    const struct job_env *set = &p->process[i].set;
    CO_AUTOFREE char **sorted = co_xcalloc(set->n + 1, sizeof(*sorted));
    memcpy(sorted, set->item, set->n * sizeof(*sorted));
    qsort(sorted, set->n, sizeof(*sorted), by_text);
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    for (size_t k = 0; k < set->n; k++) {
        (void)!co_buf_addf(&b, NULL, "%s\n", sorted[k]);
    }
    CO_AUTOFREE char *name = co_xasprintf("envlog.%zu", i);
    write_file(
        s, p, name, j->options->number[OPTIONS_OPT_LOG_OVERWRITE] != 1, b.data ? b.data : "");
}

static void write_endpoints_file(const struct node_log *s, const struct job_plan *p) {
    CO_AUTOFREE char *lines = options_list_join(&p->endpoints[JOB_ROLE_TRAINER], "\n");
    CO_AUTOFREE char *text = co_xasprintf("PADDLE_TRAINER_ENDPOINTS: \n%s\n", lines);
    write_file(s, p, "endpoints.log", false, text);
}

static void write_pod_file(const struct node_log *s, const struct job *j, const struct job_plan *p,
    const char *const *values, size_t n) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    for (size_t i = 0; i < n; i++) {
        (void)!co_buf_addf(&b, NULL, "%s%s", i ? ", " : "[", values[i]);
    }
    (void)!co_buf_adds(&b, n ? "]\n" : "[]\n", NULL);
    CO_AUTOFREE char *id = job_id_in_paths(j);
    CO_AUTOFREE char *name = co_xasprintf("%s.%s.log", id, j->node->pod);
    write_file(s, p, name, true, b.data);
}

void node_log_lines_files(const struct node_log *s, const struct job *j, const struct job_plan *p,
    const char *const *values, size_t n) {
    if (!*p->log_dir) {
        return;
    }
    if (is_old(s)) {
        if (j->mode == JOB_MODE_COLLECTIVE) {
            write_endpoints_file(s, p);
        }
        return;
    }
    write_pod_file(s, j, p, values, n);
    for (size_t i = 0; s->format == OPTIONS_FORMAT_3 && i < p->n; i++) {
        write_env_file(s, j, p, i);
    }
}
