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
enum rl_option {
    RL_OPT_AUTO_CLUSTER_CONFIG,
    RL_OPT_AUTO_PARALLEL_CONFIG,
    RL_OPT_AUTO_TUNER_JSON,
    RL_OPT_BACKEND,
    RL_OPT_CLUSTER_TOPO_PATH,
    RL_OPT_COMPAT,
    RL_OPT_COORDINATOR_NUM,
    RL_OPT_COORDINATORS,
    RL_OPT_CPU_AFFINITY,
    RL_OPT_DEVICES,
    RL_OPT_DRY_RUN,
    RL_OPT_ELASTIC_LEVEL,
    RL_OPT_ELASTIC_PRE_HOOK,
    RL_OPT_ELASTIC_SERVER,
    RL_OPT_ELASTIC_TIMEOUT,
    RL_OPT_ENABLE_AUTO_MAPPING,
    RL_OPT_ENABLE_GPU_LOG,
    RL_OPT_FORCE,
    RL_OPT_GLOO_PORT,
    RL_OPT_HETER_DEVICES,
    RL_OPT_HETER_WORKER_NUM,
    RL_OPT_HETER_WORKERS,
    RL_OPT_HOST,
    RL_OPT_HTTP_PORT,
    RL_OPT_IPS,
    RL_OPT_JOB_ID,
    RL_OPT_JOIN_TIMEOUT,
    RL_OPT_LEGACY,
    RL_OPT_LOG_DIR,
    RL_OPT_LOG_LEVEL,
    RL_OPT_LOG_MAX_SIZE,
    RL_OPT_LOG_OVERWRITE,
    RL_OPT_MASTER,
    RL_OPT_MAX_RESTART,
    RL_OPT_NNODES,
    RL_OPT_NP,
    RL_OPT_NPROC_PER_NODE,
    RL_OPT_PRINT_CONFIG,
    RL_OPT_RANK,
    RL_OPT_RANK_MAPPING_PATH,
    RL_OPT_REQUIRE_TOKEN,
    RL_OPT_RUN_MODE,
    RL_OPT_SCALE,
    RL_OPT_SERVER_NUM,
    RL_OPT_SERVERS,
    RL_OPT_SILENT_TIMEOUT,
    RL_OPT_SORT_IP,
    RL_OPT_START_PORT,
    RL_OPT_STOP_TIMEOUT,
    RL_OPT_TERMINATION_LOG,
    RL_OPT_TRAINER_NUM,
    RL_OPT_TRAINERS,
    RL_OPT_SCRIPT,
    RL_OPT_SCRIPT_ARGS,
    RL_OPT_USE_PADDLECLOUD,
    RL_OPT_WITH_GLOO,
    RL_OPT_WORKER_NUM,
    RL_OPT_WORKERS,
    RL_OPT_COUNT,
};

/* The Paddle launcher whose log lines and files are imitated. */
enum rl_format {
    RL_FORMAT_3,   /* 2.4 to 3.x */
    RL_FORMAT_2_3, /* the first of the new launchers */
    RL_FORMAT_2_0, /* fleetrun of 2.0 to 2.2, which later versions call legacy */
    RL_FORMAT_COUNT,
};

enum rl_option_type {
    RL_OPTION_TEXT,
    RL_OPTION_INT,      /* within the row's min..max */
    RL_OPTION_BOOL,     /* needs a value */
    RL_OPTION_SWITCH,   /* needs none; one may follow after "=" */
    RL_OPTION_DURATION, /* Go's syntax; a bare number is seconds */
    RL_OPTION_SIZE,     /* bytes; K, M or G may follow the number */
    RL_OPTION_WORDS,    /* no option: the script and the words behind it */
};

/* How an option compares with Paddle's option of the same name. */
enum rl_verdict {
    RL_SAME,
    RL_BETTER,
    RL_IGNORED, /* accepted, but without effect */
    RL_REFUSED, /* an error with a reason */
    RL_OURS,    /* Paddle has no such option */
};

struct rl_option_row {
    const char *name;
    const char *alias[3]; /* other names; NULL: none */
    /* Names that only launchers before 2.4 had.  They cannot be abbreviated, and select
     * RL_FORMAT_2_0 as `legacy` does. */
    const char *old_alias[2];
    const char *env; /* variable that wins over the command line; NULL: none */
    enum rl_option_type type;
    const char *def;          /* default; NULL: Python's None */
    const char *old_def;      /* in RL_FORMAT_2_3 and RL_FORMAT_2_0, if it differs */
    const char *old_name;     /* in the configuration block of RL_FORMAT_2_0, if it differs */
    unsigned formats;         /* mask: the formats whose configuration block has it */
    int64_t min, max;         /* of RL_OPTION_INT; min also of RL_OPTION_DURATION */
    const char *const *words; /* allowed values, ends with NULL; NULL: any */
    enum rl_verdict verdict;
    bool legacy;      /* selects RL_FORMAT_2_0, as in Paddle, unless there is a master */
    const char *help; /* one line */
    const char *note; /* with RL_BETTER, RL_IGNORED and RL_REFUSED: the difference, or the reason */
};

extern const struct rl_option_row rl_option_rows[RL_OPT_COUNT];

struct rl_options {
    const char *text[RL_OPT_COUNT]; /* NULL: Python's None */
    int64_t number[RL_OPT_COUNT];   /* of INT, BOOL (0, 1), DURATION (ms), SIZE; -1: None */
    enum rl_option_origin {
        RL_FROM_DEFAULT,
        RL_FROM_COMMAND_LINE,
        RL_FROM_ENVIRONMENT
    } origin[RL_OPT_COUNT];
    const char
        *alias[RL_OPT_COUNT]; /* the name used on the command line, without dashes; or NULL */
    bool by_old_alias[RL_OPT_COUNT]; /* that name is one of old_alias */
    enum rl_format format;
    char *const *script; /* the training script and its arguments, ends with NULL */
    int n_script;
    /* Lines that Paddle's launcher prints on stdout about variables that win. */
    struct co_buf notes;
    char *held[RL_OPT_COUNT]; /* owned texts of numbers, as Paddle prints them */
};

typedef const char *(*rl_plan_getenv_fn)(void *arg, const char *name);

/* argv[0] is the command.  CO_INVALID: the error is one line with the option, its value and what
 * was expected; CO_CANCELED: --help was given. */
CO_MUST_CHECK int rl_options_parse(int argc, char *const argv[], rl_plan_getenv_fn get, void *arg,
    struct rl_options *ret, struct co_err *err);
void rl_options_done(struct rl_options *o);

static inline bool rl_option_given(const struct rl_options *o, enum rl_option id) {
    return o->origin[id] != RL_FROM_DEFAULT;
}
/* The option has a value, and it is not "". */
static inline bool rl_option_has(const struct rl_options *o, enum rl_option id) {
    return o->text[id] && *o->text[id];
}

extern const char rl_options_usage[];
/* The kind of value that --help shows for an option; "": it has none. */
const char *rl_option_metavar(const struct rl_option_row *row);
/* The i-th name of the row, counted from 0; NULL: there are no more. */
const char *rl_option_name(const struct rl_option_row *row, size_t i);
/* Whether --help lists it: it is an option and has an effect. */
bool rl_option_is_listed(const struct rl_option_row *row);
/* The text of --help and the rows of docs/launch.md. */
CO_MUST_CHECK int rl_options_help(struct co_buf *ret, struct co_err *err);
CO_MUST_CHECK int rl_options_markdown(struct co_buf *ret, struct co_err *err);
