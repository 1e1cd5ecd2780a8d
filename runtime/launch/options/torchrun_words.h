/* torchrun's command line: a table of its options (`paddlerun torchrun`, docs/torchrun.md), and
 * what to write for them behind `paddlerun launch`.  It is a table of its own, as torchrun's
 * defaults are others, and as its names would change what launch takes for an abbreviation.
 *
 * Pure: what is to be found out about the machine is given. */
#pragma once

#include "common/buf.h"
#include "common/flag.h"
#include "runtime/launch/options/list.h"

enum options_torchrun {
    OPTIONS_TORCHRUN_NNODES,
    OPTIONS_TORCHRUN_NPROC,
    OPTIONS_TORCHRUN_NODE_RANK,
    OPTIONS_TORCHRUN_BACKEND,
    OPTIONS_TORCHRUN_ENDPOINT,
    OPTIONS_TORCHRUN_ID,
    OPTIONS_TORCHRUN_CONF,
    OPTIONS_TORCHRUN_STANDALONE,
    OPTIONS_TORCHRUN_MASTER_ADDR,
    OPTIONS_TORCHRUN_MASTER_PORT,
    OPTIONS_TORCHRUN_LOCAL_ADDR,
    OPTIONS_TORCHRUN_MAX_RESTARTS,
    OPTIONS_TORCHRUN_MODULE,
    OPTIONS_TORCHRUN_NO_PYTHON,
    OPTIONS_TORCHRUN_RUN_PATH,
    OPTIONS_TORCHRUN_LOG_DIR,
    OPTIONS_TORCHRUN_REDIRECTS,
    OPTIONS_TORCHRUN_TEE,
    OPTIONS_TORCHRUN_SHUTDOWN_TIMEOUT,
    OPTIONS_TORCHRUN_ROLE,
    OPTIONS_TORCHRUN_MONITOR_INTERVAL,
    OPTIONS_TORCHRUN_START_METHOD,
    OPTIONS_TORCHRUN_EVENT_LOG_HANDLER,
    OPTIONS_TORCHRUN_LINE_PREFIX,
    OPTIONS_TORCHRUN_RANKS_FILTER,
    OPTIONS_TORCHRUN_STDOUT_FILTERS,
    OPTIONS_TORCHRUN_STDERR_FILTERS,
    OPTIONS_TORCHRUN_LOGS_SPECS,
    OPTIONS_TORCHRUN_NUMA_BINDING,
    OPTIONS_TORCHRUN_SIGNALS,
    OPTIONS_TORCHRUN_VIRTUAL_RANK,
    OPTIONS_TORCHRUN_COMPLETION,
    OPTIONS_TORCHRUN_DRY_RUN,
    OPTIONS_TORCHRUN_COUNT,
};

/* What was given; borrowed from argv. */
struct options_torchrun_given {
    const char *text[OPTIONS_TORCHRUN_COUNT]; /* "": not given */
    bool on[OPTIONS_TORCHRUN_COUNT];
    char *const *script; /* the script and its arguments */
    int n_script;
};

/* About the machine. */
struct options_torchrun_place {
    const char *python; /* program for scripts */
    bool inside;        /* a pod's environment says who the other nodes are */
    uint16_t port; /* a free one, where the launchers of a node meet that may restart; 0: none */
};

enum { OPTIONS_TORCHRUN_FLAGS = 3 * OPTIONS_TORCHRUN_COUNT };
/* Rows for options_command_flags that fill *to, and their number: each name with dashes, with
 * underscores, and its letter. */
size_t options_torchrun_flags(
    struct options_torchrun_given *to, struct co_flag ret[OPTIONS_TORCHRUN_FLAGS]);
/* Whether the processes of a single node may be started again, for which its launcher meets itself
 * at a port. */
bool options_torchrun_wants_port(const struct options_torchrun_given *g, bool inside);
/* The words behind "paddlerun".  CO_INVALID, CO_UNSUPPORTED: one line that says what to write. */
CO_MUST_CHECK int options_torchrun_words(const struct options_torchrun_given *g,
    const struct options_torchrun_place *at, struct options_list *ret, struct co_err *err);
/* More than one process was asked for: torchrun lets each compute with one thread then. */
bool options_torchrun_several(const struct options_torchrun_given *g);
/* Whether the first len letters of word are a name of torchrun's, with dashes or underscores. */
bool options_torchrun_knows(const char *word, size_t len);
/* The table of docs/torchrun.md. */
CO_MUST_CHECK int options_torchrun_markdown(struct co_buf *ret, struct co_err *err);
