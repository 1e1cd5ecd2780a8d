/* What a program's manual page and its completion by bash and zsh are printed from: its commands
 * and their flags, as the tables of the code have them.
 *
 *     struct co_manual m = {.program = "paddlerun", ...};
 *     co_flags_read(co_manual_flags, co_manual_add(&m, "info", NULL, "what ..."));
 *     (void)cmd_info(2, (char *[]){"info", "--help", NULL});
 *
 * Texts are borrowed and must outlive it: they are those of the code.  One thread. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "common/flag.h"

enum { CO_MANUAL_NAMES = 8 };

struct co_manual_flag {
    const char *names[CO_MANUAL_NAMES + 1]; /* without dashes; ends with NULL */
    const char *value; /* what it takes: FILE, or words joined by "|"; "": it takes none */
    const char *def;   /* "": none */
    const char *help;
};

struct co_manual_command {
    const char *name;    /* "ckpt ls": a command of a command; "": the program without one */
    const char *alias;   /* another name; NULL: none */
    const char *summary; /* a line */
    const char *usage; /* as --help begins: the synopsis, and what it does; NULL: no more to say */
    struct co_manual_flag *flags; /* owned */
    size_t n;
};

struct co_manual {
    const char *program, *summary;
    int section;      /* of the manual */
    const char *also; /* a name of the program that stands for a command: its alias; or NULL */
    const char *description;            /* paragraphs */
    struct co_manual_command *commands; /* owned */
    size_t n;
};

/* The command that the next flags are of; valid until the next one is added. */
struct co_manual_command *co_manual_add(
    struct co_manual *m, const char *name, const char *alias, const char *summary);
/* Copies the flag. */
void co_manual_add_flag(struct co_manual_command *c, const struct co_manual_flag *flag);
/* Takes what --help would print; a co_flags_reader_fn whose arg is the command. */
void co_manual_flags(void *command, const char *usage, const struct co_flag *flags, size_t n);

void co_manual_man(FILE *out, const struct co_manual *m);
/* To be sourced. */
void co_manual_bash(FILE *out, const struct co_manual *m);
/* A file of $fpath, named _PROGRAM. */
void co_manual_zsh(FILE *out, const struct co_manual *m);
void co_manual_done(struct co_manual *m);
