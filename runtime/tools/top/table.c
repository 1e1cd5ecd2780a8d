/* One row per column: how a number is made from two reads, and printed. */
#include "runtime/tools/top/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train/meter/meter.h"

enum { CELL = 64 };

struct column;
typedef void cell_fn(const struct top_target *t, const struct column *c, char ret[CELL]);

struct column {
    const char *head;
    int width; /* 0: as wide as the longest name, to the left */
    cell_fn *cell;
    enum meter row, at; /* what it shows, and the row that has its time */
    const char *label;  /* NULL: all of the row's */
};

/* ---- numbers for people ---- */

static void put_number(char ret[CELL], double v) {
    static const char units[] = " kMGT";
    size_t u = 0;
    for (; fabs(v) >= 9999.5 && u + 2 < sizeof(units); u++) {
        v /= 1000;
    }
    if (u == 0) {
        (void)snprintf(ret, CELL, v == floor(v) || fabs(v) >= 100 ? "%.0f" : "%.2f", v);
    } else {
        (void)snprintf(ret, CELL, "%.1f%c", v, units[u]);
    }
}

static void put_bytes(char ret[CELL], double v) {
    static const char *const units[] = {"B", "K", "M", "G", "T"};
    size_t u = 0;
    for (; v >= 1024 && u + 1 < CO_ARRAY_LEN(units); u++) {
        v /= 1024;
    }
    (void)snprintf(ret, CELL, u && v < 100 ? "%.1f%s" : "%.0f%s", v, units[u]);
}

static void put_seconds(char ret[CELL], double v) {
    if (isnan(v)) {
        (void)snprintf(ret, CELL, "-");
    } else if (isinf(v)) {
        (void)snprintf(ret, CELL, ">10s");
    } else if (v < 1e-3) {
        (void)snprintf(ret, CELL, "%.0fus", v * 1e6);
    } else if (v < .9995) {
        (void)snprintf(ret, CELL, "%.3gms", v * 1e3);
    } else if (v < 3600) {
        (void)snprintf(ret, CELL, "%.0fs", v);
    } else {
        (void)snprintf(ret, CELL, "%.1fh", v / 3600);
    }
}

/* ---- what cells are made of ---- */

static double value(const struct top_target *t, enum meter row, const char *label) {
    return top_samples_sum(t->now, meter_name(row), label);
}

/* Of a counter, a second; one that is smaller than before is another process's. */
static double rate_of(const struct top_target *t, const char *name, const char *label) {
    double now = top_samples_sum(t->now, name, label);
    double since = top_samples_sum(t->now, "process_start_time_seconds", NULL), was = 0;
    if (t->before) {
        double old = top_samples_sum(t->before, name, label);
        was = old <= now ? old : 0;
        since = t->before->at;
    }
    double seconds = t->now->at - since;
    return seconds > 0 ? (now - was) / seconds : 0;
}

static double rate(const struct top_target *t, enum meter row, const char *label) {
    return rate_of(t, meter_name(row), label);
}

static double part_of(
    const struct top_target *t, enum meter row, const char *part, const char *label) {
    char name[128];
    (void)snprintf(name, sizeof(name), "%s_%s", meter_name(row), part);
    return rate_of(t, name, label);
}

/* ---- cells ---- */

static void name_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    (void)c;
    (void)snprintf(ret, CELL, "%s", t->name);
}

static void number_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_number(ret, value(t, c->row, c->label));
}

static void bytes_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_bytes(ret, value(t, c->row, c->label));
}

static void rate_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_number(ret, rate(t, c->row, c->label));
}

static void flow_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_bytes(ret, rate(t, c->row, c->label));
}

static void p99_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_seconds(ret, top_samples_quantile(t->now, t->before, meter_name(c->row), c->label, .99));
}

static void age_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    double n = value(t, c->row, NULL);
    char age[CELL];
    if (n <= 0) {
        (void)snprintf(ret, CELL, "-");
        return;
    }
    put_seconds(age, fmax(round(t->now->at - value(t, c->at, NULL)), 1));
    (void)snprintf(ret, CELL, "%.0f/%.12s", n, age);
}

static void reported_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    if (top_samples_have(t->now, meter_name(c->row), c->label)) {
        double v = value(t, c->row, c->label);
        fabs(v) >= 100 ? put_number(ret, v) : (void)snprintf(ret, CELL, "%.5g", v);
    } else {
        (void)snprintf(ret, CELL, "-");
    }
}

static void used_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    double most = value(t, METER_M_MEMORY_MAX, NULL);
    (void)snprintf(ret, CELL, "%.1f%%", most > 0 ? value(t, c->row, NULL) / most * 100 : 0);
}

static void pulls_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_number(ret, part_of(t, c->row, "count", "pull"));
}

static void pushes_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_number(ret, part_of(t, c->row, "count", "push") + part_of(t, c->row, "count", "exchange"));
}

static void trainers_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    (void)snprintf(ret, CELL, "%.0f/%.0f", value(t, c->row, "alive"), value(t, c->row, NULL));
}

static void step_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    put_number(ret, fmax(value(t, c->row, NULL), value(t, METER_M_REPORTED_STEP, NULL)));
}

static void wait_cell(const struct top_target *t, const struct column *c, char ret[CELL]) {
    double all = part_of(t, c->row, "sum", NULL) - part_of(t, c->row, "sum", "checkpoint");
    (void)snprintf(ret, CELL, "%.0f%%", fmax(all, 0) * 100);
}

/* ---- the table ---- */

static const struct column server_columns[] = {
    {"SERVER", 0, name_cell},
    {"ROWS", 7, number_cell, METER_M_ROWS},
    {"MEMORY", 7, bytes_cell, METER_M_MEMORY},
    {"USED", 6, used_cell, METER_M_MEMORY},
    {"PULL/s", 7, pulls_cell, METER_M_REQUEST_SECONDS},
    {"p99", 6, p99_cell, METER_M_REQUEST_SECONDS, .label = "pull"},
    {"PUSH/s", 7, pushes_cell, METER_M_REQUEST_SECONDS},
    {"p99", 6, p99_cell, METER_M_REQUEST_SECONDS, .label = "push"},
    {"IN/s", 6, flow_cell, METER_M_BYTES, .label = "received"},
    {"OUT/s", 6, flow_cell, METER_M_BYTES, .label = "sent"},
    {"QUEUE", 5, number_cell, METER_M_QUEUE},
    {"TRAIN", 6, trainers_cell, METER_M_TRAINERS},
    {"APART", 5, number_cell, METER_M_STALENESS},
    {"CKPT", 8, age_cell, METER_M_PART_NUMBER, METER_M_PART_TIME},
    {"REFUSED", 7, number_cell, METER_M_REFUSED},
};

static const struct column trainer_columns[] = {
    {"TRAINER", 0, name_cell},
    {"STEP", 7, step_cell, METER_M_STEPS},
    {"STEP/s", 7, rate_cell, METER_M_STEPS},
    {"EXAMPLES/s", 10, reported_cell, METER_M_REPORTED, .label = "examples_per_second"},
    {"LOSS", 8, reported_cell, METER_M_REPORTED, .label = "loss"},
    {"AUC", 8, reported_cell, METER_M_REPORTED, .label = "auc"},
    {"WAIT", 5, wait_cell, METER_M_CALL_SECONDS},
    {"PULL p99", 8, p99_cell, METER_M_CALL_SECONDS, .label = "pull"},
    {"IN/s", 6, flow_cell, METER_M_TRAINER_BYTES, .label = "received"},
    {"OUT/s", 6, flow_cell, METER_M_TRAINER_BYTES, .label = "sent"},
    {"LOST", 4, number_cell, METER_M_RECONNECTS},
    {"CKPT", 8, age_cell, METER_M_CHECKPOINT_NUMBER, METER_M_CHECKPOINT_TIME},
};

static int print_line(const struct column *columns, size_t n, int names, const struct top_target *t,
    struct co_buf *ret, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        char cell[CELL];
        (void)snprintf(cell, sizeof(cell), "%s", columns[i].head);
        if (t) {
            columns[i].cell(t, &columns[i], cell);
        }
        int width = columns[i].width ? columns[i].width : -names;
        CO_TRY(co_buf_addf(ret, err, "%s%*s", i ? " " : "", width, cell));
    }
    return co_buf_adds(ret, "\n", err);
}

static int longest_name(const struct top_target *targets, size_t n) {
    int most = 0;
    for (size_t i = 0; i < n; i++) {
        int len = (int)strnlen(targets[i].name, CELL - 1);
        most = len > most ? len : most;
    }
    return most;
}

/* Those who answer and have that row. */
static int print_group(const struct top_target *targets, size_t n, enum meter has,
    const struct column *columns, size_t n_columns, struct co_buf *ret, struct co_err *err) {
    const int names = longest_name(targets, n);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const struct top_target *t = &targets[i];
        if (!t->now || !top_samples_have(t->now, meter_name(has), NULL)) {
            continue;
        }
        if (!any) {
            CO_TRY(print_line(columns, n_columns, names, NULL, ret, err));
        }
        CO_TRY(print_line(columns, n_columns, names, t, ret, err));
        any = true;
    }
    return 0;
}

int top_table_print(
    const struct top_target *targets, size_t n, struct co_buf *ret, struct co_err *err) {
    CO_TRY(print_group(
        targets, n, METER_M_MEMORY_MAX, server_columns, CO_ARRAY_LEN(server_columns), ret, err));
    CO_TRY(print_group(
        targets, n, METER_M_STEPS, trainer_columns, CO_ARRAY_LEN(trainer_columns), ret, err));
    for (size_t i = 0; i < n; i++) {
        const struct top_target *t = &targets[i];
        if (!t->now) {
            CO_TRY(co_buf_addf(ret, err, "%-*s %s\n", longest_name(targets, n), t->name,
                t->why ? t->why : "no answer yet"));
        } else if (!top_samples_have(t->now, meter_name(METER_M_MEMORY_MAX), NULL) &&
                   !top_samples_have(t->now, meter_name(METER_M_STEPS), NULL)) {
            CO_TRY(co_buf_addf(ret, err, "%s neither a server nor a trainer\n", t->name));
        }
    }
    return 0;
}
