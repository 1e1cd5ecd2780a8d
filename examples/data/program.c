/* Parses the flags and decides what the process does: a task of its own, serve, or train. */
#include "examples/data/program.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/parse.h"
#include "common/stdio.h"
#include "examples/data/train.h"

CO_DEFINE_CLEANUP(struct rt_job *, rt_done)

static int log_usage(const struct da_program *p, const struct co_err *err) {
    co_log_error("cannot start", CO_S("program", p->name), CO_E(err));
    return 2;
}

static int end(const struct da_program *p, const char *what, int rc, const struct co_err *err) {
    if (rc == 0) {
        return 0;
    }
    char text[64];
    (void)snprintf(text, sizeof(text), "%s failed", what);
    co_log_error(text, CO_S("program", p->name), CO_E(err));
    return co_code_exit(rc);
}

/* Who ends a server may know that training is over although not all trainers have said so. */
static int end_server(const struct da_program *p, int rc, const struct co_err *err) {
    if (rc == CO_CANCELED) {
        co_log_warn("ended before all trainers had finished", CO_S("program", p->name), CO_E(err));
        return co_code_exit(rc);
    }
    return end(p, "training", rc, err);
}

/* As Paddle does, but each such process trains on all data and saves over the others' models. */
static void alone_note(const struct rt_job *job) {
    if (rt_worker_num_named(job) > rt_worker_num(job)) {
        co_log_warn("trains alone: PADDLE_TRAINERS_NUM names more workers, and nothing their "
                    "addresses",
            CO_I("PADDLE_TRAINERS_NUM", rt_worker_num_named(job)),
            CO_S("expected", "PADDLE_PSERVERS_IP_PORT_LIST or PADDLE_TRAINER_ENDPOINTS"));
    }
}

static int job_run(const struct da_program *p, struct co_err *err) {
    CO_CLEANUP(rt_donep) struct rt_job *job = NULL;
    const struct rt_server_options server = {.handle_signals = true};

    if (p->local && *p->local) {
        da_forget_job();
    }
    if (rt_init(&job, err) < 0) {
        return log_usage(p, err);
    }
    if (!rt_is_server(job)) {
        alone_note(job);
        return end(p, "training", p->train(job, err), err);
    }
    if (p->collective) {
        (void)co_err_set(err, CO_INVALID, "a server: this program trains in collective jobs");
        return log_usage(p, err);
    }
    return end_server(p, rt_server_run(job, &server, err), err);
}

/* ---- the command line ---- */

static struct { bool is_cloud, use_gpu; } ignored;

static const struct co_flag ignored_flags[] = {
    {"is_cloud", CO_FLAG_BOOL, &ignored.is_cloud, NULL,
        .help = "of PaddleRec's programs; the environment alone says the role", .hidden = true},
    {"use_gpu", CO_FLAG_BOOL, &ignored.use_gpu, NULL,
        .help = "of Paddle's programs; these compute on the CPU", .hidden = true},
};

/* What is accepted as in Paddle but changes nothing here, once a process. */
static void ignored_note(void) {
    const char *gpu = co_contract_getenv(CO_VAR_INIT_USE_GPU);
    bool wanted = false;

    if (ignored.is_cloud) {
        co_log_info("--is_cloud has no effect: the environment says the role, in a cloud or not");
    }
    if (ignored.use_gpu || (gpu && co_parse_bool("", gpu, &wanted, NULL) == 0 && wanted)) {
        co_log_warn("computes on the CPU: this program has no code for GPUs",
            CO_S("ignored", ignored.use_gpu ? "--use_gpu" : co_contract[CO_VAR_INIT_USE_GPU].name));
    }
}

/* A wrong value is variables_check's, after the flags: they may ask for help. */
static void default_take(const struct da_variable *v, struct co_flag *flags, size_t n) {
    const char *value = co_contract_getenv(v->var);
    bool right = value && co_contract_check(v->var, value, NULL) == 0;
    for (size_t i = 0; right && i < n; i++) {
        struct co_flag *f = &flags[i];
        if (strcmp(f->name, v->flag) == 0) {
            f->def = value;
        }
    }
}

static int variables_check(const struct da_program *p, struct co_err *err) {
    for (size_t i = 0; i < p->n_variables; i++) {
        const char *value = co_contract_getenv(p->variables[i].var);
        CO_TRY(value ? co_contract_check(p->variables[i].var, value, err) : 0);
    }
    return 0;
}

/* The program's flags, then those that all have. */
static struct co_flag *flags_all(const struct da_program *p, size_t *ret_n) {
    const size_t more = CO_ARRAY_LEN(ignored_flags);
    struct co_flag *all = co_xcalloc(p->n_flags + more, sizeof(*all));

    memcpy(all, p->flags, p->n_flags * sizeof(*all));
    memcpy(all + p->n_flags, ignored_flags, sizeof(ignored_flags));
    *ret_n = p->n_flags + more;
    for (size_t i = 0; i < p->n_variables; i++) {
        default_take(&p->variables[i], all, p->n_flags);
    }
    return all;
}

static const struct da_word *word_find(const struct da_program *p, const char *name) {
    for (size_t i = 0; name && i < p->n_words; i++) {
        if (strcmp(p->words[i].name, name) == 0) {
            return &p->words[i];
        }
    }
    return NULL;
}

/* CO_CANCELED: the help was printed. */
static int parse(const struct da_program *p, const struct da_word *word, int argc, char *argv[],
    int *ret_rest, struct co_err *err) {
    size_t n = 0;
    CO_AUTOFREE struct co_flag *flags = flags_all(p, &n);

    if (!word || !word->arguments) {
        *ret_rest = argc;
        return co_flags_parse_all(p->usage, flags, n, argc, argv, err);
    }
    int rc = co_flags_parse_among(flags, n, argc, argv, ret_rest, err);
    if (rc == CO_CANCELED) {
        co_flags_help(stdout, p->usage, flags, n);
    }
    return rc;
}

static int check(const struct da_program *p, struct co_err *err) {
    const char *threads = co_contract_getenv(CO_VAR_INIT_TRAINER_COUNT);

    CO_TRY(threads ? co_contract_check(CO_VAR_INIT_TRAINER_COUNT, threads, err) : 0);
    return p->check ? p->check(err) : 0;
}

static int run(const struct da_program *p, int argc, char *argv[]) {
    const struct da_word *word = word_find(p, argc > 1 ? argv[1] : NULL);
    const int skip = word != NULL;
    struct da_task task = {0};
    struct co_err err = {0};
    int rest = 0;
    int rc = parse(p, word, argc - skip, argv + skip, &rest, &err);

    if (rc == CO_CANCELED) {
        return 0;
    }
    rc = rc == 0 ? variables_check(p, &err) : rc;
    rc = rc == 0 ? check(p, &err) : rc;
    if (rc < 0) {
        return log_usage(p, &err);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error */
    ignored_note();
    if (word) {
        const size_t n = (size_t)(argc - skip - rest);
        return end(p, word->what, word->run(argv + skip + rest, n, &err), &err);
    }
    if (p->task) {
        task = p->task();
    }
    return task.run ? end(p, task.what, task.run(&err), &err) : job_run(p, &err);
}

int da_program(const struct da_program *p, int argc, char *argv[]) {
    co_stdio_begin();
    return co_stdio_close(p->name, run(p, argc, argv));
}
