/* Parses the flags and decides what the process does: train, serve, generate or predict. */
#include "examples/ctr/program.h"

#include "common/log.h"
#include "common/mem.h"
#include "examples/ctr/data.h"
#include "examples/ctr/format.h"
#include "examples/ctr/options.h"
#include "examples/ctr/predict.h"
#include "examples/ctr/trainer.h"
#include "examples/data/program.h"

static struct ctr_options options;
static const char *log_level;

static const struct co_flag flags[] = {
    {"train", CO_FLAG_STR, &options.train, "",
        "training data: a file, a directory (files in nested ones, too), a *.list of files, or "
        "what --generate made, each as text or gzip; empty: generated"},
    {"test", CO_FLAG_STR, &options.test, "",
        "test data, read by the first worker; empty: that of --train, if any"},
    {"format", CO_FLAG_STR, &options.format, "auto",
        "of the data: auto (each line is criteo's or slots'), criteo, slots, slots-sum or "
        "slots-mean (several values a slot), csv (with a header); README.md has a line of each"},
    {"csv-label", CO_FLAG_STR, &options.csv_label, "",
        "csv: the column of the label; empty: label"},
    {"csv-numbers", CO_FLAG_STR, &options.csv_numbers, "",
        "csv: columns of numbers, 13 at most, commas between; empty, and --csv-categories too: I1 "
        "to I13"},
    {"csv-categories", CO_FLAG_STR, &options.csv_categories, "",
        "csv: columns of categories, 26 at most; empty, and --csv-numbers too: C1 to C26"},
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
    {"mode", CO_FLAG_STR, &options.mode, "",
        "async, sync or geo; the same for all workers; empty: what the file of PADDLE_PS_STRATEGY "
        "says, or async"},
    {"k-steps", CO_FLAG_INT, &options.k_steps, "0",
        "geo: steps between two exchanges; 0: what the file says, or 100", .min = 0,
        .max = INT32_MAX},
    {"backup", CO_FLAG_INT, &options.backup, "0",
        "sync: so many workers, the slowest of each step, are not waited for", .min = 0,
        .max = 65536},
    {"staleness", CO_FLAG_INT, &options.staleness, "0",
        "async, geo: a worker is at most so many steps ahead of the slowest; 0: no bound", .min = 0,
        .max = 65536},
    {"merge", CO_FLAG_INT, &options.merge, "0",
        "async: up to so many pushes of rows are merged and sent as one; 0: what the environment "
        "or the file says, or 1",
        .min = 0, .max = 65536},
    {"wire", CO_FLAG_STR, &options.wire, "",
        "how values and gradients travel: f32, f16, bf16 or, in sync mode, int8 for the network "
        "and "
        "f32 for embeddings; empty: f32"},
    {"save", CO_FLAG_STR, &options.save, "model",
        "directory for the trained model, written by the first worker; empty: not saved"},
    {"load", CO_FLAG_STR, &options.load, "", "directory of a saved model to start from"},
    {"predict", CO_FLAG_BOOL, &options.predict, NULL,
        "no training: a probability for each line of the test data, with the model of --load; nan "
        "for a line that cannot be used"},
    {"refresh", CO_FLAG_DURATION, &options.refresh_ms, "0",
        "predict: looks so often for a newer checkpoint in --load, while a training still writes "
        "there; 0: only at the beginning"},
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
    {"local", CO_FLAG_BOOL, &options.local, NULL,
        "train in this process, without servers, whatever job the environment describes; what it "
        "says of checkpoints, TensorBoard and metrics holds"},
    {"more", CO_FLAG_BOOL, &options.more, NULL,
        "TRAIN lines also have the area under the curve and examples a second"},
    {"slots", CO_FLAG_BOOL, &options.slots, NULL,
        "--generate writes PaddleRec's lines, \"click:0 dense_feature:0.05 ... 1:737395 ...\""},
    {"log-level", CO_FLAG_STR, &log_level, "info", "error, warn, info or debug"},
};

/* Names of columns are of no use to the other formats. */
static int columns_check(const struct ctr_format *format, struct co_err *err) {
    const struct {
        const char *flag, *value;
    } rows[] = {{"--csv-label", options.csv_label}, {"--csv-numbers", options.csv_numbers},
        {"--csv-categories", options.csv_categories}};

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (rows[i].value[0] != '\0' && !format->header) {
            return co_err_set(
                err, CO_INVALID, "%s needs --format=csv, not %s", rows[i].flag, format->name);
        }
    }
    return 0;
}

static int options_check(struct co_err *err) {
    enum co_log_level level = CO_LOG_INFO;
    CO_TRY(co_log_level_parse(log_level, &level, err));
    co_log_setup(level, CO_LOG_LOGFMT);
    CO_TRY(ctr_mode(options.mode, &(enum rt_mode){0}, err));
    const struct ctr_format *format = NULL;
    CO_TRY(ctr_format_find(options.format, &format, err));
    CO_TRY(columns_check(format, err));
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

static int train(const struct rt_job *job, struct co_err *err) {
    return ctr_train(job, &options, NULL, err);
}

static int generate(struct co_err *err) {
    return ctr_data_generate(&options, err);
}

static int predict(struct co_err *err) {
    return ctr_predict(&options, err);
}

static struct da_task task(void) {
    return options.generate[0] != '\0'
               ? (struct da_task){"generating data", generate}
               : (struct da_task){"prediction", options.predict ? predict : NULL};
}

int ctr_program(const struct ctr_net *net, int argc, char *argv[]) {
    CO_AUTOFREE char *usage = co_xasprintf("%s [flags]", net->name);
    const struct da_program program = {.name = net->name,
        .usage = usage,
        .flags = flags,
        .n_flags = CO_ARRAY_LEN(flags),
        .local = &options.local,
        .check = options_check,
        .task = task,
        .train = train};

    options.net = net;
    return da_program(&program, argc, argv);
}
