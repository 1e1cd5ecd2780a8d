/* `paddlerun ckpt`: lists, shows, verifies, compares and exports checkpoints.  The formats are in
 * runtime/train/inspect; this file has the flags and the output. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/near.h"
#include "runtime/tools/inspect/inspect.h"
#include "runtime/tools/tools.h"

/* Exit codes.  DAMAGED: a checkpoint is damaged or missing, or two of them differ.  UNREAD:
 * something could not be read, so it is not known. */
enum { DAMAGED = 1, UNREAD = 3 };

struct ckpt_arguments {
    const char *path, *other; /* other: NULL when it was not given */
    const char *table, *key;
    bool state, count;
    int64_t memory_mb;
};

/* ---- sizes and ages as texts ---- */

static const char *size_text(uint64_t bytes, char ret[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    for (; v >= 1024 && u + 1 < CO_ARRAY_LEN(units); u++) {
        v /= 1024;
    }
    (void)snprintf(ret, 32, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return ret;
}

/* Whether something has that name, be it a link that leads nowhere. */
static bool has_name(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 || errno != ENOENT;
}

static const char *age_text(const char *path, char ret[32]) {
    struct stat st;
    if (stat(path, &st) < 0) {
        (void)snprintf(ret, 32, "-");
        return ret;
    }
    int64_t s = (int64_t)(time(NULL) - st.st_mtime);
    s = s < 0 ? 0 : s;
    if (s < 60) {
        (void)snprintf(ret, 32, "%" PRId64 "s", s);
    } else if (s < 3600) {
        (void)snprintf(ret, 32, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(ret, 32, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(ret, 32, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
    }
    return ret;
}

static int code_of(int rc) {
    bool known = rc == CO_DAMAGED || rc == CO_NOTFOUND || rc == CO_INVALID;
    return rc >= 0 ? 0 : known ? DAMAGED : UNREAD;
}

/* Of several, what is not known counts most. */
static int worse(int a, int b) {
    return a > b ? a : b;
}

static int fail(const char *command, const struct co_err *err) {
    (void)fprintf(stderr, "paddlerun ckpt %s: %s\n", command, co_err_text(err));
    return code_of(err->code);
}

static void say_skipped(void *arg, const struct co_err *why) {
    (void)fprintf(stderr, "paddlerun ckpt %s: skipped: %s\n", (const char *)arg, why->msg);
}

static int open_view(const char *command, const char *path, const struct ckpt_arguments *w,
    struct inspect_view **ret) {
    struct co_err err = {0};
    if (inspect_view_open(path, say_skipped, (void *)(uintptr_t)command, ret, &err) < 0) {
        return fail(command, &err);
    }
    const struct ckpt_chain *chain = (*ret)->chain;
    if (chain && chain->damaged > 0) {
        (void)fprintf(stderr,
            "paddlerun ckpt %s: checkpoint %" PRIu64 " is damaged: checkpoint %" PRIu64
            " is used in its place\n",
            command, chain->damaged, ckpt_chain_number(chain));
    }
    if (chain && (*ret)->newer_save) {
        (void)fprintf(stderr,
            "paddlerun ckpt %s: \"%s\" has a newer model, which rt_save wrote: checkpoint %" PRIu64
            " of the servers is used; copy the model's files to a directory of their own to see "
            "it\n",
            command, path, ckpt_chain_number(chain));
    }
    (*ret)->memory = (size_t)w->memory_mb << 20;
    return 0;
}

/* ---- ls ---- */

static void list_row(const char *name, const char *kind, const char *step, const char *size,
    const char *age, const char *state) {
    (void)printf("%-18s %-6s %12s %11s %8s  %s\n", name, kind, step, size, age, state);
}

static int list_saved(const char *dir) {
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    CO_AUTOFREE char *manifest = co_xasprintf("%s/MANIFEST", dir);
    char size[32] = "-", age[32];
    struct co_err err = {0};
    uint64_t bytes = 0;
    int rc = ckpt_open(dir, &c, &err);
    if (rc == CO_NOTFOUND) {
        return 0;
    }
    for (uint32_t i = 0; rc == 0 && i < ckpt_tables(c); i++) {
        bytes += ckpt_table(c, i)->bytes;
    }
    if (rc == 0) {
        rc = ckpt_check(c, &err);
    }
    list_row("saved", "full", "-", bytes ? size_text(bytes, size) : size, age_text(manifest, age),
        rc < 0 ? err.msg : "whole");
    return code_of(rc);
}

/* The newest checkpoint may still be being written: if it is incomplete, that is no damage. */
static int list_point(const char *dir, uint64_t number, bool newest) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *manifest = co_xasprintf("%s/MANIFEST", at);
    CO_CLEANUP(ckpt_point_done) struct ckpt_point p = {0};
    struct co_err err = {0};
    char name[32], kind[8] = "-", step[32] = "-", size[32] = "-", age[32];
    int rc = ckpt_chain_open(dir, number, &chain, &err);
    (void)snprintf(name, sizeof(name), "ckpt-%" PRIu64, number);
    if (ckpt_point_read(dir, number, &p, NULL) == 0) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < p.n_parts; i++) {
            bytes += p.parts[i].bytes;
        }
        (void)size_text(bytes, size);
        (void)snprintf(kind, sizeof(kind), ckpt_point_full(&p) ? "full" : "delta");
        (void)snprintf(step, sizeof(step), "%" PRIu64, p.step);
    }
    bool begun = rc == CO_NOTFOUND && newest;
    list_row(name, kind, step, size, age_text(manifest, age),
        begun    ? "not completed yet"
        : rc < 0 ? err.msg
                 : "whole");
    return begun ? 0 : code_of(rc);
}

static int run_ls(const struct ckpt_arguments *w) {
    struct ckpt_numbers have;
    CO_AUTOFREE char *saved = co_xasprintf("%s/MANIFEST", w->path);
    struct co_err err = {0};
    if (ckpt_numbers(w->path, &have, &err) < 0) {
        return fail("ls", &err);
    }
    if (have.n == 0 && !has_name(saved)) {
        co_err_set(&err, CO_NOTFOUND, "no checkpoint in \"%s\"", w->path);
        return fail("ls", &err);
    }
    list_row("checkpoint", "kind", "step", "size", "age", "state");
    int code = list_saved(w->path);
    for (size_t i = 0; i < have.n; i++) {
        code = worse(code, list_point(w->path, have.all[i], i == 0));
    }
    free(have.all);
    return code;
}

/* ---- show ---- */

static void show_head(const struct inspect_view *v) {
    if (v->saved) {
        (void)printf("saved by rt_save, in \"%s\"\n", v->path);
        return;
    }
    const struct ckpt_point *p = &v->chain->points[v->chain->n - 1];
    (void)printf("checkpoint %" PRIu64 ", %s, step %" PRIu64 ", %s, %u servers", p->number,
        ckpt_point_full(p) ? "full" : "delta", p->step, p->sync ? "sync" : "async", p->n_parts);
    if (v->chain->n > 1) {
        (void)printf(", on %u others from %" PRIu64 " on", v->chain->n - 1, p->base);
    }
    (void)puts("");
}

static int show_amount(const struct inspect_view *v, uint32_t table, const struct ckpt_arguments *w,
    struct co_err *err) {
    const struct ckpt_table *t = inspect_view_table(v, table);
    bool delta = v->chain && v->chain->n > 1;
    struct inspect_view_sum sum;
    uint64_t rows = 0;
    int rc = inspect_view_sum(v, table, &sum, err);
    if (rc == 0 && t->sparse && delta && w->count) {
        rc = inspect_view_count(v, table, &rows, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (!t->sparse) {
        (void)printf(delta ? "  values     %" PRIu64 ", %" PRIu64 " of them in this delta\n"
                           : "  values     %" PRIu64 "\n",
            t->size, sum.values);
    } else if (!delta) {
        (void)printf("  rows       %" PRIu64 "\n", sum.rows);
    } else {
        if (w->count) {
            (void)printf("  rows       %" PRIu64 "\n", rows);
        }
        (void)printf("  delta      %" PRIu64 " rows changed or new, %" PRIu64 " erased\n", sum.rows,
            sum.erased);
    }
    return 0;
}

static int show_table(const struct inspect_view *v, uint32_t table, const struct ckpt_arguments *w,
    struct co_err *err) {
    const struct ckpt_table *t = inspect_view_table(v, table);
    double lr;
    uint64_t steps;
    (void)printf("table %s\n", t->name);
    (void)printf(
        t->sparse ? "  kind       sparse, rows of %u values\n" : "  kind       dense\n", t->dim);
    CO_TRY(show_amount(v, table, w, err));
    CO_TRY(inspect_view_rate(v, table, &lr, &steps, err));
    (void)printf("  optimizer  %s\n", t->optimizer);
    (void)printf(
        t->sparse ? "  state      %" PRIu64 " floats a row\n" : "  state      %" PRIu64 " floats\n",
        t->state);
    if (t->sparse) {
        (void)printf("  init       %s, seed %" PRIx64 "\n", t->init, t->seed);
    }
    if (!isnan(lr)) {
        (void)printf("  rate       %.9g, its schedule has seen %" PRIu64 " steps\n", lr, steps);
    }
    return 0;
}

static int find_table(
    const struct inspect_view *v, const char *name, int *ret, struct co_err *err) {
    *ret = name ? inspect_view_find(v, name) : -1;
    return name && *ret < 0
               ? co_err_set(err, CO_NOTFOUND, "\"%s\" has no table \"%s\"", v->path, name)
               : 0;
}

static int run_show(const struct ckpt_arguments *w) {
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = NULL;
    struct co_err err = {0};
    int only, rc = open_view("show", w->path, w, &v);
    if (rc) {
        return rc;
    }
    rc = find_table(v, w->table, &only, &err);
    if (rc == 0) {
        show_head(v);
    }
    for (uint32_t i = 0; i < inspect_view_tables(v) && rc == 0; i++) {
        rc = only < 0 || (uint32_t)only == i ? show_table(v, i, w, &err) : 0;
    }
    return rc < 0 ? fail("show", &err) : 0;
}

/* ---- verify ---- */

static int verified(int rc, const struct co_err *err, const char *what) {
    const int code = code_of(rc);
    (void)printf("%-8s %s\n",
        code == UNREAD ? "unread"
        : code         ? "damaged"
                       : "whole",
        rc < 0 ? co_err_text(err) : what);
    (void)fflush(stdout); /* the next line may take long, as files are large */
    return code;
}

static int verify_saved(const char *dir) {
    CO_CLEANUP(ckpt_closep) struct ckpt *c = NULL;
    struct co_err err = {0};
    if (ckpt_open(dir, &c, &err) < 0) {
        return verified(err.code, &err, NULL);
    }
    int code = 0;
    for (uint32_t i = 0; i < ckpt_tables(c); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, ckpt_table(c, i)->file);
        int rc = inspect_view_table_check(ckpt_table(c, i), &err);
        rc = rc < 0 ? co_err_wrap(&err, "\"%s\"", path) : ckpt_verify_table(c, i, &err);
        code = worse(code, verified(rc, &err, path));
    }
    return code;
}

/* Verifies this checkpoint's own files, and that the earlier ones that it builds on exist. */
static int verify_point(const char *dir, uint64_t number, bool newest) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *chain = NULL;
    CO_CLEANUP(ckpt_point_done) struct ckpt_point p = {0};
    struct co_err err = {0};
    int rc = ckpt_point_read(dir, number, &p, &err);
    if (rc == CO_NOTFOUND && newest) {
        (void)printf("begun    ckpt-%" PRIu64 " is not completed yet\n", number);
        return 0;
    }
    if (rc < 0) {
        return verified(rc, &err, NULL);
    }
    struct ckpt_chain one = {.dir = (char *)(uintptr_t)dir, .points = &p, .n = 1};
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    int code = 0;
    for (uint32_t i = 0; i < p.n_tables; i++) {
        if (inspect_view_table_check(&p.tables[i], &err) < 0) {
            code = worse(code, verified(co_err_wrap(&err, "\"%s\"", at), &err, at));
        }
    }
    for (uint32_t i = 0; i < p.n_parts; i++) {
        CO_AUTOFREE char *path = ckpt_point_part(dir, number, i);
        code = worse(code, verified(ckpt_chain_verify_part(&one, 0, i, &err), &err, path));
    }
    if (code == 0 && (rc = ckpt_chain_open(dir, number, &chain, &err)) < 0) {
        return verified(rc, &err, NULL);
    }
    return code;
}

static int run_verify(const struct ckpt_arguments *w) {
    CO_AUTOFREE char *dir = NULL;
    struct ckpt_numbers have = {0};
    uint64_t only = inspect_view_split(w->path, &dir);
    CO_AUTOFREE char *saved = co_xasprintf("%s/MANIFEST", dir);
    struct co_err err = {0};
    if (only > 0) {
        return verify_point(dir, only, false);
    }
    if (ckpt_numbers(dir, &have, &err) < 0) {
        return fail("verify", &err);
    }
    CO_AUTOFREE uint64_t *numbers = have.all;
    bool there = has_name(saved);
    if (have.n == 0 && !there) {
        co_err_set(&err, CO_NOTFOUND, "no checkpoint in \"%s\"", dir);
        return fail("verify", &err);
    }
    int code = there ? verify_saved(dir) : 0;
    for (size_t i = 0; i < have.n; i++) {
        code = worse(code, verify_point(dir, numbers[i], i == 0));
    }
    return code;
}

/* ---- diff ---- */

static int diff_table(const struct inspect_view *a, uint32_t i, const struct inspect_view *b,
    bool *ret_differs, struct co_err *err) {
    const struct ckpt_table *t = inspect_view_table(a, i);
    struct inspect_diff d;
    int at = inspect_view_find(b, t->name);
    if (at < 0) {
        (void)printf("%-20s only in \"%s\"\n", t->name, a->path);
        *ret_differs = true;
        return 0;
    }
    CO_TRY(inspect_view_diff(a, i, b, (uint32_t)at, &d, err));
    (void)printf(t->sparse ? "%-20s %" PRIu64 " -> %" PRIu64 " rows: %" PRIu64 " changed, %" PRIu64
                             " added, %" PRIu64 " erased"
                           : "%-20s %" PRIu64 " -> %" PRIu64 " values: %" PRIu64 " changed",
        t->name, d.before, d.after, d.changed, d.added, d.erased);
    if (d.changed > 0) {
        (void)printf(
            ", at most by %.9g (%s %" PRIu64 ")", d.max_abs, t->sparse ? "id" : "value", d.max_at);
    }
    (void)puts("");
    *ret_differs = *ret_differs || d.changed + d.added + d.erased > 0;
    return 0;
}

static int run_diff(const struct ckpt_arguments *w) {
    CO_CLEANUP(inspect_view_closep) struct inspect_view *a = NULL, *b = NULL;
    struct co_err err = {0};
    bool differs = false;
    int only;
    if (open_view("diff", w->path, w, &a) || open_view("diff", w->other, w, &b)) {
        return OPTIONS_USAGE;
    }
    int rc = find_table(a, w->table, &only, &err);
    for (uint32_t i = 0; i < inspect_view_tables(a) && rc == 0; i++) {
        rc = only < 0 || (uint32_t)only == i ? diff_table(a, i, b, &differs, &err) : 0;
    }
    for (uint32_t i = 0; i < inspect_view_tables(b) && rc == 0 && only < 0; i++) {
        const char *name = inspect_view_table(b, i)->name;
        if (inspect_view_find(a, name) < 0) {
            (void)printf("%-20s only in \"%s\"\n", name, b->path);
            differs = true;
        }
    }
    if (rc < 0) {
        (void)fail("diff", &err);
        return OPTIONS_USAGE;
    }
    return differs ? DAMAGED : 0;
}

/* ---- export, merge ---- */

/* An ID may be any unsigned 64-bit number. */
static int parse_key(const char *text, uint64_t *ret, struct co_err *err) {
    char *end = NULL;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0
               ? 0
               : co_err_set(err, CO_INVALID, "--key is \"%s\", expected a number below 2^64", text);
}

static int read_export(const struct ckpt_arguments *w, struct inspect_view *v,
    struct inspect_export *ret, struct co_err *err) {
    CO_TRY(find_table(v, w->table, &ret->table, err));
    if (ret->one) {
        CO_TRY(parse_key(w->key, &ret->key, err));
    }
    if (!w->other && ret->table < 0) {
        return co_err_set(err, CO_INVALID, "text is of one table: --table=NAME");
    }
    if (ret->one && ret->table < 0) {
        return co_err_set(err, CO_INVALID, "--key is of one table: --table=NAME");
    }
    return 0;
}

static int run_export(const struct ckpt_arguments *w) {
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = NULL;
    struct co_err err = {0};
    struct inspect_export what = {.one = *w->key != '\0', .state = w->state};
    int rc = open_view("export", w->path, w, &v);
    if (rc) {
        return rc;
    }
    if (read_export(w, v, &what, &err)) {
        (void)fail("export", &err);
        return OPTIONS_USAGE;
    }
    rc = w->other ? inspect_view_export(v, &what, w->other, &err)
                  : inspect_view_print(v, &what, stdout, &err);
    if (rc == 0 && w->other) {
        (void)printf("%s: %" PRIu64 " rows and values\n", w->other, what.items);
    }
    return rc < 0 ? fail("export", &err) : 0;
}

static int run_merge(const struct ckpt_arguments *w) {
    CO_CLEANUP(inspect_view_closep) struct inspect_view *v = NULL;
    struct co_err err = {0};
    int rc = open_view("merge", w->path, w, &v);
    if (rc) {
        return rc;
    }
    return inspect_view_merge(v, w->other, &err) < 0 ? fail("merge", &err) : 0;
}

/* ---- the table of commands ---- */

static const struct {
    const char *name, *usage, *help;
    int (*run)(const struct ckpt_arguments *w);
    int least, most; /* words behind the flags */
} commands[] = {
    {"ls", "paddlerun ckpt ls DIR", "what is there: step, kind, size, age, whole or why not",
        run_ls, 1, 1},
    {"show", "paddlerun ckpt show [flags] DIR|DIR/ckpt-N", "tables, rows, rules, learning rates",
        run_show, 1, 1},
    {"verify", "paddlerun ckpt verify DIR|DIR/ckpt-N",
        "reads all files and their checksums, names what is damaged", run_verify, 1, 1},
    {"diff", "paddlerun ckpt diff [flags] A B",
        "rows changed, added, erased, the largest difference; exit code 1 if there is any",
        run_diff, 2, 2},
    {"export", "paddlerun ckpt export [flags] DIR|DIR/ckpt-N [FILE.npz|FILE.npy|FILE]",
        "tables to NumPy's files, a table or a key to text", run_export, 1, 2},
    {"merge", "paddlerun ckpt merge [flags] DIR|DIR/ckpt-N TO",
        "a chain as one directory of rt_save, which any number of servers loads", run_merge, 2, 2},
};

const char *tool_ckpt_command(size_t i, const char **ret_help) {
    *ret_help = i < CO_ARRAY_LEN(commands) ? commands[i].help : NULL;
    return i < CO_ARRAY_LEN(commands) ? commands[i].name : NULL;
}

static int usage(FILE *to) {
    (void)fputs("Usage: paddlerun ckpt COMMAND [flags] DIR\n\n"
                "DIR is a directory of rt_save, or one of the servers' checkpoints, of which the "
                "newest whole one\nis taken; DIR/ckpt-N is a certain one.\n\nCommands:\n",
        to);
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        (void)fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
    }
    return to == stdout ? 0 : OPTIONS_USAGE;
}

static int run_command(size_t c, int argc, char **argv) {
    struct ckpt_arguments w = {0};
    const struct co_flag flags[] = {
        {"table", CO_FLAG_STR, &w.table, .help = "this table only (show, diff, export)"},
        {"key", CO_FLAG_STR, &w.key,
            .help = "the row of this id, or the value at this place, only (export)"},
        {"state", CO_FLAG_BOOL, &w.state, .help = "the optimizer's state, too (export)"},
        {"count", CO_FLAG_BOOL, &w.count,
            .help = "count the rows of a chain, which reads all of it (show)"},
        {"memory", CO_FLAG_INT, &w.memory_mb, "256", .min = 1, .max = 1 << 20,
            .help = "MiB that ids and rows in memory may take, about; when they are more, files "
                    "are read several times"},
    };
    char name[32];
    int rest = 0, code = 0;
    (void)snprintf(name, sizeof(name), "ckpt %s", commands[c].name);
    argv[0] = name;
    if (!options_command_words(
            commands[c].usage, flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    if (argc - rest < commands[c].least || argc - rest > commands[c].most) {
        (void)fprintf(
            stderr, "paddlerun %s: %d words, expected: %s\n", name, argc - rest, commands[c].usage);
        return OPTIONS_USAGE;
    }
    w.path = argv[rest];
    w.other = argc - rest > 1 ? argv[rest + 1] : NULL;
    if (!*w.path || (w.other && !*w.other)) {
        (void)fprintf(stderr, "paddlerun %s: %s is \"\", expected: %s\n", name,
            *w.path ? "the last word" : "the directory", commands[c].usage);
        return OPTIONS_USAGE;
    }
    w.table = w.table && *w.table ? w.table : NULL;
    return commands[c].run(&w);
}

int tool_ckpt(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < CO_ARRAY_LEN(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return run_command(i, argc - 1, argv + 1);
        }
    }
    if (argc > 1 && argv[1][0] != '-') {
        struct co_near near = co_near_begin(argv[1], strlen(argv[1]));
        const char *meant = NULL;
        for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
            meant = co_near_try(&near, commands[i].name) ? commands[i].name : meant;
        }
        (void)fprintf(stderr, "paddlerun ckpt: \"%s\" is not a command%s%s%s\n", argv[1],
            meant ? ": did you mean " : "", meant ? meant : "", meant ? "?" : "");
    }
    bool asked = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    return usage(asked ? stdout : stderr);
}
