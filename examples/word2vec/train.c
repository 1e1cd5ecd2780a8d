/* Trains vectors of words with Paddle's N-gram network or with skip-gram: alone, or as a server or
 * worker if the environment describes a job.  Exit codes: co_code_exit. */
#include "common/log.h"
#include "common/mem.h"
#include "examples/data/lines.h"
#include "examples/data/program.h"
#include "examples/word2vec/nearest.h"
#include "examples/word2vec/prepare.h"
#include "examples/word2vec/trainer.h"

static struct wv_options options;
static const char *text, *out;
static int64_t n, least, split, sentences;

static const struct co_flag flags[] = {
    {"model", CO_FLAG_STR, &options.model, "ngram", "ngram or skipgram"},
    {"data", CO_FLAG_STR, &options.data, "",
        "directory that was prepared; empty: --out, if it was prepared of a text; else generated"},
    {"n", CO_FLAG_INT, &n, "5", "words of a window", .min = 2, .max = WV_WINDOW_MAX},
    {"batch-size", CO_FLAG_INT, &options.batch_size, "32", "windows a step", .min = 1,
        .max = 65536},
    {"passes", CO_FLAG_INT, &options.passes, "1", "over the data", .min = 0, .max = 1000000},
    {"embed", CO_FLAG_INT, &options.embed, "0", "floats of a word's vector; 0: 32, skipgram 64",
        .min = 0, .max = 4096},
    {"hidden", CO_FLAG_INT, &options.hidden, "256", "ngram: hidden units", .min = 1, .max = 65536},
    {"dropout", CO_FLAG_FLOAT, &options.dropout, "0.5",
        "ngram: part of the hidden units that a step leaves out"},
    {"period", CO_FLAG_INT, &options.period, "100", "ngram: batches between two tests; 0: none",
        .min = 0, .max = INT32_MAX},
    {"negatives", CO_FLAG_INT, &options.negatives, "5", "skipgram: words drawn for each", .min = 0,
        .max = 64},
    {"mode", CO_FLAG_STR, &options.mode, "",
        "async, sync or geo; empty: what the file of PADDLE_PS_STRATEGY says, else async, skipgram "
        "geo"},
    {"k-steps", CO_FLAG_INT, &options.k_steps, "0",
        "geo: steps between two exchanges; 0: what the file says, or 100", .min = 0,
        .max = INT32_MAX},
    {"optimizer", CO_FLAG_STR, &options.optimizer, "",
        "as docs/rules.md; empty: adagrad:lr=0.003 with l2=8e-4, skipgram sgd:lr=1"},
    {"embedding-optimizer", CO_FLAG_STR, &options.embedding_optimizer, "",
        "ngram: the same for words' vectors; empty: as --optimizer, without l2"},
    {"nearest", CO_FLAG_INT, &options.nearest, "0",
        "prints the neighbours of so many words at the end", .min = 0, .max = 1000000},
    {"top", CO_FLAG_INT, &options.top, "10", "nearest, analogy: words to print", .min = 1,
        .max = WV_TOP_MAX},
    {"json", CO_FLAG_BOOL, &options.json, NULL, "nearest, analogy: print a JSON object a line"},
    {"save", CO_FLAG_STR, &options.save, "model",
        "directory for the trained model, written by the first worker; empty: not saved"},
    {"load", CO_FLAG_STR, &options.load, "",
        "directory of a saved model to start from, if it is there; nearest, analogy: to look at, "
        "empty: that of --save"},
    {"seed", CO_FLAG_INT, &options.seed, "1", "of first values, draws and generated text", .min = 0,
        .max = INT64_MAX},
    {"text", CO_FLAG_STR, &text, "",
        "prepare: directory with ptb.train.txt and ptb.valid.txt, or with .gz behind their names; "
        "empty: generated"},
    {"out", CO_FLAG_STR, &out, "word2vec_data", "prepare: directory to write"},
    {"min-freq", CO_FLAG_INT, &least, "50",
        "prepare: words that occur more often have an id of their own", .min = 0, .max = INT64_MAX},
    {"split", CO_FLAG_INT, &split, "3", "prepare: files of training data, and of test data",
        .min = 1, .max = 100000},
    {"sentences", CO_FLAG_INT, &sentences, "3000", "prepare: of generated text", .min = 1,
        .max = 10000000},
};

static int prepare_data(struct co_err *err) {
    const struct wv_prepare p = {.text = text,
        .out = out,
        .least = (uint64_t)least,
        .n = (uint32_t)n,
        .split = (uint32_t)split,
        .seed = (uint64_t)options.seed,
        .sentences = (uint64_t)sentences};

    CO_TRY(wv_prepare(&p, err));

    co_log_info("data prepared", CO_S("directory", out));
    return 0;
}

static int prepare(char *const *unused, size_t n_words, struct co_err *err) {
    (void)unused;
    (void)n_words;
    return prepare_data(err);
}

static int train(const struct rt_job *job, struct co_err *err) {
    int rc = 0;

    if (options.data[0] == '\0') {
        options.data = out;
        rc = da_is_users(out, "word_dict") ? 0 : prepare_data(err);
    }
    return rc == 0 ? wv_train(job, &options, (size_t)n, err) : rc;
}

static void data_default(void) {
    options.data = options.data[0] != '\0' ? options.data : out;
}

static int nearest(char *const *words, size_t n_words, struct co_err *err) {
    data_default();
    return wv_nearest_words(&options, words, n_words, err);
}

static int analogy(char *const *words, size_t n_words, struct co_err *err) {
    data_default();
    return wv_analogy(&options, words, n_words, err);
}

static int options_check(struct co_err *err) {
    return options.dropout >= 0.0 && options.dropout < 1.0
               ? 0
               : co_err_set(
                     err, CO_INVALID, "--dropout is %g, expected 0 to below 1", options.dropout);
}

int main(int argc, char *argv[]) {
    static const struct da_word words[] = {{"prepare", "preparing data", NULL, prepare},
        {"nearest", "looking for neighbours", "WORD...", nearest},
        {"analogy", "looking for an analogy", "A B C", analogy}};
    static const struct da_variable variables[] = {{"passes", CO_VAR_INIT_NUM_PASSES}};
    static const struct da_program program = {.name = "word2vec",
        .usage =
            "word2vec [flags]: trains\n       word2vec prepare [flags]\n       word2vec nearest "
            "[flags] [WORD...]: words of stdin without any\n       word2vec analogy [flags] A "
            "B C: A is to B as C is to what?",
        .flags = flags,
        .n_flags = CO_ARRAY_LEN(flags),
        .variables = variables,
        .n_variables = CO_ARRAY_LEN(variables),
        .check = options_check,
        .words = words,
        .n_words = CO_ARRAY_LEN(words),
        .train = train};

    return da_program(&program, argc, argv);
}
