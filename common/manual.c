/* Prints manual pages (roff) and completions (bash, zsh) from the commands and flags that were
 * added. */
#include "common/manual.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"

/* ---- what is printed ---------------------------------------------------------------------- */

struct co_manual_command *co_manual_add(
    struct co_manual *m, const char *name, const char *alias, const char *summary) {
    m->commands = co_xrealloc(m->commands, m->n + 1, sizeof(*m->commands));
    struct co_manual_command *c = &m->commands[m->n++];
    *c = (struct co_manual_command){.name = name, .alias = alias, .summary = summary};
    return c;
}

void co_manual_add_flag(struct co_manual_command *c, const struct co_manual_flag *flag) {
    c->flags = co_xrealloc(c->flags, c->n + 1, sizeof(*c->flags));
    c->flags[c->n++] = *flag;
}

void co_manual_flags(void *command, const char *usage, const struct co_flag *flags, size_t n) {
    struct co_manual_command *c = command;
    c->usage = usage;
    for (size_t i = 0; i < n; i++) {
        if (!flags[i].hidden) {
            co_manual_add_flag(c, &(struct co_manual_flag){.names = {flags[i].name},
                                      .value = co_flag_metavar(&flags[i]),
                                      .def = co_flag_shown_default(&flags[i]),
                                      .help = flags[i].help});
        }
    }
}

void co_manual_done(struct co_manual *m) {
    for (size_t i = 0; i < m->n; i++) {
        free(m->commands[i].flags);
    }
    free(m->commands);
    m->commands = NULL;
    m->n = 0;
}

/* The last word of a command's name, if it is one of parent's: "ls" of "ckpt ls" below "ckpt". */
static const char *below(const struct co_manual_command *c, const char *parent) {
    size_t len = strlen(parent);
    if (strncmp(c->name, parent, len) != 0 || (len > 0 && c->name[len] != ' ')) {
        return NULL;
    }
    const char *word = c->name + len + (len > 0);
    return *word && !strchr(word, ' ') ? word : NULL;
}

static bool has_commands(const struct co_manual *m, const char *parent) {
    for (size_t i = 0; i < m->n; i++) {
        if (below(&m->commands[i], parent)) {
            return true;
        }
    }
    return false;
}

static bool is_words(const char *value) {
    return strchr(value, '|') != NULL;
}

static void put_spaced(FILE *out, const char *words) {
    for (; *words; words++) {
        (void)fputc(*words == '|' ? ' ' : *words, out);
    }
}

/* ---- the manual page ---------------------------------------------------------------------- */

static void put_roff(FILE *out, const char *text, size_t len) {
    if (len > 0 && (*text == '.' || *text == '\'')) {
        (void)fputs("\\&", out);
    }
    for (; len > 0; len--, text++) {
        if (*text == '-' || *text == '\\') {
            (void)fputs(*text == '-' ? "\\-" : "\\e", out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

/* Lines; an empty one begins a paragraph, those that are indented stay as they are. */
static void put_paragraphs(FILE *out, const char *text) {
    bool example = false, paragraph = false;
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        bool indented = strncmp(text, "    ", 4) == 0;
        if (len == 0) {
            paragraph = true;
            continue;
        }
        if (indented != example) {
            (void)fputs(indented ? ".PP\n.RS 4\n.nf\n" : ".fi\n.RE\n.PP\n", out);
        } else if (paragraph) {
            (void)fputs(".PP\n", out);
        }
        example = indented;
        paragraph = false;
        size_t skip = strspn(text, " ");
        put_roff(out, text + skip, len - skip);
        (void)fputc('\n', out);
    }
    (void)fputs(example ? ".fi\n.RE\n" : "", out);
}

static void put_man_flag(FILE *out, const struct co_manual_flag *f) {
    (void)fputs(".TP\n", out);
    for (size_t i = 0; f->names[i]; i++) {
        (void)fputs(i ? ", \\fB\\-\\-" : "\\fB\\-\\-", out);
        put_roff(out, f->names[i], strlen(f->names[i]));
        (void)fputs("\\fR", out);
    }
    if (*f->value) {
        (void)fputs(" \\fI", out);
        put_roff(out, f->value, strlen(f->value));
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    CO_AUTOFREE char *text =
        *f->def ? co_xasprintf("%s (default %s)", f->help, f->def) : co_xstrdup(f->help);
    put_roff(out, text, strlen(text));
    (void)fputc('\n', out);
}

static void put_man_command(
    FILE *out, const struct co_manual *m, const struct co_manual_command *c) {
    (void)fprintf(out, ".SS ");
    put_roff(out, m->program, strlen(m->program));
    (void)fputc(*c->name ? ' ' : '\n', out);
    if (*c->name) {
        put_roff(out, c->name, strlen(c->name));
        (void)fputc('\n', out);
    }
    CO_AUTOFREE char *summary = co_xasprintf(
        "%s%s%s", c->summary, c->alias ? "; another name: " : "", c->alias ? c->alias : "");
    put_paragraphs(out, summary);
    if (c->usage) {
        size_t len = strcspn(c->usage, "\n");
        (void)fputs(".PP\n.B ", out);
        put_roff(out, c->usage, len);
        (void)fputc('\n', out);
        const char *more = c->usage + len + strspn(c->usage + len, "\n");
        (void)fputs(*more ? ".PP\n" : "", out);
        put_paragraphs(out, more);
    }
    for (size_t i = 0; i < c->n; i++) {
        put_man_flag(out, &c->flags[i]);
    }
}

void co_manual_man(FILE *out, const struct co_manual *m) {
    (void)fprintf(
        out, ".\\\" Printed by `%s docs man`; edit the tables in the code.\n.TH ", m->program);
    for (const char *c = m->program; *c; c++) {
        (void)fputc(toupper((unsigned char)*c), out);
    }
    (void)fprintf(out, " %d \"\" \"\" \"PaddleJob\"\n.SH NAME\n", m->section);
    put_roff(out, m->program, strlen(m->program));
    (void)fputs(" \\- ", out);
    put_roff(out, m->summary, strlen(m->summary));
    (void)fputs("\n.SH SYNOPSIS\n.B ", out);
    put_roff(out, m->program, strlen(m->program));
    (void)fputs("\n.I COMMAND\n[\\fIflags\\fR] [\\fIwords\\fR]\n.SH DESCRIPTION\n", out);
    put_paragraphs(out, m->description);
    (void)fputs(".PP\nEvery command takes \\fB\\-\\-help\\fR.\n.SH COMMANDS\n", out);
    for (size_t i = 0; i < m->n; i++) {
        if (*m->commands[i].name || m->commands[i].n > 0) {
            put_man_command(out, m, &m->commands[i]);
        }
    }
}

/* ---- completion: what both shells need ----------------------------------------------------- */

/* A name as part of a function's. */
static void put_name(FILE *out, const char *name) {
    for (; *name; name++) {
        (void)fputc(isalnum((unsigned char)*name) ? *name : '_', out);
    }
}

/* ---- bash ---------------------------------------------------------------------------------- */

/* switches: those alone that take no value. */
static void put_bash_flags(FILE *out, const struct co_manual_command *c, bool switches) {
    (void)fputs(switches ? " switches='--help" : " flags='--help", out);
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; c->flags[i].names[k] && (!switches || !*c->flags[i].value); k++) {
            (void)fprintf(out, " --%s", c->flags[i].names[k]);
        }
    }
    (void)fputc('\'', out);
}

static void put_bash_values(FILE *out, const struct co_manual_flag *f) {
    (void)fputs("        ", out);
    for (size_t i = 0; f->names[i]; i++) {
        (void)fprintf(out, "%s--%s", i ? " | " : "", f->names[i]);
    }
    (void)fputs(") values='", out);
    put_spaced(out, f->value);
    (void)fputs("' ;;\n", out);
}

static void put_bash_command(
    FILE *out, const struct co_manual *m, const struct co_manual_command *c) {
    (void)fprintf(
        out, "    '%s'%s%s)\n       ", c->name, c->alias ? " | " : "", c->alias ? c->alias : "");
    put_bash_flags(out, c, false);
    put_bash_flags(out, c, true);
    (void)fputs(" commands='", out);
    bool first = true;
    for (size_t i = 0; i < m->n; i++) {
        const char *word = below(&m->commands[i], c->name);
        if (word) {
            (void)fprintf(out, "%s%s", first ? "" : " ", word);
            first = false;
        }
    }
    (void)fputs("'\n", out);
    first = true;
    for (size_t i = 0; i < c->n; i++) {
        if (is_words(c->flags[i].value)) {
            (void)fputs(first ? "        case $2 in\n" : "", out);
            put_bash_values(out, &c->flags[i]);
            first = false;
        }
    }
    (void)fputs(first ? "        ;;\n" : "        esac\n        ;;\n", out);
}

/* Words are cut at blanks by ourselves: bash cuts at "=", too, or not, as COMP_WORDBREAKS says. */
static const char bash_function[] =
    "{\n"
    "    local flags switches commands values command='' flag='' plain='' word current\n"
    "    local -a words\n"
    "    read -ra words <<<\"${COMP_LINE:0:COMP_POINT}x\"\n"
    "    current=${words[${#words[@]} - 1]%x}\n"
    "    COMPREPLY=()\n";
static const char bash_loop[] =
    "    for word in \"${words[@]:1:${#words[@]}-2}\"; do\n"
    "        if [[ $flag ]]; then\n"
    "            flag=''\n"
    "        elif [[ $word == -- ]]; then\n"
    "            plain=1\n"
    "        elif [[ ! $plain && $word == -* ]]; then\n"
    "            [[ $word == *=* || \" $switches \" == *\" $word \"* ]] || flag=$word\n"
    "        elif [[ ! $plain && \" $commands \" == *\" $word \"* ]]; then\n"
    "            command=${command:+$command }$word\n"
    "            $table \"$command\" ''\n"
    "        else\n"
    "            plain=1\n"
    "        fi\n"
    "    done\n"
    "    [[ ! $plain ]] || return 0      # a program's own words, or files\n"
    "    if [[ ! $flag && $current == --*=* ]]; then\n"
    "        $table \"$command\" \"${current%%=*}\"\n"
    "        word=''\n"
    "        [[ $COMP_WORDBREAKS == *=* ]] || word=${current%%=*}=\n"
    "        mapfile -t COMPREPLY < <(compgen -P \"$word\" -W \"$values\" -- \"${current#*=}\")\n"
    "    elif [[ $flag ]]; then\n"
    "        $table \"$command\" \"$flag\"\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$current\")\n"
    "    elif [[ $current == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$current\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$current\")\n"
    "    fi\n"
    "}\n";

void co_manual_bash(FILE *out, const struct co_manual *m) {
    (void)fprintf(out,
        "# shellcheck shell=bash\n"
        "# Completion of %s for bash, to be sourced.  Printed by `%s docs bash`; edit the tables "
        "in "
        "the code.\n\n# COMMAND FLAG: what may follow it\n_",
        m->program, m->program);
    put_name(out, m->program);
    (void)fputs(
        "_table() {\n    flags='' switches='' commands='' values=''\n    case $1 in\n", out);
    for (size_t i = 0; i < m->n; i++) {
        put_bash_command(out, m, &m->commands[i]);
    }
    (void)fputs("    esac\n}\n_", out);
    put_name(out, m->program);
    (void)fputs("() ", out);
    (void)fputs(bash_function, out);
    if (m->also) {
        (void)fprintf(out, "    [[ ${words[0]##*/} != %s ]] || command=%s\n", m->also, m->also);
    }
    (void)fputs("    local table=_", out);
    put_name(out, m->program);
    (void)fputs("_table\n    $table \"$command\" ''\n", out);
    (void)fputs(bash_loop, out);
    (void)fputs("complete -o default -F _", out);
    put_name(out, m->program);
    (void)fprintf(out, " %s%s%s\n", m->program, m->also ? " " : "", m->also ? m->also : "");
}

/* ---- zsh ----------------------------------------------------------------------------------- */

/* Text between single quotes, in which special characters of _arguments and _describe are none. */
static void put_zsh_text(FILE *out, const char *text, const char *special) {
    for (; *text; text++) {
        if (*text == '\'') {
            (void)fputs("'\\''", out);
            continue;
        }
        if (strchr(special, *text)) {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

static void put_zsh_flag(FILE *out, const struct co_manual_flag *f) {
    for (size_t i = 0; f->names[i]; i++) {
        (void)fputs(" \\\n        '(", out);
        for (size_t k = 0; f->names[k]; k++) {
            (void)fprintf(out, "%s--%s", k ? " " : "", f->names[k]);
        }
        (void)fprintf(out, ")--%s%s[", f->names[i], *f->value ? "=" : "");
        put_zsh_text(out, f->help, "[]:\\");
        (void)fputc(']', out);
        if (is_words(f->value)) {
            (void)fputs(":value:(", out);
            put_spaced(out, f->value);
            (void)fputc(')', out);
        } else if (*f->value) {
            (void)fputc(':', out);
            put_zsh_text(out, f->value, "[]:\\");
            (void)fputs(":_files", out);
        }
        (void)fputc('\'', out);
    }
}

/* A function's name. */
static void put_zsh_name(FILE *out, const struct co_manual *m, const char *command) {
    (void)fputc('_', out);
    put_name(out, m->program);
    (void)fputs(*command ? "_" : "", out);
    put_name(out, command);
}

static void put_zsh_below(FILE *out, const struct co_manual *m, const char *parent) {
    (void)fputs("    local -a commands=(", out);
    for (size_t i = 0; i < m->n; i++) {
        const char *word = below(&m->commands[i], parent);
        if (word) {
            (void)fprintf(out, "\n        '%s:", word);
            put_zsh_text(out, m->commands[i].summary, ":\\");
            (void)fputc('\'', out);
        }
    }
    (void)fputs(")\n    if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
                "        _describe -t commands command commands\n        return\n    fi\n"
                "    case $words[2] in\n",
        out);
    for (size_t i = 0; i < m->n; i++) {
        const struct co_manual_command *c = &m->commands[i];
        if (below(c, parent)) {
            (void)fprintf(out, "    %s%s%s) ((CURRENT--)); shift words; ", below(c, parent),
                c->alias ? " | " : "", c->alias ? c->alias : "");
            put_zsh_name(out, m, c->name);
            (void)fputs("; return ;;\n", out);
        }
    }
    (void)fputs("    esac\n", out);
}

static void put_zsh_command(
    FILE *out, const struct co_manual *m, const struct co_manual_command *c) {
    put_zsh_name(out, m, c->name);
    (void)fputs("() {\n", out);
    if (!*c->name && m->also) {
        for (size_t i = 0; i < m->n; i++) {
            if (co_streq(m->commands[i].alias, m->also)) {
                (void)fprintf(out, "    if [[ $service == %s ]]; then ", m->also);
                put_zsh_name(out, m, m->commands[i].name);
                (void)fputs("; return; fi\n", out);
            }
        }
    }
    if (has_commands(m, c->name)) {
        put_zsh_below(out, m, c->name);
    }
    /* The first word ends the flags. */
    (void)fputs("    _arguments '(-)--help[what it does]'", out);
    for (size_t i = 0; i < c->n; i++) {
        put_zsh_flag(out, &c->flags[i]);
    }
    (void)fputs(" \\\n        '(-)1:word:_files' '*:word:_files'\n}\n", out);
}

void co_manual_zsh(FILE *out, const struct co_manual *m) {
    (void)fprintf(out, "#compdef %s%s%s\n", m->program, m->also ? " " : "", m->also ? m->also : "");
    (void)fprintf(out,
        "# Completion of %s for zsh, a file of $fpath.  Printed by `%s docs zsh`; edit the tables "
        "in "
        "the code.\n",
        m->program, m->program);
    for (size_t i = 0; i < m->n; i++) {
        put_zsh_command(out, m, &m->commands[i]);
    }
    put_zsh_name(out, m, "");
    (void)fputs(" \"$@\"\n", out);
}
