/* Parses the flags and decides what the process does: a task of its own, serve, or train. */
#include "examples/data/program.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
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
    return end(p, "training", rt_server_run(job, &server, err), err);
}

static int run(const struct da_program *p, int argc, char *argv[]) {
    bool prepares = p->prepare.run && argc > 1 && strcmp(argv[1], "prepare") == 0;
    struct da_task task = {0};
    struct co_err err = {0};
    int rc =
        co_flags_parse_all(p->usage, p->flags, p->n_flags, argc - prepares, argv + prepares, &err);

    if (rc == CO_CANCELED) {
        return 0;
    }
    if (rc == 0 && p->check) {
        rc = p->check(&err);
    }
    if (rc < 0) {
        return log_usage(p, &err);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error */
    if (prepares) {
        task = p->prepare;
    } else if (p->task) {
        task = p->task();
    }
    return task.run ? end(p, task.what, task.run(&err), &err) : job_run(p, &err);
}

int da_program(const struct da_program *p, int argc, char *argv[]) {
    co_stdio_open();
    return co_stdio_close(p->name, run(p, argc, argv));
}
