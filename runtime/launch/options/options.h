/* Options of `paddlerun launch`: every option that Paddle's launchers of 2.0 to 3.x have, and a
 * few of our own, as one table of rows.  Parsing, the configuration block, --help and
 * docs/launch.md come from the rows.
 *
 * The command line is read as argparse reads it: --name value, --name=value, a prefix that fits
 * one option only; the first other word is the training script and everything behind it the
 * script's.  The environment beats the command line, as in Paddle.  Pure: the environment comes
 * through a function; texts are borrowed from argv, the environment and the rows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

/* Sorted by name: the configuration block prints them in this order. */
enum rt_option {
    RT_OPT_AUTO_CLUSTER_CONFIG,
    RT_OPT_AUTO_PARALLEL_CONFIG,
    RT_OPT_AUTO_TUNER_JSON,
    RT_OPT_BACKEND,
    RT_OPT_CLUSTER_TOPO_PATH,
    RT_OPT_COMPAT,
    RT_OPT_COORDINATOR_NUM,
    RT_OPT_COORDINATORS,
    RT_OPT_CPU_AFFINITY,
    RT_OPT_DEVICES,
    RT_OPT_DRY_RUN,
    RT_OPT_ELASTIC_LEVEL,
    RT_OPT_ELASTIC_PRE_HOOK,
    RT_OPT_ELASTIC_SERVER,
    RT_OPT_ELASTIC_TIMEOUT,
    RT_OPT_ENABLE_AUTO_MAPPING,
    RT_OPT_ENABLE_GPU_LOG,
    RT_OPT_FORCE,
    RT_OPT_GLOO_PORT,
    RT_OPT_HETER_DEVICES,
    RT_OPT_HETER_WORKER_NUM,
    RT_OPT_HETER_WORKERS,
    RT_OPT_HOST,
    RT_OPT_HTTP_PORT,
    RT_OPT_IPS,
    RT_OPT_JOB_ID,
    RT_OPT_JOIN_TIMEOUT,
    RT_OPT_LEGACY,
    RT_OPT_LOG_DIR,
    RT_OPT_LOG_LEVEL,
    RT_OPT_LOG_MAX_SIZE,
    RT_OPT_LOG_OVERWRITE,
    RT_OPT_MASTER,
    RT_OPT_MAX_RESTART,
    RT_OPT_NNODES,
    RT_OPT_NP,
    RT_OPT_NPROC_PER_NODE,
    RT_OPT_RANK,
    RT_OPT_RANK_MAPPING_PATH,
    RT_OPT_RUN_MODE,
    RT_OPT_SCALE,
    RT_OPT_SERVER_NUM,
    RT_OPT_SERVERS,
    RT_OPT_SILENT_TIMEOUT,
    RT_OPT_SORT_IP,
    RT_OPT_START_PORT,
    RT_OPT_STOP_TIMEOUT,
    RT_OPT_TERMINATION_LOG,
    RT_OPT_TRAINER_NUM,
    RT_OPT_TRAINERS,
    RT_OPT_SCRIPT,
    RT_OPT_SCRIPT_ARGS,
    RT_OPT_WITH_GLOO,
    RT_OPT_WORKER_NUM,
    RT_OPT_WORKERS,
    RT_OPT_COUNT,
};

/* Whose words and files are imitated. */
enum rt_format {
    RT_FORMAT_3,   /* 2.4 to 3.x */
    RT_FORMAT_2_3, /* the first of the new launchers */
    RT_FORMAT_2_0, /* fleetrun of 2.0 to 2.2, which later ones call legacy */
    RT_FORMAT_COUNT,
};

enum rt_option_type {
    RT_OPTION_TEXT,
    RT_OPTION_INT,      /* row's min..max */
    RT_OPTION_BOOL,     /* takes a value */
    RT_OPTION_SWITCH,   /* takes none, or one with "=" */
    RT_OPTION_DURATION, /* Go's syntax; a bare number is seconds */
    RT_OPTION_SIZE,     /* bytes; K, M, G behind it */
    RT_OPTION_WORDS,    /* the script and what is behind it: no option */
};

/* How an option of Paddle's fares here. */
enum rt_verdict {
    RT_SAME,
    RT_BETTER,
    RT_IGNORED, /* taken, without effect */
    RT_REFUSED, /* an error that says why */
    RT_OURS,    /* Paddle has no such option */
};

struct rt_option_row {
    const char *name;
    const char *alias[3]; /* other names; NULL: none */
    const char *env;      /* variable that beats the command line; NULL: none */
    enum rt_option_type type;
    const char *def;          /* NULL: None */
    const char *old_def;      /* in RT_FORMAT_2_3 and RT_FORMAT_2_0, where it differs */
    const char *old_name;     /* in the configuration block of RT_FORMAT_2_0, where it differs */
    unsigned formats;         /* mask: whose configuration block has it */
    int64_t min, max;         /* of RT_OPTION_INT; min of RT_OPTION_DURATION, too */
    const char *const *words; /* the values it may have, ends with NULL; NULL: any */
    enum rt_verdict verdict;
    bool legacy;      /* selects RT_FORMAT_2_0, as it does with Paddle, unless there is a master */
    const char *help; /* one line */
    const char *note; /* for RT_BETTER, RT_IGNORED and RT_REFUSED: what differs, or why */
};

extern const struct rt_option_row rt_option_rows[RT_OPT_COUNT];

struct rt_options {
    const char *text[RT_OPT_COUNT]; /* NULL: None */
    int64_t number[RT_OPT_COUNT];   /* of INT, BOOL (0, 1), DURATION (ms), SIZE; None: -1 */
    enum rt_option_origin {
        RT_FROM_DEFAULT,
        RT_FROM_COMMAND_LINE,
        RT_FROM_ENVIRONMENT
    } origin[RT_OPT_COUNT];
    const char *alias[RT_OPT_COUNT]; /* the name it was given by, without dashes; or NULL */
    enum rt_format format;
    char *const *script; /* the training script and its arguments, ends with NULL */
    int n_script;
    /* What Paddle's launcher says on stdout about variables that win; lines. */
    struct co_buf notes;
    char *held[RT_OPT_COUNT]; /* owned copies of values as Paddle prints them */
};

typedef const char *(*rt_plan_getenv_fn)(void *arg, const char *name);

/* argv[0] is the command.  CO_INVALID: one line that names the option, its value and what was
 * expected; CO_CANCELED: --help was asked for. */
CO_MUST_CHECK int rt_options_parse(int argc, char *const argv[], rt_plan_getenv_fn get, void *arg,
    struct rt_options *ret, struct co_err *err);
void rt_options_done(struct rt_options *o);

static inline bool rt_option_given(const struct rt_options *o, enum rt_option id) {
    return o->origin[id] != RT_FROM_DEFAULT;
}
/* Set, and not to "". */
static inline bool rt_option_has(const struct rt_options *o, enum rt_option id) {
    return o->text[id] && *o->text[id];
}

/* The text of --help and the rows of docs/launch.md. */
CO_MUST_CHECK int rt_options_help(struct co_buf *ret, struct co_err *err);
CO_MUST_CHECK int rt_options_markdown(struct co_buf *ret, struct co_err *err);
