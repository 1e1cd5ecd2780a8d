/* The texts of each launcher that is imitated, and the files beside the children's logs. */
#include "runtime/launch/node/log_lines.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/folder_testing.h"
#include "runtime/launch/node/node_testing.h"

enum { TEXT = 1 << 16, EXITED = 8 /* bits below an exit code in a status */ };

/* ---- what one function writes -------------------------------------------------------------- */

enum event { JOB, RUN, RUNNING, FAILED, DETAIL, WORKERS_DONE, END };

static void say(
    enum event e, const struct node_log *s, const struct job *j, const struct job_plan *p, int n) {
    switch (e) {
    case JOB:
        node_log_lines_job(s, j, (size_t)n);
        break;
    case RUN:
        node_log_lines_run(s, j, p);
        break;
    case RUNNING:
        node_log_lines_running(s, j, p);
        break;
    case FAILED:
        node_log_lines_failed(s, j, p, 0, n, "log/workerlog.0");
        break;
    case DETAIL:
        node_log_lines_detail(s, "the end", (size_t)n);
        break;
    case WORKERS_DONE:
        node_log_lines_workers_done(s, j, (size_t)n);
        break;
    case END:
        node_log_lines_end(s, j, n);
        break;
    }
}

/* Without dates: "LAUNCH INFO 2022-05-18 11:53:09,773 text" is "LAUNCH INFO text". */
static void strip_dates(char *text) {
    static const char shape[] = "0000-00-00 00:00:00,000 ";
    for (char *p = text; *p; p++) {
        size_t i = 0;
        while (i < sizeof(shape) - 1 && p[i] &&
               (shape[i] == '0' ? p[i] >= '0' && p[i] <= '9' : p[i] == shape[i])) {
            i++;
        }
        if (i == sizeof(shape) - 1) {
            memmove(p, p + i, strlen(p + i) + 1);
        }
    }
}

#define OLD "--compat=2.0"
#define PS "--server_num=1", "--trainer_num=2"
#define INFO "LAUNCH INFO "

static const struct {
    const char *words[5];
    enum event event;
    int n; /* nodes, a status, bytes, servers or an exit code */
    const char *text;
} rows[] = {
    {{0}, JOB, 0, INFO "Job: default, mode collective, replicas 1[1:1], elastic False\n"},
    {{"--nnodes=2:4", "--master=a:1"}, JOB, 0,
        INFO "Job: default, mode collective, replicas 4[2:4], elastic True\n"},
    {{"--nnodes=2:4", "--master=a:1"}, JOB, 3,
        INFO "Job: default, mode collective, replicas 3[2:4], elastic True\n"},
    {{"--job_id=a b", PS}, JOB, 0, INFO "Job: a b, mode ps, replicas 1[1:1], elastic False\n"},
    {{OLD}, JOB, 0, ""},
    {{"--nproc_per_node=2"}, RUN, 0, INFO "Run Pod: abcdef, replicas 2, status ready\n"},
    {{PS}, RUNNING, 0, INFO "Watching Pod: abcdef, replicas 3, status running\n"},
    {{OLD}, RUNNING, 0,
        "INFO launch_utils.py:475] details abouts PADDLE_TRAINER_ENDPOINTS can be found in "
        "/endpoints.log, and detail running logs maybe found in /workerlog.0\n"},
    {{OLD, PS}, RUNNING, 0,
        "INFO launch_utils.py:903] Please check servers, workers and heter_worker logs in "
        "/workerlog.*, /serverlog.* and /heterlog.*\n"},
    {{0}, FAILED, 3 << EXITED,
        INFO "Pod failed\nLAUNCH ERROR Container failed !!!\nContainer rank 0 status failed cmd "
             "['train'] code 3 log log/workerlog.0\nworker 0: exit code 3\n"},
    {{0}, FAILED, SIGKILL,
        INFO "Pod failed\nLAUNCH ERROR Container failed !!!\nContainer rank 0 status failed cmd "
             "['train'] code -9 log log/workerlog.0\nworker 0: killed by SIGKILL\n"},
    {{PS}, FAILED, 1 << EXITED,
        INFO "Pod failed\nLAUNCH ERROR Container failed !!!\nContainer rank 0 status failed cmd "
             "['train'] code 1 log log/workerlog.0\nserver 0: exit code 1\n"},
    {{OLD, "--nproc_per_node=2"}, FAILED, 1 << EXITED,
        "ERROR launch_utils.py:604] ABORT!!! Out of all 2 trainers, the trainer process with "
        "rank=[0] was aborted. Please check its log. (worker 0: exit code 1, log "
        "log/workerlog.0)\n"},
    {{OLD, PS}, FAILED, SIGSEGV,
        "ERROR launch_utils.py:604] ABORT!!! Out of all 1 servers, the server process with "
        "rank=[0] was aborted. Please check its log. (server 0: killed by SIGSEGV, log "
        "log/workerlog.0)\n"},
    {{0}, DETAIL, 3,
        INFO "------------------------- ERROR LOG DETAIL -------------------------\nthe\n"},
    {{OLD}, DETAIL, 7, "the end\n"},
    {{0}, WORKERS_DONE, 0, ""},
    {{PS}, WORKERS_DONE, 1, INFO "all workers exit, going to finish parameter server\n"},
    {{PS}, WORKERS_DONE, 0, ""},
    {{OLD, PS}, WORKERS_DONE, 0,
        "INFO launch_utils.py:914] all workers exit, going to finish parameter server and "
        "heter_worker.\n"},
    {{0}, END, 0, INFO "Pod completed\n" INFO "Exit code 0\n"},
    {{0}, END, 241, INFO "Exit code 241\n"},
    {{OLD}, END, 0, "INFO launch.py:436] Local processes completed.\n"},
    {{OLD}, END, 1, ""},
    {{OLD, PS}, END, 0, "INFO launch_utils.py:926] all parameter server are killed\n"},
    {{OLD, PS, "--heter_worker_num=1"}, END, 0,
        "INFO launch_utils.py:920] all heter_worker are killed\n"
        "INFO launch_utils.py:926] all parameter server are killed\n"},
};

/* A job that writes all it says into one pipe. */
struct sayer {
    struct kit kit;
    struct job_plan plan;
    int from;
};

static void open_sayer(struct sayer *w, const char *const *words) {
    int ends[2];
    struct co_err err = {0};
    if (kit_open(&w->kit, words, &err) || job_plan_make(&w->kit.job, &w->kit.own,
                                              w->kit.value ? 1 : 0, 0, "/tmp/x", &w->plan, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    co_close(w->kit.say.out);
    w->kit.say = (struct node_log){
        .format = w->kit.options.format, .level = NODE_LOG_INFO, .out = ends[1], .err = ends[1]};
    w->from = ends[0];
}

static char *said(const struct sayer *w) {
    static char text[TEXT];
    ssize_t n = read(w->from, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    strip_dates(text);
    return text;
}

static void close_sayer(struct sayer *w) {
    job_plan_done(&w->plan);
    co_close(w->from);
    kit_close(&w->kit);
}

static void each_event_is_logged_in_the_words_of_its_launcher(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct sayer w;
        open_sayer(&w, rows[i].words);
        say(rows[i].event, &w.kit.say, &w.kit.job, &w.plan, rows[i].n);
        const char *text = said(&w);
        if (strcmp(text, rows[i].text) != 0) {
            fail_msg("row %zu: \"%s\", expected \"%s\"", i, text, rows[i].text);
        }
        close_sayer(&w);
    }
}

static void the_beginning_shows_options_and_then_the_mode(void **state) {
    (void)state;
    static const struct {
        const char *words[5], *first, *some, *last;
    } begins[] = {
        {{0}, INFO "-----------  Configuration  ----------------------\n",
            INFO "training_script: train\n",
            INFO "--------------------------------------------------\n"},
        {{"--job_id=a\nb"}, INFO "-----------  Configuration  ----------------------\n",
            INFO "job_id: a\n" INFO "b\n",
            INFO "--------------------------------------------------\n"},
        {{"--nnodes=2", "--master=etcd://e:1"},
            "LAUNCH WARNING Using default job name may cause conflict, add --job_id in args\n",
            INFO "nnodes: 2\n", INFO "--------------------------------------------------\n"},
        {{OLD}, "-----------  Configuration Arguments -----------\n", "\nlog_dir: \n",
            "------------------------------------------------\nlaunch train in CPU mode\n"},
        {{OLD, "--gpus=0,1"}, "-----------  Configuration Arguments -----------\n", "\ngpus: 0,1\n",
            "WARNING launch.py:316] Not found distinct arguments and compiled with cuda. Default "
            "use "
            "collective mode\nlaunch train in GPU mode\n"},
        {{OLD, "--gpus=0,1", "--ips=10.0.0.1"},
            "-----------  Configuration Arguments -----------\n", "\nips: 10.0.0.1\n",
            "------------------------------------------------\nlaunch train in GPU mode\n"},
        {{OLD, PS}, "-----------  Configuration Arguments -----------\n", "\nserver_num: 1\n",
            "INFO launch.py:298] Run parameter-sever mode. pserver arguments:['--server_num'], "
            "cuda count:0\n"},
        {{OLD, "--worker_num=1", "--server_num=1"},
            "-----------  Configuration Arguments -----------\n", "\nworker_num: 1\n",
            "INFO launch.py:298] Run parameter-sever mode. pserver "
            "arguments:['--worker_num', '--server_num'], cuda count:0\n"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(begins); i++) {
        struct sayer w;
        open_sayer(&w, begins[i].words);
        node_log_lines_begin(&w.kit.say, &w.kit.job);
        const char *text = said(&w), *last = strstr(text, begins[i].last);
        if (strncmp(text, begins[i].first, strlen(begins[i].first)) != 0 ||
            !strstr(text, begins[i].some) || !last || strcmp(last, begins[i].last) != 0) {
            fail_msg("row %zu:\n%s", i, text);
        }
        close_sayer(&w);
    }
}

/* ---- files --------------------------------------------------------------------------------- */

static char *read_text(const char *dir, const char *name) {
    static char text[TEXT];
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f) {
        return NULL;
    }
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    (void)fclose(f);
    return text;
}

static size_t count(const char *text, const char *of) {
    size_t n = 0;
    for (const char *at = strstr(text, of); at; at = strstr(at + 1, of)) {
        n++;
    }
    return n;
}

/* Written twice, as by two rounds. */
static void files_are_those_of_the_launcher(void **state) {
    static const struct {
        const char *words[5], *name, *line; /* NULL: the file is not there */
        size_t times;
    } files[] = {
        {{0}, "default.abcdef.log", "[V]\n", 2},
        {{"--job_id=j"}, "j.abcdef.log", "[V]\n", 2},
        {{"--nproc_per_node=2"}, "envlog.1", "\nPADDLE_TRAINER_ID=1\n", 2},
        {{"--nproc_per_node=2"}, "envlog.0", "FLAGS_", 0},
        {{"--log_overwrite=true"}, "envlog.0", "\nPADDLE_TRAINER_ID=0\n", 1},
        {{"--nproc_per_node=2"}, "envlog.2", NULL, 0},
        {{PS}, "envlog.0", "\nTRAINING_ROLE=PSERVER\n", 2},
        {{"--compat=2.3"}, "default.abcdef.log", "[V]\n", 2},
        {{"--job_id=../../x\n\x7f"}, ".._.._x__.abcdef.log", "[V]\n", 2},
        {{"--compat=2.3"}, "envlog.0", NULL, 0},
        {{0}, "endpoints.log", NULL, 0},
        {{OLD}, "endpoints.log", "PADDLE_TRAINER_ENDPOINTS: \nh:2\n", 1},
        {{OLD, "--nproc_per_node=2"}, "endpoints.log", "h:2\nh:3\n", 1},
        {{OLD}, "default.abcdef.log", NULL, 0},
        {{OLD, PS}, "endpoints.log", NULL, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        static const char *const values[] = {"V"};
        struct sayer w;
        CO_AUTOFREE char *dir = co_xasprintf("%s/%zu", (char *)*state, i);
        assert_int_equal(mkdir(dir, 0755), 0);
        open_sayer(&w, files[i].words);
        free(w.plan.log_dir);
        w.plan.log_dir = co_xstrdup(dir);
        node_log_lines_files(&w.kit.say, &w.kit.job, &w.plan, values, 1);
        node_log_lines_files(&w.kit.say, &w.kit.job, &w.plan, values, 1);
        const char *text = read_text(dir, files[i].name);
        if (!text != !files[i].line || (text && count(text, files[i].line) != files[i].times)) {
            fail_msg("row %zu: %s: \"%s\"", i, files[i].name, text);
        }
        assert_string_equal(said(&w), "");
        close_sayer(&w);
    }
}

/* The variables that the launcher set are there, the rest of its environment is not: it has
 * secrets. */
static void a_file_of_variables_is_sorted_and_has_no_secrets(void **state) {
    static const char *const words[] = {NULL}, *const values[] = {"V"};
    struct sayer w;
    assert_int_equal(setenv("MY_PASSWORD", "opensesame", 1), 0);
    open_sayer(&w, words);
    free(w.plan.log_dir);
    w.plan.log_dir = co_xstrdup(*state);
    node_log_lines_files(&w.kit.say, &w.kit.job, &w.plan, values, 1);
    static const char *const names[] = {"envlog.0", "default.abcdef.log"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        const char *text = read_text(*state, names[i]);
        assert_non_null(text);
        assert_null(strstr(text, "opensesame"));
    }
    const char *before = "";
    for (char *rest = read_text(*state, "envlog.0"), *line; (line = strsep(&rest, "\n")) && *line;
         before = line) {
        assert_true(strcmp(before, line) < 0);
    }
    close_sayer(&w);
    assert_int_equal(unsetenv("MY_PASSWORD"), 0);
}

/* A FIFO that nobody reads does not stop the launcher. */
static void a_fifo_that_nobody_reads_is_a_warning(void **state) {
    static const char *const words[] = {NULL}, *const values[] = {"V"};
    CO_AUTOFREE char *dir = co_xasprintf("%s/fifos", (char *)*state);
    CO_AUTOFREE char *fifo = co_xasprintf("%s/envlog.0", dir);
    struct sayer w;
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    open_sayer(&w, words);
    free(w.plan.log_dir);
    w.plan.log_dir = co_xstrdup(dir);
    node_log_lines_files(&w.kit.say, &w.kit.job, &w.plan, values, 1);
    assert_non_null(strstr(said(&w), "/fifos/envlog.0\": it is a FIFO that nobody reads\n"));
    close_sayer(&w);
}

static void a_file_that_cannot_be_written_is_a_warning_each(void **state) {
    (void)state;
    static const struct {
        const char *words[5], *dir, *text;
    } failures[] = {
        {{0}, "/no/such",
            "LAUNCH WARNING cannot write \"/no/such/default.abcdef.log\": No such file or "
            "directory\n"
            "LAUNCH WARNING cannot write \"/no/such/envlog.0\": No such file or directory\n"},
        {{OLD}, "/dev/null",
            "WARNING launch.py:0] cannot write \"/dev/null/endpoints.log\": Not a directory\n"},
        {{0}, "", ""}, /* nobody wants files */
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(failures); i++) {
        static const char *const values[] = {"V"};
        struct sayer w;
        open_sayer(&w, failures[i].words);
        free(w.plan.log_dir);
        w.plan.log_dir = co_xstrdup(failures[i].dir);
        node_log_lines_files(&w.kit.say, &w.kit.job, &w.plan, values, 1);
        assert_string_equal(said(&w), failures[i].text);
        close_sayer(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_is_logged_in_the_words_of_its_launcher),
        cmocka_unit_test(the_beginning_shows_options_and_then_the_mode),
        CO_TEST_IN_FOLDER(files_are_those_of_the_launcher),
        CO_TEST_IN_FOLDER(a_file_of_variables_is_sorted_and_has_no_secrets),
        CO_TEST_IN_FOLDER(a_fifo_that_nobody_reads_is_a_warning),
        cmocka_unit_test(a_file_that_cannot_be_written_is_a_warning_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
