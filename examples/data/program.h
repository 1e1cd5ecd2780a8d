/* The main function that all training programs share: flags, a task that is no training, the job
 * that the environment describes, and exit codes. */
#pragma once

#include "common/contract.h"
#include "common/flag.h"
#include "runtime/rt.h"

struct da_task {
    const char *what; /* for the log: "training" */
    int (*run)(struct co_err *err);
};

/* What "NAME WORD [flags] [ARGUMENT...]" does in place of training. */
struct da_word {
    const char *name;
    const char *what;      /* for the log: "preparing data" */
    const char *arguments; /* for the usage: "USER MOVIE..."; NULL: it takes none */
    int (*run)(char *const *arguments, size_t n, struct co_err *err);
};

/* A flag whose default a variable is, where it is set. */
struct da_variable {
    const char *flag;
    enum co_var var;
};

struct da_program {
    const char *name, *usage;
    const struct co_flag *flags;
    size_t n_flags;
    const struct da_variable *variables;
    size_t n_variables;
    const bool *local;                /* --local: da_forget_job; NULL: no such flag */
    int (*check)(struct co_err *err); /* of what the flags say; NULL: nothing to check */
    const struct da_word *words;
    size_t n_words;
    struct da_task (*task)(void); /* what the flags ask for; run NULL: training */
    int (*train)(const struct rt_job *job, struct co_err *err);
    bool collective; /* its jobs have no servers */
};

/* The body of main.  Besides the program's flags it takes --is_cloud and --use_gpu, which Paddle's
 * programs have, and says that they have no effect.  Returns the exit code: 2 for what must be
 * changed before another try, else by co_code_exit. */
int da_program(const struct da_program *p, int argc, char *argv[]);
