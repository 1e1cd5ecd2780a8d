/* Trains Paddle's network for movie recommendations on MovieLens' files: alone, or as a server or
 * worker if the environment describes a job.  Exit codes: co_code_exit. */
#include "common/log.h"
#include "common/mem.h"
#include "examples/data/lines.h"
#include "examples/data/program.h"
#include "examples/recommendation/predict.h"
#include "examples/recommendation/prepare.h"
#include "examples/recommendation/trainer.h"

static struct rc_options options;
static const char *out;
static int64_t split, users, movies, ratings;

static const struct co_flag flags[] = {
    {"data", CO_FLAG_STR, &options.data, "",
        "directory with train.list and test.list; empty: --out, if it has a user's; else made up"},
    {"ml", CO_FLAG_STR, &options.ml, "",
        "directory with users.dat and movies.dat, for prepare ratings.dat, too; empty: ml-1m below "
        "--data, for prepare below --out, made up unless a user's is there"},
    {"batch-size", CO_FLAG_INT, &options.batch_size, "256", "ratings a step, of each worker",
        .min = 1, .max = 65536},
    {"passes", CO_FLAG_INT, &options.passes, "1", "over the data", .min = 0, .max = 100000},
    {"period", CO_FLAG_INT, &options.period, "100", "batches between two lines", .min = 1,
        .max = INT32_MAX},
    {"features", CO_FLAG_INT, &options.features, "200", "of a user and of a movie", .min = 1,
        .max = 65536},
    {"mode", CO_FLAG_STR, &options.mode, "",
        "async, sync or geo; empty: what the file of PADDLE_PS_STRATEGY says, or async"},
    {"optimizer", CO_FLAG_STR, &options.optimizer, "", "as docs/rules.md; empty: adam:lr=0.001"},
    {"save-dir", CO_FLAG_STR, &options.save_dir, "output",
        "worker 0 saves after each pass, to pass-00000 and so on in it; empty: not"},
    {"load", CO_FLAG_STR, &options.load, "",
        "directory of a saved pass to start from, if it is there; predict, evaluate: to ask; "
        "empty: those of --save-dir, predict the newest"},
    {"json", CO_FLAG_BOOL, &options.json, NULL, "predict, evaluate: print a JSON object a line"},
    {"own-list", CO_FLAG_BOOL, &options.own_list, NULL,
        "train.list is each worker's own; else all have the same list and share its files"},
    {"seed", CO_FLAG_INT, &options.seed, "1", "of first values and of made up ratings", .min = 0,
        .max = INT64_MAX},
    {"out", CO_FLAG_STR, &out, "data", "prepare: directory to write"},
    {"split", CO_FLAG_INT, &split, "2", "prepare: files of training data", .min = 1, .max = 100000},
    {"users", CO_FLAG_INT, &users, "200", "prepare: made up", .min = 1, .max = 1000000},
    {"movies", CO_FLAG_INT, &movies, "100", "prepare: made up", .min = 1, .max = 1000000},
    {"ratings", CO_FLAG_INT, &ratings, "20000", "prepare: made up", .min = 1, .max = 20000000},
};

static int prepare_data(struct co_err *err) {
    const struct rc_prepare p = {.ml = options.ml,
        .out = out,
        .split = (uint32_t)split,
        .users = (uint64_t)users,
        .movies = (uint64_t)movies,
        .ratings = (uint64_t)ratings,
        .seed = (uint64_t)options.seed};

    CO_TRY(rc_prepare(&p, err));

    co_log_info("data prepared", CO_S("directory", out));
    return 0;
}

static int prepare(char *const *unused, size_t n, struct co_err *err) {
    (void)unused;
    (void)n;
    return prepare_data(err);
}

/* Of ratings from elsewhere, prepare leaves users and movies where they were. */
static int library_check(struct co_err *err) {
    CO_AUTOFREE char *own = co_xasprintf("%s/ml-1m", out);

    return options.ml[0] != '\0' || da_is_users(own, "users.dat")
               ? 0
               : co_err_set(err, CO_INVALID,
                     "\"%s\" has ratings, but no users and movies of theirs: --ml names the "
                     "directory of all three",
                     out);
}

static int train(const struct rt_job *job, struct co_err *err) {
    int rc = 0;

    if (options.data[0] == '\0') {
        options.data = out;
        rc = da_is_users(out, "train.list") ? library_check(err) : prepare_data(err);
    }
    return rc == 0 ? rc_train(job, &options, err) : rc;
}

static void data_default(void) {
    options.data = options.data[0] != '\0' ? options.data : out;
}

static int predict(char *const *words, size_t n, struct co_err *err) {
    data_default();
    return rc_predict(&options, words, n, err);
}

static int evaluate(char *const *unused, size_t n, struct co_err *err) {
    (void)unused;
    (void)n;
    data_default();
    return rc_evaluate(&options, err);
}

int main(int argc, char *argv[]) {
    static const struct da_word words[] = {{"prepare", "preparing data", NULL, prepare},
        {"predict", "prediction", "USER MOVIE...", predict},
        {"evaluate", "evaluation", NULL, evaluate}};
    static const struct da_variable variables[] = {{"passes", CO_VAR_INIT_NUM_PASSES},
        {"period", CO_VAR_INIT_LOG_PERIOD}, {"save-dir", CO_VAR_INIT_SAVE_DIR}};
    static const struct da_program program = {.name = "recommendation",
        .usage =
            "recommendation [flags]: trains\n       recommendation prepare [flags]\n       "
            "recommendation predict [flags] [USER MOVIE...]: lines of stdin without any\n       "
            "recommendation evaluate [flags]: the test's loss of each pass, and the best",
        .flags = flags,
        .n_flags = CO_ARRAY_LEN(flags),
        .variables = variables,
        .n_variables = CO_ARRAY_LEN(variables),
        .words = words,
        .n_words = CO_ARRAY_LEN(words),
        .train = train};

    return da_program(&program, argc, argv);
}
