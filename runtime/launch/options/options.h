/* The options of `paddlerun launch`: every option of Paddle's launchers of 2.0 to 3.x, and a few of
 * our own, in one table (option_rows.c).  The parser, the configuration block, --help and
 * docs/launch.md all use the table.
 *
 * The command line is parsed as Python's argparse does, which Paddle uses: --name value,
 * --name=value, or an unambiguous prefix of a name.  The first other word is the training script,
 * and all words behind it belong to the script.  As in Paddle, variables of the environment win
 * over the command line.
 *
 * Pure: the environment comes through a function.  Texts are borrowed from argv, the environment
 * and the table. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

/* Sorted by name: the configuration block prints them in this order. */
enum options_option {
    OPTIONS_OPT_AUTO_CLUSTER_CONFIG,
    OPTIONS_OPT_AUTO_PARALLEL_CONFIG,
    OPTIONS_OPT_AUTO_TUNER_JSON,
    OPTIONS_OPT_BACKEND,
    OPTIONS_OPT_CLUSTER_TOPO_PATH,
    OPTIONS_OPT_COMPAT,
    OPTIONS_OPT_COORDINATOR_NUM,
    OPTIONS_OPT_COORDINATORS,
    OPTIONS_OPT_CPU_AFFINITY,
    OPTIONS_OPT_DEVICES,
    OPTIONS_OPT_DRY_RUN,
    OPTIONS_OPT_ELASTIC_LEVEL,
    OPTIONS_OPT_ELASTIC_PRE_HOOK,
    OPTIONS_OPT_ELASTIC_SERVER,
    OPTIONS_OPT_ELASTIC_TIMEOUT,
    OPTIONS_OPT_ENABLE_AUTO_MAPPING,
    OPTIONS_OPT_ENABLE_GPU_LOG,
    OPTIONS_OPT_FORCE,
    OPTIONS_OPT_GLOO_PORT,
    OPTIONS_OPT_HETER_DEVICES,
    OPTIONS_OPT_HETER_WORKER_NUM,
    OPTIONS_OPT_HETER_WORKERS,
    OPTIONS_OPT_HOST,
    OPTIONS_OPT_HTTP_PORT,
    OPTIONS_OPT_IPS,
    OPTIONS_OPT_JOB_ID,
    OPTIONS_OPT_JOIN_TIMEOUT,
    OPTIONS_OPT_LEGACY,
    OPTIONS_OPT_LOG_DIR,
    OPTIONS_OPT_LOG_LEVEL,
    OPTIONS_OPT_LOG_MAX_SIZE,
    OPTIONS_OPT_LOG_OVERWRITE,
    OPTIONS_OPT_MASTER,
    OPTIONS_OPT_MAX_RESTART,
    OPTIONS_OPT_NNODES,
    OPTIONS_OPT_NP,
    OPTIONS_OPT_NPROC_PER_NODE,
    OPTIONS_OPT_PRINT_CONFIG,
    OPTIONS_OPT_RANK,
    OPTIONS_OPT_RANK_MAPPING_PATH,
    OPTIONS_OPT_REQUIRE_TOKEN,
    OPTIONS_OPT_RUN_MODE,
    OPTIONS_OPT_SCALE,
    OPTIONS_OPT_SERVER_NUM,
    OPTIONS_OPT_SERVERS,
    OPTIONS_OPT_SILENT_TIMEOUT,
    OPTIONS_OPT_SORT_IP,
    OPTIONS_OPT_START_PORT,
    OPTIONS_OPT_STOP_TIMEOUT,
    OPTIONS_OPT_TERMINATION_LOG,
    OPTIONS_OPT_TRAINER_NUM,
    OPTIONS_OPT_TRAINERS,
    OPTIONS_OPT_SCRIPT,
    OPTIONS_OPT_SCRIPT_ARGS,
    OPTIONS_OPT_USE_PADDLECLOUD,
    OPTIONS_OPT_WITH_GLOO,
    OPTIONS_OPT_WORKER_NUM,
    OPTIONS_OPT_WORKERS,
    OPTIONS_OPT_COUNT,
};

/* The Paddle launcher whose log lines and files are imitated. */
enum options_format {
    OPTIONS_FORMAT_3,   /* 2.4 to 3.x */
    OPTIONS_FORMAT_2_3, /* the first of the new launchers */
    OPTIONS_FORMAT_2_0, /* fleetrun of 2.0 to 2.2, which later versions call legacy */
    OPTIONS_FORMAT_COUNT,
};

enum options_option_type {
    OPTIONS_OPTION_TEXT,
    OPTIONS_OPTION_INT,      /* within the row's min..max */
    OPTIONS_OPTION_BOOL,     /* needs a value */
    OPTIONS_OPTION_SWITCH,   /* needs none; one may follow after "=" */
    OPTIONS_OPTION_DURATION, /* Go's syntax; a bare number is seconds */
    OPTIONS_OPTION_SIZE,     /* bytes; K, M or G may follow the number */
    OPTIONS_OPTION_WORDS,    /* no option: the script and the words behind it */
};

/* How an option compares with Paddle's option of the same name. */
enum options_support {
    OPTIONS_SAME,
    OPTIONS_BETTER,
    OPTIONS_IGNORED, /* accepted, but without effect */
    OPTIONS_REFUSED, /* an error with a reason */
    OPTIONS_OURS,    /* Paddle has no such option */
};

struct options_option_row {
    const char *name;
    const char *alias[3]; /* other names; NULL: none */
    /* Names that only launchers before 2.4 had.  They cannot be abbreviated, and select
     * OPTIONS_FORMAT_2_0 as `legacy` does. */
    const char *old_alias[2];
    const char *env; /* variable that wins over the command line; NULL: none */
    enum options_option_type type;
    const char *def;          /* default; NULL: Python's None */
    const char *old_def;      /* in OPTIONS_FORMAT_2_3 and OPTIONS_FORMAT_2_0, if it differs */
    const char *old_name;     /* in the configuration block of OPTIONS_FORMAT_2_0, if it differs */
    unsigned formats;         /* mask: the formats whose configuration block has it */
    int64_t min, max;         /* of OPTIONS_OPTION_INT; min also of OPTIONS_OPTION_DURATION */
    const char *const *words; /* allowed values, ends with NULL; NULL: any */
    enum options_support support;
    bool legacy;      /* selects OPTIONS_FORMAT_2_0, as in Paddle, unless there is a master */
    const char *help; /* one line */
    const char *note; /* with OPTIONS_BETTER, OPTIONS_IGNORED and OPTIONS_REFUSED: the difference,
                         or the reason */
};

extern const struct options_option_row options_option_rows[OPTIONS_OPT_COUNT];

struct options {
    const char *text[OPTIONS_OPT_COUNT]; /* NULL: Python's None */
    int64_t number[OPTIONS_OPT_COUNT];   /* of INT, BOOL (0, 1), DURATION (ms), SIZE; -1: None */
    enum options_option_origin {
        OPTIONS_FROM_DEFAULT,
        OPTIONS_FROM_COMMAND_LINE,
        OPTIONS_FROM_ENVIRONMENT
    } origin[OPTIONS_OPT_COUNT];
    const char
        *alias[OPTIONS_OPT_COUNT]; /* the name used on the command line, without dashes; or NULL */
    bool legacy; /* the command line has an option that selects OPTIONS_FORMAT_2_0 */
    enum options_format format;
    char *const *script; /* the training script and its arguments, ends with NULL */
    int n_script;
    /* Lines that Paddle's launcher prints on stdout about variables that win. */
    struct co_buf notes;
    char *held[OPTIONS_OPT_COUNT]; /* owned texts of numbers, as Paddle prints them */
};

typedef const char *(*options_plan_getenv_fn)(void *arg, const char *name);

/* argv[0] is the command.  CO_INVALID: the error is one line with the option, its value and what
 * was expected; CO_CANCELED: --help was given. */
CO_MUST_CHECK int options_parse(int argc, char *const argv[], options_plan_getenv_fn get, void *arg,
    struct options *ret, struct co_err *err);
void options_done(struct options *o);

static inline bool options_option_given(const struct options *o, enum options_option id) {
    return o->origin[id] != OPTIONS_FROM_DEFAULT;
}
/* The option has a value, and it is not "". */
static inline bool options_option_has(const struct options *o, enum options_option id) {
    return o->text[id] && *o->text[id];
}

extern const char options_usage[];
/* The kind of value that --help shows for an option; "": it has none. */
const char *options_option_metavar(const struct options_option_row *row);
/* The i-th name of the row, counted from 0; NULL: there are no more. */
const char *options_option_name(const struct options_option_row *row, size_t i);
/* Whether --help lists it: it is an option and has an effect. */
bool options_option_is_listed(const struct options_option_row *row);
/* The text of --help and the rows of docs/launch.md. */
CO_MUST_CHECK int options_help(struct co_buf *ret, struct co_err *err);
CO_MUST_CHECK int options_markdown(struct co_buf *ret, struct co_err *err);
