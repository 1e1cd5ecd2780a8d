/* Parsing of flags by their table; help texts and Markdown from the same table. */
#include "common/flag.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "common/near.h"
#include "common/parse.h"

enum { NAME_MAX_ = 64, HELP_COLUMN = 34, HELP_WIDTH = 98 };

static const struct {
    const char *metavar;
    const char *zero; /* the default when def is NULL */
} types[] = {
    [CO_FLAG_STR] = {"string", ""},
    [CO_FLAG_INT] = {"int", "0"},
    [CO_FLAG_FLOAT] = {"number", "0"},
    [CO_FLAG_BOOL] = {"", "false"},
    [CO_FLAG_DURATION] = {"duration", "0"},
};

static int flag_set(const struct co_flag *f, const char *text, struct co_err *err) {
    char what[NAME_MAX_ + 16];
    (void)snprintf(what, sizeof(what), "flag \"--%.*s\"", NAME_MAX_, f->name);
    bool any = f->min == 0 && f->max == 0;
    switch (f->type) {
    case CO_FLAG_STR:
        *(const char **)f->value = text;
        return 0;
    case CO_FLAG_INT:
        return co_parse_i64(
            what, text, any ? INT64_MIN : f->min, any ? INT64_MAX : f->max, f->value, err);
    case CO_FLAG_FLOAT:
        return co_parse_f64(what, text, -DBL_MAX, DBL_MAX, f->value, err);
    case CO_FLAG_BOOL:
        return co_parse_bool(what, text, f->value, err);
    case CO_FLAG_DURATION:
        return co_parse_duration(what, text, f->value, err);
    }
    return co_err_set(err, CO_INTERNAL, "%s has no type", what);
}

static const char *flag_default(const struct co_flag *f) {
    return f->def ? f->def : types[f->type].zero;
}

static int refuse_unknown(
    const struct co_flag *flags, size_t n, const char *name, size_t len, struct co_err *err) {
    const struct co_flag *nearest = NULL;
    struct co_near near = co_near_begin(name, len);
    for (size_t i = 0; i < n; i++) {
        if (!flags[i].hidden && co_near_try(&near, flags[i].name)) {
            nearest = &flags[i];
        }
    }
    int shown = (int)(len < 100 ? len : 100);
    if (nearest) {
        return co_err_set(err, CO_INVALID, "unknown flag \"--%.*s\": did you mean \"--%s\"?", shown,
            name, nearest->name);
    }
    return co_err_set(
        err, CO_INVALID, "unknown flag \"--%.*s\" (--help lists the flags)", shown, name);
}

static const struct co_flag *find_flag(
    const struct co_flag *flags, size_t n, const char *name, size_t len) {
    for (size_t i = 0; i < n; i++) {
        if (strlen(flags[i].name) == len && memcmp(flags[i].name, name, len) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

/* Reads the flag in argv[*at], with its value, and advances *at. */
static int parse_one(const struct co_flag *flags, size_t n, int argc, char *const argv[], int *at,
    struct co_err *err) {
    const char *word = argv[(*at)++];
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (len == 0 || name[0] == '-') {
        return co_err_set(
            err, CO_INVALID, "\"%.100s\" is not a flag: expected --name or --name=value", word);
    }
    const struct co_flag *f = find_flag(flags, n, name, len);
    if (!f && (strcmp(name, "help") == 0 || strcmp(name, "h") == 0)) {
        return co_err_set(err, CO_CANCELED, "help was asked for");
    }
    if (!f) {
        return refuse_unknown(flags, n, name, len, err);
    }
    if (!value && f->type == CO_FLAG_BOOL) {
        value = "true";
    } else if (!value && *at < argc) {
        value = argv[(*at)++];
    } else if (!value) {
        return co_err_set(err, CO_INVALID, "flag \"--%s\" needs a value", f->name);
    }
    const char *before = f->once ? *(const char **)f->value : value;
    if (strcmp(before, value) != 0 && strcmp(before, flag_default(f)) != 0) {
        return co_err_set(err, CO_INVALID,
            "flag \"--%s\" is given as \"%.100s\" and as \"%.100s\": it can have one value only",
            f->name, before, value);
    }
    if (f->given) {
        *f->given = true;
    }
    return flag_set(f, value, err);
}

static int set_defaults(const struct co_flag *flags, size_t n, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (flags[i].given) {
            *flags[i].given = false;
        }
        int r = flag_set(&flags[i], flag_default(&flags[i]), err);
        if (r) {
            co_err_wrap(err, "default");
            return CO_INTERNAL;
        }
    }
    return 0;
}

static bool is_word(const char *text) {
    return text[0] != '-' || !text[1];
}

int co_flags_parse_among(const struct co_flag *flags, size_t n, int argc, char *argv[],
    int *ret_rest, struct co_err *err) {
    CO_AUTOFREE char **words = co_xcalloc((size_t)argc + 1, sizeof(*words));
    int n_words = 0, r = set_defaults(flags, n, err);
    bool ended = false;
    for (int at = 1; at < argc && !r;) {
        if (ended || is_word(argv[at])) {
            words[n_words++] = argv[at++];
        } else if (strcmp(argv[at], "--") == 0) {
            ended = true;
            at++;
        } else {
            r = parse_one(flags, n, argc, argv, &at, err);
        }
    }
    if (!r && n_words) {
        memcpy(argv + argc - n_words, words, (size_t)n_words * sizeof(*words));
    }
    *ret_rest = argc - n_words;
    return r;
}

int co_flags_parse(const struct co_flag *flags, size_t n, int argc, char *const argv[],
    int *ret_rest, struct co_err *err) {
    CO_TRY(set_defaults(flags, n, err));
    int at = 1;
    while (at < argc && !is_word(argv[at])) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        CO_TRY(parse_one(flags, n, argc, argv, &at, err));
    }
    *ret_rest = at < argc ? at : argc;
    return 0;
}

int co_flags_parse_all(const char *usage, const struct co_flag *flags, size_t n, int argc,
    char *const argv[], struct co_err *err) {
    int rest = argc, rc = co_flags_parse(flags, n, argc, argv, &rest, err);
    if (rc == CO_CANCELED) {
        co_flags_help(stdout, usage, flags, n);
    } else if (rc == 0 && rest < argc) {
        rc = co_err_set(err, CO_INVALID, "unexpected \"%.100s\"", argv[rest]);
    }
    return rc;
}

int co_words_check(const char *usage, int least, int most, int argc, char *const argv[]) {
    const int n = argc - 1, own = most > 0 || n < least ? n : least;
    for (int i = 1; i <= own; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            (void)fprintf(stdout, "usage: %s\n", usage);
            return 0;
        }
        if (argv[i][0] == '-' && argv[i][1]) {
            (void)fprintf(stderr, "unknown flag \"%.100s\", expected: %s\n", argv[i], usage);
            return 2;
        }
    }
    if (n < least || (most > 0 && n > most)) {
        (void)fprintf(stderr, "usage: %s\n", usage);
        return 2;
    }
    return -1;
}

const char *co_flag_metavar(const struct co_flag *f) {
    return f->metavar ? f->metavar : types[f->type].metavar;
}

const char *co_flag_shown_default(const struct co_flag *f) {
    return strcmp(flag_default(f), types[f->type].zero) == 0 ? "" : f->def;
}

/* Prints text in the help column, with lines broken before HELP_WIDTH. */
static void print_wrapped(FILE *out, const char *text) {
    int column = HELP_COLUMN;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + len > HELP_WIDTH) {
            (void)fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            (void)fputc(' ', out);
            column++;
        }
        (void)fprintf(out, "%.*s", len, text);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

static void print_flag(FILE *out, const struct co_flag *f) {
    const char *var = co_flag_metavar(f);
    int used = fprintf(out, "  --%s%s%s", f->name, *var ? " " : "", var);
    if (used + 1 > HELP_COLUMN) {
        (void)fprintf(out, "\n%*s", HELP_COLUMN, "");
    } else {
        (void)fprintf(out, "%*s", HELP_COLUMN - used, "");
    }
    const char *def = co_flag_shown_default(f), *quote = f->type == CO_FLAG_STR ? "\"" : "";
    CO_AUTOFREE char *text = *def ? co_xasprintf("%s (default %s%s%s)", f->help, quote, def, quote)
                                  : co_xstrdup(f->help);
    print_wrapped(out, text);
}

static co_flags_reader_fn reader;
static void *reader_arg;

void co_flags_read(co_flags_reader_fn to, void *arg) {
    reader = to;
    reader_arg = arg;
}

void co_flags_help(FILE *out, const char *usage, const struct co_flag *flags, size_t n) {
    if (reader) {
        reader(reader_arg, usage, flags, n);
        return;
    }
    (void)fprintf(out, "%s\n", usage);
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        if (!flags[i].hidden) {
            (void)fputs(first ? "\nFlags:\n" : "", out);
            first = false;
            print_flag(out, &flags[i]);
        }
    }
}

static void print_cell(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text == '\n' ? ' ' : *text, out);
    }
}

void co_flags_markdown(FILE *out, const struct co_flag *flags, size_t n) {
    (void)fputs("| flag | value | default | meaning |\n| --- | --- | --- | --- |\n", out);
    for (size_t i = 0; i < n; i++) {
        const struct co_flag *f = &flags[i];
        (void)fprintf(out, "| `--%s` | ", f->name);
        print_cell(out, f->type == CO_FLAG_BOOL ? "bool" : co_flag_metavar(f));
        if (f->type == CO_FLAG_INT && (f->min || f->max)) {
            (void)fprintf(out, " %" PRId64 "…%" PRId64, f->min, f->max);
        }
        (void)fputs(*flag_default(f) ? " | `" : " | ", out);
        print_cell(out, flag_default(f));
        (void)fputs(*flag_default(f) ? "` | " : " | ", out);
        print_cell(out, f->help);
        (void)fputs(f->hidden ? " (not in --help) |\n" : " |\n", out);
    }
}
