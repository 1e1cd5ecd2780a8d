/* The parser of launch options, --help and the table of docs/launch.md.  See options.h. */
#include "runtime/launch/options/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/mem.h"
#include "common/near.h"
#include "common/parse.h"
#include "runtime/launch/options/torchrun_words.h"

enum { NOTES_MAX = 1 << 20, PAGE_MAX = 1 << 20, HELP_COLUMN = 30, HELP_WIDTH = 98 };
static const int64_t DURATION_MAX_MS = 87600LL * 3600 * 1000; /* ten years: seconds fit an int */

/* ---- names ------------------------------------------------------------------------------- */

const char *options_option_name(const struct options_option_row *row, size_t i) {
    return i == 0 ? row->name : i <= CO_ARRAY_LEN(row->alias) ? row->alias[i - 1] : NULL;
}

/* The old name that the first len letters of word are; NULL: none. */
static const char *find_old_alias(
    const struct options_option_row *row, const char *word, size_t len) {
    for (size_t i = 0; i < CO_ARRAY_LEN(row->old_alias) && row->old_alias[i]; i++) {
        if (strlen(row->old_alias[i]) == len && memcmp(row->old_alias[i], word, len) == 0) {
            return row->old_alias[i];
        }
    }
    return NULL;
}

static bool is_option(const struct options_option_row *row) {
    return row->type != OPTIONS_OPTION_WORDS;
}

enum fit { NO_FIT, PREFIX, EXACT };

/* How well a row fits the first len letters of word. */
static enum fit fit_row(
    const struct options_option_row *row, const char *word, size_t len, const char **ret_name) {
    enum fit best = NO_FIT;
    const char *old = find_old_alias(row, word, len);
    if (old) {
        *ret_name = old;
        return EXACT;
    }
    for (size_t i = 0; is_option(row) && options_option_name(row, i); i++) {
        const char *name = options_option_name(row, i);
        enum fit f = strncmp(name, word, len) != 0 ? NO_FIT : name[len] ? PREFIX : EXACT;
        if (f > best) {
            best = f;
            *ret_name = name;
        }
    }
    return best;
}

/* The index of the row that fits so; -1: none does, -2: several do.  all: also rows that Paddle's
 * launcher of today does not have. */
static int find_fit(
    enum fit wanted, bool all, const char *word, size_t len, const char **ret_name) {
    int found = -1;
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        const char *name = NULL;
        if ((all || row->formats & 1U << OPTIONS_FORMAT_3) &&
            fit_row(row, word, len, &name) == wanted) {
            found = found == -1 ? i : -2;
            *ret_name = name;
        }
    }
    return found;
}

/* Options of ours must not make ambiguous what Paddle's launcher takes for an abbreviation. */
static int find_option(const char *word, size_t len, const char **ret_name) {
    int id = find_fit(EXACT, true, word, len, ret_name);
    id = id == -1 ? find_fit(PREFIX, false, word, len, ret_name) : id;
    return id == -1 ? find_fit(PREFIX, true, word, len, ret_name) : id;
}

/* ---- values ------------------------------------------------------------------------------ */

static int parse_size(const char *what, const char *text, int64_t *ret, struct co_err *err) {
    size_t len = strlen(text);
    static const char units[] = "KMG";
    const char *at = len ? strchr(units, text[len - 1]) : NULL;
    int shift = at ? 10 * (int)(at - units + 1) : 0;
    CO_AUTOFREE char *number = co_xstrndup(text, shift ? len - 1 : len);
    int64_t n = 0;
    if (co_parse_i64(what, number, 0, INT64_MAX >> shift, &n, NULL)) {
        return co_err_set(err, CO_INVALID,
            "%s is \"%.100s\", expected bytes (1000000), or KiB, MiB, GiB (64K, 64M, 64G)", what,
            text);
    }
    *ret = n << shift;
    return 0;
}

/* A bare number is in seconds, as in Paddle's options. */
static int parse_duration(
    const char *what, const char *text, int64_t min_ms, int64_t *ret_ms, struct co_err *err) {
    int64_t seconds = 0, ms = 0;
    if (co_parse_i64(what, text, 0, DURATION_MAX_MS, &seconds, NULL) == 0) {
        ms = seconds > DURATION_MAX_MS / 1000 ? INT64_MAX : seconds * 1000;
    } else {
        CO_TRY(co_parse_duration(what, text, &ms, err));
    }
    if (ms < min_ms || ms > DURATION_MAX_MS) {
        return co_err_set(err, CO_INVALID, "%s is \"%.100s\", expected %s", what, text,
            ms < min_ms ? "more than no time" : "at most 87600h, ten years");
    }
    *ret_ms = ms;
    return 0;
}

static int set_option(struct options *o, int id, const char *what, const char *text,
    enum options_option_origin origin, struct co_err *err) {
    const struct options_option_row *row = &options_option_rows[id];
    int64_t number = -1;
    bool yes = false;
    unsigned word;
    int r = 0;
    if (row->support == OPTIONS_REFUSED && origin != OPTIONS_FROM_DEFAULT) {
        return co_err_set(err, CO_UNSUPPORTED, "%s: not here: %s", what, row->note);
    }
    switch (row->type) {
    case OPTIONS_OPTION_TEXT:
    case OPTIONS_OPTION_WORDS:
        if (row->words) {
            r = co_parse_word(what, text, row->words, id == OPTIONS_OPT_LOG_LEVEL, &word, err);
        }
        break;
    case OPTIONS_OPTION_INT:
        r = co_parse_i64(what, text, row->min, row->max ? row->max : INT64_MAX, &number, err);
        break;
    case OPTIONS_OPTION_BOOL:
    case OPTIONS_OPTION_SWITCH:
        r = co_parse_bool(what, text, &yes, err);
        number = yes;
        break;
    case OPTIONS_OPTION_DURATION:
        r = parse_duration(what, text, row->min, &number, err);
        break;
    case OPTIONS_OPTION_SIZE:
        r = parse_size(what, text, &number, err);
        break;
    }
    if (r) {
        return r;
    }
    if (origin != OPTIONS_FROM_DEFAULT && row->type == OPTIONS_OPTION_BOOL) {
        text = yes ? "True" : "False";
    } else if (origin != OPTIONS_FROM_DEFAULT && row->type == OPTIONS_OPTION_INT) {
        free(o->held[id]);
        text = o->held[id] = co_xasprintf("%" PRId64, number);
    }
    o->text[id] = text;
    o->number[id] = number;
    o->origin[id] = origin;
    return 0;
}

/* ---- the command line -------------------------------------------------------------------- */

/* The option's name, of today or before, that is nearest to the word; NULL: none is near. */
static const char *suggest(const char *word, size_t len) {
    struct co_near near = co_near_begin(word, len);
    const char *meant = NULL;
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        const char *name;
        if (!is_option(row) || row->support == OPTIONS_REFUSED) {
            continue;
        }
        for (size_t k = 0; (name = options_option_name(row, k)); k++) {
            meant = co_near_try(&near, name) ? name : meant;
        }
        for (size_t k = 0; k < CO_ARRAY_LEN(row->old_alias) && row->old_alias[k]; k++) {
            meant = co_near_try(&near, row->old_alias[k]) ? row->old_alias[k] : meant;
        }
    }
    return meant;
}

/* The word is the name but for dashes in place of underscores. */
static bool is_dashed(const char *word, size_t len, const char *name) {
    bool same = name && strlen(name) == len;
    for (size_t i = 0; i < len && same; i++) {
        same = name[i] == (word[i] == '-' ? '_' : word[i]);
    }
    return same;
}

static int refuse_word(const char *word, size_t len, bool several, struct co_err *err) {
    const int shown = (int)(len < 100 ? len : 100);
    if (several) {
        return co_err_set(err, CO_INVALID,
            "--%.*s fits several options, expected one's whole name (--help lists them)", shown,
            word);
    }
    const char *meant = suggest(word, len);
    if (options_torchrun_knows(word, len) && !is_dashed(word, len, meant)) {
        return co_err_set(err, CO_INVALID,
            "--%.*s is an option of torchrun's: write paddlerun torchrun instead of paddlerun "
            "launch, or look into docs/torchrun.md for the option here",
            shown, word);
    }
    return co_err_set(err, CO_INVALID,
        "unknown option --%.*s%s%s%s (--help lists the options); what is for the training script "
        "goes behind its name",
        shown, word, meant ? ": did you mean --" : "", meant ? meant : "", meant ? "?" : "");
}

/* Decides as argparse does: "-1" and words with a blank are values; "--nnodes" behind --log_dir
 * means that the value was forgotten. */
static bool looks_like_option(const char *word) {
    return word[0] == '-' && word[1] && word[1 + strspn(word + 1, "0123456789.")] &&
           !strchr(word, ' ');
}

/* Reads the option in argv[*at], and advances *at behind its value. */
static int take_option(
    struct options *o, int argc, char *const argv[], int *at, struct co_err *err) {
    const char *word = argv[(*at)++] + 2;
    size_t len = strcspn(word, "=");
    const char *name = NULL;
    int id = find_option(word, len, &name);
    if (id < 0) {
        return refuse_word(word, len, id == -2, err);
    }
    char what[64];
    (void)snprintf(what, sizeof(what), "--%s", name);
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    if (!value && options_option_rows[id].type == OPTIONS_OPTION_SWITCH) {
        value = "true";
    } else if (!value && *at == argc) {
        return co_err_set(err, CO_INVALID, "%s needs a value", what);
    } else if (!value && looks_like_option(argv[*at])) {
        return co_err_set(err, CO_INVALID,
            "%s needs a value, but \"%.60s\" follows; a value that begins so: %s=%.60s", what,
            argv[*at], what, argv[*at]);
    } else if (!value) {
        value = argv[(*at)++];
    }
    int r = set_option(o, id, what, value, OPTIONS_FROM_COMMAND_LINE, err);
    o->alias[id] = name;
    o->legacy |=
        options_option_rows[id].legacy || find_old_alias(&options_option_rows[id], word, len);
    return r;
}

static int command_line(struct options *o, int argc, char *const argv[], struct co_err *err) {
    int at = 1;
    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        const char *word = argv[at];
        if (strcmp(word, "--") == 0) {
            at++;
            break;
        }
        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            return co_err_set(err, CO_CANCELED, "help was asked for");
        }
        if (word[1] != '-') {
            return co_err_set(
                err, CO_INVALID, "\"%.100s\" is not an option: expected --name value", word);
        }
        CO_TRY(take_option(o, argc, argv, &at, err));
    }
    o->script = argv + at;
    o->n_script = argc - at;
    if (o->n_script == 0) {
        return co_err_set(
            err, CO_INVALID, "no training script, expected: [options] SCRIPT [its arguments]");
    }
    o->text[OPTIONS_OPT_SCRIPT] = o->script[0];
    return 0;
}

/* ---- the environment --------------------------------------------------------------------- */

/* A pod's id is its rank, unless PADDLE_RANK says another; a negative one says nothing. */
static int take_trainer_id(
    struct options *o, options_plan_getenv_fn get, void *arg, struct co_err *err) {
    const char *name = co_contract[CO_VAR_TRAINER_ID].name, *text = get(arg, name);
    const int64_t most = options_option_rows[OPTIONS_OPT_RANK].max;
    int64_t id = -1;
    if (text && *text) {
        CO_TRY(co_parse_i64(name, text, INT32_MIN, most, &id, err));
    }
    return id < 0 ? 0 : set_option(o, OPTIONS_OPT_RANK, name, text, OPTIONS_FROM_ENVIRONMENT, err);
}

static int read_environment(
    struct options *o, options_plan_getenv_fn get, void *arg, struct co_err *err) {
    CO_TRY(take_trainer_id(o, get, arg, err));
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        const char *value = row->env && row->support != OPTIONS_REFUSED ? get(arg, row->env) : NULL;
        if (!value) {
            continue;
        }
        CO_TRY(co_buf_addf(&o->notes, err,
            "LAUNCH WARNING args %s will be overridden by env: %s value: %s\n", row->name, row->env,
            value));
        CO_TRY(set_option(o, i, row->env, value, OPTIONS_FROM_ENVIRONMENT, err));
    }
    /* The operator knows how long a pod may take to end; the command knows better. */
    const char *grace = get(arg, co_contract[CO_VAR_STOP_TIMEOUT].name);
    if (grace && *grace && !options_option_given(o, OPTIONS_OPT_STOP_TIMEOUT)) {
        CO_TRY(set_option(o, OPTIONS_OPT_STOP_TIMEOUT, co_contract[CO_VAR_STOP_TIMEOUT].name, grace,
            OPTIONS_FROM_ENVIRONMENT, err));
    }
    return 0;
}

static enum options_format format_of(const struct options *o) {
    const char *compat = o->text[OPTIONS_OPT_COMPAT];
    if (compat) {
        return compat[0] == '3'             ? OPTIONS_FORMAT_3
               : strcmp(compat, "2.3") == 0 ? OPTIONS_FORMAT_2_3
                                            : OPTIONS_FORMAT_2_0;
    }
    const bool legacy = o->legacy && !options_option_has(o, OPTIONS_OPT_MASTER);
    return legacy || o->number[OPTIONS_OPT_LEGACY] == 1 ? OPTIONS_FORMAT_2_0 : OPTIONS_FORMAT_3;
}

int options_parse(int argc, char *const argv[], options_plan_getenv_fn get, void *arg,
    struct options *ret, struct co_err *err) {
    CO_CLEANUP(options_done) struct options o = {.notes = CO_BUF(NOTES_MAX)};
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const char *def = options_option_rows[i].def;
        o.number[i] = -1;
        if (def) {
            CO_TRY(set_option(&o, i, options_option_rows[i].name, def, OPTIONS_FROM_DEFAULT, err));
        }
    }
    CO_TRY(command_line(&o, argc, argv, err));
    CO_TRY(read_environment(&o, get, arg, err));
    o.format = format_of(&o);
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const char *old = options_option_rows[i].old_def;
        if (old && o.format != OPTIONS_FORMAT_3 && o.origin[i] == OPTIONS_FROM_DEFAULT) {
            o.text[i] = old;
        }
    }
    *ret = o;
    o = (struct options){0};
    return 0;
}

void options_done(struct options *o) {
    co_buf_done(&o->notes);
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        free(o->held[i]);
    }
    *o = (struct options){0};
}

/* ---- --help and the page ----------------------------------------------------------------- */

const char *options_option_metavar(const struct options_option_row *row) {
    static const char *const by_type[] = {
        [OPTIONS_OPTION_TEXT] = "TEXT",
        [OPTIONS_OPTION_INT] = "N",
        [OPTIONS_OPTION_BOOL] = "BOOL",
        [OPTIONS_OPTION_SWITCH] = "",
        [OPTIONS_OPTION_DURATION] = "TIME",
        [OPTIONS_OPTION_SIZE] = "SIZE",
        [OPTIONS_OPTION_WORDS] = "",
    };
    return by_type[row->type];
}

static int add_wrapped(struct co_buf *b, const char *text, struct co_err *err) {
    size_t column = HELP_COLUMN;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + len > HELP_WIDTH) {
            CO_TRY(co_buf_addf(b, err, "\n%*s", (int)HELP_COLUMN, ""));
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            CO_TRY(co_buf_adds(b, " ", err));
            column++;
        }
        CO_TRY(co_buf_add(b, text, len, err));
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    return co_buf_adds(b, "\n", err);
}

static int help_row(struct co_buf *b, const struct options_option_row *row, struct co_err *err) {
    size_t before = b->len;
    CO_TRY(co_buf_addf(b, err, "  --%s %s", row->name, options_option_metavar(row)));
    size_t used = b->len - before;
    CO_TRY(used + 1 > HELP_COLUMN ? co_buf_addf(b, err, "\n%*s", (int)HELP_COLUMN, "")
                                  : co_buf_addf(b, err, "%*s", (int)(HELP_COLUMN - used), ""));
    CO_AUTOFREE char *text = row->def && *row->def
                                 ? co_xasprintf("%s (default %s)", row->help, row->def)
                                 : co_xstrdup(row->help);
    return add_wrapped(b, text, err);
}

const char options_usage[] =
    "paddlerun launch [options] SCRIPT [its arguments]\n\n"
    "Starts the training processes of this node and stays their first process, as\n"
    "`python -m paddle.distributed.launch` and `fleetrun` do.";

bool options_option_is_listed(const struct options_option_row *row) {
    return is_option(row) && row->support != OPTIONS_REFUSED && row->support != OPTIONS_IGNORED;
}

int options_help(struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_addf(ret, err, "Usage: %s\n\nOptions:\n", options_usage));
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        if (options_option_is_listed(row)) {
            CO_TRY(help_row(ret, row, err));
        }
    }
    return 0;
}

/* "| `text` ", or an empty cell. */
static int code_cell(struct co_buf *b, const char *text, struct co_err *err) {
    return text && *text ? co_buf_addf(b, err, "| `%s` ", text) : co_buf_addf(b, err, "|  ");
}

static int markdown_row(
    struct co_buf *b, const struct options_option_row *row, struct co_err *err) {
    static const char *const verdicts[] = {
        [OPTIONS_SAME] = "same",
        [OPTIONS_BETTER] = "better",
        [OPTIONS_IGNORED] = "no effect",
        [OPTIONS_REFUSED] = "refused",
        [OPTIONS_OURS] = "ours",
    };
    CO_TRY(co_buf_addf(b, err, "| `%s%s`", is_option(row) ? "--" : "", row->name));
    for (size_t i = 1; options_option_name(row, i); i++) {
        CO_TRY(co_buf_addf(b, err, " `--%s`", options_option_name(row, i)));
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(row->old_alias) && row->old_alias[i]; i++) {
        CO_TRY(co_buf_addf(b, err, "%s `--%s`", i ? "" : "; before 2.4", row->old_alias[i]));
    }
    CO_TRY(co_buf_addf(b, err, " "));
    CO_TRY(code_cell(b, row->env, err));
    CO_TRY(code_cell(b, row->def, err));
    CO_TRY(co_buf_addf(b, err, "| %s | %s", verdicts[row->support], row->help));
    if (row->note) {
        CO_TRY(co_buf_addf(b, err, "; %s", row->note));
    }
    return co_buf_addf(b, err, " |\n");
}

int options_markdown(struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_adds(ret,
        "| option | variable that wins | default | against Paddle's | meaning |\n"
        "| --- | --- | --- | --- | --- |\n",
        err));
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        CO_TRY(markdown_row(ret, &options_option_rows[i], err));
    }
    return 0;
}
