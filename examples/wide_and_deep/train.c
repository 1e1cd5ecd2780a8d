/* Trains wide & deep on Criteo data, alone or as a parameter server or a worker of a job: which
 * one the environment says.  Also generates data and predicts with a saved model.
 * Exit codes: 0 done, 2 wrong usage or environment, 1 anything else. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/flag.h"
#include "common/log.h"
#include "common/mem.h"
#include "examples/wide_and_deep/data.h"
#include "examples/wide_and_deep/options.h"
#include "examples/wide_and_deep/predict.h"
#include "examples/wide_and_deep/trainer.h"
#include "runtime/rt.h"

#define USAGE "wide_and_deep [flags]"

CO_DEFINE_CLEANUP(struct rt_job *, rt_done)

static struct wd_options options;
static const char *log_level;

static const struct co_flag flags[] = {
    {"train", CO_FLAG_STR, &options.train, "",
        "training data: a Criteo TSV file, a directory of them, or what --generate made; empty: "
        "generated"},
    {"test", CO_FLAG_STR, &options.test, "",
        "test data, read by the first worker; empty: that of --train, if any"},
    {"batch-size", CO_FLAG_INT, &options.batch_size, "100", "samples a step", .min = 1,
        .max = 1 << 20},
    {"epochs", CO_FLAG_INT, &options.epochs, "1", "passes over the data", .min = 0, .max = 1000000},
    {"optimizer", CO_FLAG_STR, &options.optimizer, "",
        "sgd, momentum, nesterov, adagrad, adam, rmsprop or rmsprop_centered, with values as in "
        "adam:lr=0.001,beta1=0.9; empty: adagrad, lr 0.005 for the network and 0.05 for "
        "embeddings"},
    {"embedding-optimizer", CO_FLAG_STR, &options.embedding_optimizer, "",
        "the same for embeddings; empty: as --optimizer"},
    {"lr", CO_FLAG_FLOAT, &options.lr, "0",
        "learning rate in place of those of --optimizer; 0: theirs"},
    {"mode", CO_FLAG_STR, &options.mode, "async", "async or sync; the same for all workers"},
    {"save", CO_FLAG_STR, &options.save, "model",
        "directory for the trained model, written by the first worker; empty: not saved"},
    {"load", CO_FLAG_STR, &options.load, "", "directory of a saved model to start from"},
    {"predict", CO_FLAG_BOOL, &options.predict, NULL,
        "no training: one probability a line for the test data, with the model of --load"},
    {"generate", CO_FLAG_STR, &options.generate, "",
        "no training: writes generated data to this directory (train/, test/)"},
    {"lines", CO_FLAG_INT, &options.lines, "40000", "generated training lines, of all workers",
        .min = 1, .max = INT64_C(1) << 40},
    {"test-lines", CO_FLAG_INT, &options.test_lines, "5000", "generated test lines", .min = 1,
        .max = INT64_C(1) << 40},
    {"files", CO_FLAG_INT, &options.files, "2", "files that --generate writes to train/", .min = 1,
        .max = 10000},
    {"seed", CO_FLAG_INT, &options.seed, "1", "of generated data and of initial values", .min = 0,
        .max = INT64_MAX},
    {"local", CO_FLAG_BOOL, &options.local, NULL, "train in this process, without servers"},
    {"log-level", CO_FLAG_STR, &log_level, "info", "error, warn, info or debug"},
};

static int fail(const struct co_err *err, int status) {
    co_log_error("wide_and_deep failed", CO_E(err));
    return status;
}

static int options_check(struct co_err *err) {
    enum co_log_level level = CO_LOG_INFO;
    int rc = co_log_level_parse(log_level, &level, err);

    if (rc < 0) {
        return rc;
    }
    co_log_setup(level, CO_LOG_LOGFMT);
    if (strcmp(options.mode, "async") != 0 && strcmp(options.mode, "sync") != 0) {
        return co_err_set(
            err, CO_INVALID, "--mode is \"%s\", expected async or sync", options.mode);
    }
    if (!(options.lr >= 0.0)) {
        return co_err_set(err, CO_INVALID, "--lr is %g, expected 0 or more", options.lr);
    }
    if (options.predict && options.load[0] == '\0') {
        return co_err_set(err, CO_INVALID, "--predict needs --load");
    }
    if (options.predict && options.train[0] != '\0' && options.test[0] == '\0') {
        return co_err_set(err, CO_INVALID, "--predict reads --test, not --train");
    }
    return 0;
}

/* A job's environment without the job: rt_init then finds a worker alone. */
static void environment_forget(void) {
    for (size_t i = 0; i < CO_VAR_COUNT; i++) {
        if (!co_contract[i].machine) {
            (void)unsetenv(co_contract[i].name);
        }
    }
}

static int job_run(void) {
    CO_CLEANUP(rt_donep) struct rt_job *job = NULL;
    const struct rt_server_options server = {.handle_signals = true};
    struct co_err err = {0};

    if (options.local) {
        environment_forget();
    }
    if (rt_init(&job, &err) < 0) {
        return fail(&err, 2);
    }
    int rc =
        rt_is_server(job) ? rt_server_run(job, &server, &err) : wd_train(job, &options, NULL, &err);
    return rc < 0 ? fail(&err, rc == CO_INVALID ? 2 : 1) : 0;
}

int main(int argc, char *argv[]) {
    struct co_err err = {0};
    int rest, rc = co_flags_parse(flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &err);

    if (rc == CO_CANCELED) {
        co_flags_help(stdout, USAGE, flags, CO_ARRAY_LEN(flags));
        return 0;
    }
    if (rc == 0 && rest < argc) {
        rc = co_err_set(&err, CO_INVALID, "unexpected \"%s\"", argv[rest]);
    }
    if (rc == 0) {
        rc = options_check(&err);
    }
    if (rc < 0) {
        return fail(&err, 2);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an error, not the end */
    if (options.generate[0] != '\0') {
        return wd_data_generate(&options, &err) < 0 ? fail(&err, 1) : 0;
    }
    if (options.predict) {
        return wd_predict(&options, &err) < 0 ? fail(&err, 1) : 0;
    }
    return job_run();
}
