/* The configuration block, tables and commands as texts.  See report.h. */
#include "runtime/launch/job/report.h"

#include <stdio.h>
#include <string.h>

enum { TABLE_KEY = 40, TABLE_VALUE = 45, TEXT_MAX = 1 << 24 };

/* The option's value as Python prints it; the caller frees. */
static char *value_text(const struct job *j, enum options_option id) {
    const struct options *o = j->options;
    if (id == OPTIONS_OPT_SCRIPT_ARGS) {
        return options_list_python(o->script + 1, (size_t)o->n_script - 1);
    }
    if (id == OPTIONS_OPT_RUN_MODE && j->format != OPTIONS_FORMAT_2_0) {
        return co_xstrdup(job_mode_name[j->mode]);
    }
    if (id == OPTIONS_OPT_JOB_ID) {
        return co_xstrdup(j->id);
    }
    if (id == OPTIONS_OPT_NNODES && j->discovery == JOB_DISCOVERY_ENDPOINTS) {
        return co_xasprintf("%d", j->nodes_max);
    }
    return co_xstrdup(o->text[id] ? o->text[id] : "None");
}

int job_report_configuration(const struct job *j, struct co_buf *ret, struct co_err *err) {
    for (int i = 0; i < OPTIONS_OPT_COUNT; i++) {
        const struct options_option_row *row = &options_option_rows[i];
        if (row->formats & 1U << j->format) {
            bool old = j->format == OPTIONS_FORMAT_2_0 && row->old_name;
            CO_AUTOFREE char *text = value_text(j, (enum options_option)i);
            CO_TRY(co_buf_addf(ret, err, "%s: %s\n", old ? row->old_name : row->name, text));
        }
    }
    return 0;
}

int job_report_job(const struct job *j, size_t n_nodes, struct co_buf *ret, struct co_err *err) {
    return co_buf_addf(ret, err, "Job: %s, mode %s, replicas %zu[%d:%d], elastic %s", j->id,
        job_mode_name[j->mode], n_nodes ? n_nodes : (size_t)j->nodes_max, j->nodes_min,
        j->nodes_max, j->elastic ? "True" : "False");
}

/* Centres a text in the value column.  Of a long text only the end is shown. */
static int add_centred(struct co_buf *b, const char *text, struct co_err *err) {
    size_t len = strlen(text);
    char cut[TABLE_VALUE + 1];
    if (len >= TABLE_VALUE) {
        (void)snprintf(cut, sizeof(cut), "... %s", text + len - 41);
        text = cut;
        len = strlen(cut);
    }
    int before = (int)(TABLE_VALUE - len) / 2;
    return co_buf_addf(b, err, "%*s%s%*s", before, "", text, (int)(TABLE_VALUE - len) - before, "");
}

static int table_row(
    struct co_buf *b, int width, const char *key, const char *value, struct co_err *err) {
    CO_TRY(co_buf_addf(b, err, "    |%*s  ", width, key));
    CO_TRY(add_centred(b, value, err));
    return co_buf_adds(b, "|\n", err);
}

static int table_rule(struct co_buf *b, int width, char c, struct co_err *err) {
    char line[256];
    size_t n = (size_t)width + 2 + TABLE_VALUE;
    n = n < sizeof(line) ? n : sizeof(line) - 1;
    memset(line, c, n);
    line[n] = '\0';
    return co_buf_addf(b, err, "    +%s+\n", line);
}

int job_report_table(const struct job_process *p, struct co_buf *ret, struct co_err *err) {
    size_t widest = TABLE_KEY;
    for (size_t i = 0; i < p->set.n; i++) {
        size_t len = strcspn(p->set.item[i], "=");
        widest = len > widest ? len : widest;
    }
    const int width = (int)(widest < 128 ? widest : 128);
    CO_TRY(table_rule(ret, width, '=', err));
    CO_TRY(table_row(ret, width, "Distributed Envs", "Value", err));
    CO_TRY(table_rule(ret, width, '-', err));
    for (size_t i = 0; i < p->set.n; i++) {
        size_t len = strcspn(p->set.item[i], "=");
        CO_AUTOFREE char *key = co_xstrndup(p->set.item[i], len);
        CO_TRY(table_row(ret, width, key, p->set.item[i] + len + 1, err));
    }
    return table_rule(ret, width, '=', err);
}

int job_report_plan(const struct job_plan *p, struct co_buf *ret, struct co_err *err) {
    CO_AUTOFREE char *command = options_list_python(p->command.item, p->command.n);
    CO_TRY(co_buf_addf(ret, err, "command %s\n", command));
    for (size_t i = 0; i < p->n; i++) {
        char name[64];
        job_process_name(&p->process[i], name, sizeof(name));
        CO_TRY(co_buf_addf(ret, err, "\n%s, log %s\n", name, p->process[i].log));
        for (size_t k = 0; k < p->process[i].set.n; k++) {
            CO_TRY(co_buf_addf(ret, err, "    %s\n", p->process[i].set.item[k]));
        }
    }
    return 0;
}

/* Quotes a word for a shell. */
static int add_quoted(struct co_buf *b, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-=./:,@%+";
    if (*word && strspn(word, plain) == strlen(word)) {
        return co_buf_addf(b, NULL, " %s", word);
    }
    CO_TRY(co_buf_adds(b, " '", NULL));
    for (; *word; word++) {
        CO_TRY(*word == '\'' ? co_buf_adds(b, "'\\''", NULL) : co_buf_add(b, word, 1, NULL));
    }
    return co_buf_adds(b, "'", NULL);
}

/* Whether the word launch does not stand behind it: it is this command's other name, or Python's
 * way to start it. */
static bool says_launch(const char *started) {
    const char *slash = strrchr(started, '/');
    return strcmp(slash ? slash + 1 : started, "fleetrun") == 0 || strstr(started, " -m ");
}

char *job_report_command(const char *started, const char *master, int argc, char *const argv[]) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    int r = co_buf_addf(
        &b, NULL, "%s%s --master %s", started, says_launch(started) ? "" : " launch", master);
    for (int i = 1; i < argc && !r; i++) {
        r = add_quoted(&b, argv[i]);
    }
    return co_buf_take(&b);
}
