/* `paddlerun docs`: prints reference pages, the manual and shell completions from the tables in the
 * code.  tools/generate writes them to docs/. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/manual.h"
#include "common/mem.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/cmd/commands.h"
#include "runtime/launch/node/devices.h"
#include "runtime/launch/options/options.h"
#include "runtime/launch/options/torchrun_words.h"
#include "runtime/tools/tools.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/optim/rules_page.h"

enum { PAGE_MAX = 1 << 20, JOINED_MAX = 128, OLD_NAMES = 2, NAMES = 4, CKPT_MAX = 16 };

static_assert(OLD_NAMES + NAMES <= CO_MANUAL_NAMES, "an option has so many names");

/* ---- the manual ---------------------------------------------------------------------------- */

/* The allowed values of an option: "a|b". */
static const char *joined(const struct options_option_row *row) {
    static char all[OPTIONS_OPT_COUNT][JOINED_MAX];
    char *text = all[row - options_option_rows];
    *text = '\0';
    for (size_t i = 0; row->words[i]; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, JOINED_MAX - len, "%s%s", i ? "|" : "", row->words[i]);
    }
    return text;
}

static void add_options(struct co_manual_command *c) {
    c->usage = options_usage;
    for (size_t i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        if (!options_option_is_listed(row)) {
            continue;
        }
        struct co_manual_flag f = {.value = row->words ? joined(row) : options_option_metavar(row),
            .def = row->def ? row->def : "",
            .help = row->help};
        size_t n = 0;
        for (; options_option_name(row, n); n++) {
            f.names[n] = options_option_name(row, n);
        }
        for (size_t k = 0; k < OLD_NAMES && row->old_alias[k]; k++) {
            f.names[n++] = row->old_alias[k];
        }
        co_manual_add_flag(c, &f);
    }
}

/* Adds a command to the manual, with the flags that `paddlerun NAME WORD --help` would print. */
static void add_help(struct co_manual *m, int (*run)(int argc, char **argv), const char *full,
    const char *alias, const char *summary, const char *name, const char *word) {
    char *argv[] = {
        (char *)name, (char *)(word ? word : "--help"), (char *)(word ? "--help" : NULL), NULL};
    co_flags_read(co_manual_flags, co_manual_add(m, full, alias, summary));
    (void)run(word ? 3 : 2, argv);
    co_flags_read(NULL, NULL);
}

static void add_ckpt(struct co_manual *m) {
    static char full[CKPT_MAX][JOINED_MAX];
    const char *name, *help;
    for (size_t i = 0; i < CKPT_MAX && (name = tool_ckpt_command(i, &help)) != NULL; i++) {
        (void)snprintf(full[i], JOINED_MAX, "ckpt %s", name);
        add_help(m, tool_ckpt, full[i], NULL, help, "ckpt", name);
    }
}

static void read_manual(struct co_manual *m) {
    *m = (struct co_manual){.program = "paddlerun",
        .summary = "launcher of Paddle's training processes",
        .section = 1,
        .also = "fleetrun",
        .description =
            "Starts training processes on one node or many, is the first process of a container, "
            "runs a whole\nPaddleJob on one machine, and looks at running trainings and their "
            "checkpoints.\n\nAs a container's first process, words that are no command are run as "
            "exec would.  Under the name\nfleetrun it is the command launch."};
    (void)co_manual_add(m, "", NULL, "the commands below");
    for (size_t i = 0; i < CMD_COMMAND_COUNT; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        if (c->says) {
            add_help(m, c->run, c->name, c->alias, c->summary, c->name, NULL);
            continue;
        }
        struct co_manual_command *row = co_manual_add(m, c->name, c->alias, c->summary);
        if (c->run == cmd_launch) {
            add_options(row);
        } else if (c->run == tool_ckpt) {
            add_ckpt(m);
        }
    }
}

/* ---- pages --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*print)(struct co_buf *to, struct co_err *err); /* or */
    void (*print_manual)(FILE *out, const struct co_manual *of);
} pages[] = {{"launch", options_markdown, NULL}, {"torchrun", options_torchrun_markdown, NULL},
    {"hardware", node_devices_markdown, NULL}, {"rules", optim_markdown, NULL},
    {"metrics", meter_markdown, NULL}, {"man", NULL, co_manual_man}, {"bash", NULL, co_manual_bash},
    {"zsh", NULL, co_manual_zsh}};

int cmd_docs(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < CO_ARRAY_LEN(pages); i++) {
        if (strcmp(argv[1], pages[i].name) != 0) {
            continue;
        }
        if (pages[i].print_manual) {
            CO_CLEANUP(co_manual_done) struct co_manual m = {0};
            read_manual(&m);
            pages[i].print_manual(stdout, &m);
            return 0;
        }
        CO_AUTOBUF struct co_buf b = CO_BUF(PAGE_MAX);
        if (pages[i].print(&b, NULL) == 0) {
            (void)fputs(b.data, stdout);
            return 0;
        }
    }
    const bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    (void)fputs("Usage: paddlerun docs launch|torchrun|hardware|rules|metrics|man|bash|zsh\n",
        help ? stdout : stderr);
    return help ? 0 : OPTIONS_USAGE;
}
