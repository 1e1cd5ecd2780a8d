/* Trains a residual network on flowers: alone, or as a worker of a collective job if the
 * environment describes one.  Also generates data.
 * Exit codes: co_code_exit. */
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/parse.h"
#include "examples/data/program.h"
#include "examples/resnet50/classify.h"
#include "examples/resnet50/gen.h"
#include "examples/resnet50/net.h"
#include "examples/resnet50/plan.h"
#include "examples/resnet50/trainer.h"

static struct rn_options options;
static const char *log_level;

static const struct co_flag flags[] = {
    {"data", CO_FLAG_STR, &options.data, "",
        "directory of the Oxford flowers (jpg/, imagelabels.mat, setid.mat), or with train.txt and "
        "test.txt: a line an image, path and class; empty: generated pictures"},
    {"depth", CO_FLAG_INT, &options.depth, "50", "layers: 10, 14, 18, 34, 50, 101 or 152", .min = 1,
        .max = 1000},
    {"width", CO_FLAG_INT, &options.width, "64", "channels of the first stage", .min = 16,
        .max = 256},
    {"image-size", CO_FLAG_INT, &options.image_size, "224", "height and width", .min = 32,
        .max = RN_IMAGE_MAX},
    {"class-dim", CO_FLAG_INT, &options.class_dim, "102", "classes", .min = 2,
        .max = RN_CLASSES_MAX},
    {"batch-size", CO_FLAG_INT, &options.batch_size, "32", "images a step of each worker", .min = 1,
        .max = RN_BATCH_MAX},
    {"epochs", CO_FLAG_INT, &options.epochs, "10", "passes over the data", .min = 0,
        .max = 1000000},
    {"max-steps", CO_FLAG_INT, &options.max_steps, "0", "end after so many steps; 0: epochs say",
        .min = 0, .max = INT64_MAX},
    {"lr", CO_FLAG_FLOAT, &options.lr, "0.1", "learning rate"},
    {"momentum", CO_FLAG_FLOAT, &options.momentum, "0.9", "of the velocity, a step"},
    {"l2-decay", CO_FLAG_FLOAT, &options.l2_decay, "0.0001", "share of a weight in its gradient"},
    {"schedule", CO_FLAG_STR, &options.schedule, "constant",
        "of the learning rate: constant, piecewise (--boundaries) or cosine"},
    {"boundaries", CO_FLAG_STR, &options.boundaries, "30,60,80",
        "epochs after which the rate is a tenth of what it was"},
    {"warmup-epochs", CO_FLAG_INT, &options.warmup_epochs, "0",
        "the rate grows linearly from 0 meanwhile", .min = 0, .max = 1000000},
    {"label-smoothing", CO_FLAG_FLOAT, &options.label_smoothing, "0",
        "share of the target that all classes have alike"},
    {"sync-bn", CO_FLAG_BOOL, &options.sync_bn, NULL,
        "batch normalisation over the batches of all workers together"},
    {"precision", CO_FLAG_STR, &options.precision, "f32",
        "of convolutions and activations: f32, bf16, or auto: bf16 if all workers' processors have "
        "instructions for it; weights stay f32"},
    {"threads", CO_FLAG_INT, &options.threads, "0",
        "that compute; 0: OMP_NUM_THREADS, or the cores over the workers of this machine", .min = 0,
        .max = 1024},
    {"loader-threads", CO_FLAG_INT, &options.loader_threads, "0",
        "that decode images; 0: the cores, 4 at most", .min = 0, .max = 256},
    {"prefetch", CO_FLAG_INT, &options.prefetch, "3", "batches decoded ahead", .min = 1,
        .max = 256},
    {"bad-images", CO_FLAG_STR, &options.bad_images, "skip",
        "skip: name an image that cannot be read, take the next one; fail: end"},
    {"checkpoint", CO_FLAG_STR, &options.checkpoint, "",
        "directory of checkpoints, one an epoch, by the first worker; training resumes from the "
        "newest; empty: none"},
    {"load", CO_FLAG_STR, &options.load, "",
        "no training: a directory of checkpoints, whose newest --test tests, and classify asks"},
    {"top", CO_FLAG_INT, &options.top, "5", "classify: classes to print", .min = 1,
        .max = RN_CLASSES_MAX},
    {"json", CO_FLAG_BOOL, &options.json, NULL, "classify: print a JSON object a line"},
    {"checkpoint-every", CO_FLAG_INT, &options.checkpoint_every, "0", "steps; 0: epochs only",
        .min = 0, .max = INT64_MAX},
    {"log-every", CO_FLAG_INT, &options.log_every, "5", "batches between two lines", .min = 1,
        .max = INT64_MAX},
    {"figures", CO_FLAG_BOOL, &options.figures, NULL, "learning rate and images/s in each line"},
    {"test", CO_FLAG_BOOL, &options.test, NULL, "test after the last epoch"},
    {"generate", CO_FLAG_STR, &options.generate, "",
        "no training: writes generated pictures to this directory, as --data reads them"},
    {"images", CO_FLAG_INT, &options.images, "4096",
        "generated: three quarters to train, an eighth to test", .min = 8, .max = 65535},
    {"seed", CO_FLAG_INT, &options.seed, "1", "of initial values, pieces of images, generated data",
        .min = 0, .max = INT64_MAX},
    {"local", CO_FLAG_BOOL, &options.local, NULL, "train alone, whatever the environment says"},
    {"log-level", CO_FLAG_STR, &log_level, "info", "error, warn, info or debug"},
};

static int options_check(struct co_err *err) {
    enum co_log_level level = CO_LOG_INFO;
    CO_TRY(co_log_level_parse(log_level, &level, err));
    co_log_setup(level, CO_LOG_LOGFMT);
    static const char *const precisions[] = {"f32", "bf16", "auto", NULL};
    static const char *const bad_images[] = {"skip", "fail", NULL};
    unsigned word = 0;
    CO_TRY(co_parse_word("--precision", options.precision, precisions, false, &word, err));
    CO_TRY(co_parse_word("--bad-images", options.bad_images, bad_images, false, &word, err));
    if (!(options.lr >= 0.0 && options.momentum >= 0.0 && options.l2_decay >= 0.0)) {
        return co_err_set(err, CO_INVALID, "--lr, --momentum and --l2-decay: expected 0 or more");
    }
    if (!(options.label_smoothing >= 0.0 && options.label_smoothing < 1.0)) {
        return co_err_set(
            err, CO_INVALID, "--label-smoothing is %g, expected 0 to 1", options.label_smoothing);
    }
    if (options.generate[0] == '\0' && strcmp(options.precision, "bf16") == 0) {
        CO_TRY(rn_plan_supported(RN_BF16, err));
    }
    return 0;
}

static int train(const struct rt_job *job, struct co_err *err) {
    if (options.load[0] == '\0') {
        return rn_train(job, &options, NULL, err);
    }
    return options.test
               ? rn_test(job, &options, err)
               : co_err_set(err, CO_INVALID,
                     "--load needs --test, or the word classify before the flags: training "
                     "resumes by --checkpoint");
}

static int classify(char *const *pictures, size_t n, struct co_err *err) {
    return options.load[0] != '\0'
               ? rn_classify(&options, pictures, n, err)
               : co_err_set(err, CO_INVALID, "classify needs --load, a directory of checkpoints");
}

static int generate(struct co_err *err) {
    const struct rn_gen gen = {.seed = (uint64_t)options.seed,
        .classes = (uint32_t)options.class_dim,
        .edge = (uint32_t)(options.image_size * 8 / 7),
        .images = (uint32_t)options.images};

    return rn_gen_write(&gen, options.generate, err);
}

static struct da_task task(void) {
    return (struct da_task){"generating data", options.generate[0] != '\0' ? generate : NULL};
}

int main(int argc, char *argv[]) {
    static const struct da_word words[] = {{"classify", "classifying", "PICTURE...", classify}};
    static const struct da_program program = {.name = "resnet50",
        .usage =
            "resnet50 [flags]: trains\n       resnet50 --test --load DIR [flags]: tests\n       "
            "resnet50 classify --load DIR [flags] PICTURE...: what is on JPEG files",
        .words = words,
        .n_words = CO_ARRAY_LEN(words),
        .flags = flags,
        .n_flags = CO_ARRAY_LEN(flags),
        .local = &options.local,
        .check = options_check,
        .task = task,
        .train = train,
        .collective = true};

    return da_program(&program, argc, argv);
}
