/* The input is lines: "a" and a word of the command line, "e" and a NAME=value of the
 * environment, "v" and what a node reported.  Nothing may crash, and a plan that is made holds
 * together. */
#include "runtime/launch/job/node_plan.h"

#include <string.h>

#include "runtime/launch/job/report.h"
#include "runtime/launch/job/value.h"

enum { WORDS_MAX = 32, PORTS_MAX = 4096, TEXT_MAX = 1 << 26 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    char *argv[WORDS_MAX + 1], *env[WORDS_MAX + 1], *value[WORDS_MAX + 1];
    int argc, n_env, n_values;
};

static const char *get(void *arg, const char *name) {
    const struct input *in = arg;
    size_t len = strlen(name);
    for (int i = 0; i < in->n_env; i++) {
        if (strncmp(in->env[i], name, len) == 0 && in->env[i][len] == '=') {
            return in->env[i] + len + 1;
        }
    }
    return NULL;
}

static void hold(bool condition) {
    if (!condition) {
        abort();
    }
}

static void read_input(char *text, struct input *in) {
    char *rest = text;
    in->argv[in->argc++] = (char *)"launch";
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (*line == 'a' && in->argc < WORDS_MAX) {
            in->argv[in->argc++] = line + 1;
        } else if (*line == 'e' && in->n_env < WORDS_MAX) {
            in->env[in->n_env++] = line + 1;
        } else if (*line == 'v' && in->n_values < WORDS_MAX) {
            in->value[in->n_values++] = line + 1;
        }
    }
}

static void check(const struct job *j, const struct job_plan *p) {
    for (size_t i = 0; i < p->n; i++) {
        const struct job_process *one = &p->process[i];
        hold(one->log && one->local < p->n);
        hold(j->discovery == JOB_DISCOVERY_GIVEN || one->index < p->endpoints[one->role].n);
        hold(i == 0 || p->process[i - 1].role <= one->role);
    }
    hold(p->command.n > 0);
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    (void)!job_report_plan(p, &b, NULL);
    for (size_t i = 0; i < p->n; i++) {
        (void)!job_report_table(&p->process[i], &b, NULL);
    }
}

static void plan(const struct input *in, const struct job *j) {
    static uint16_t ports[PORTS_MAX];
    hold(j->n_ports <= PORTS_MAX);
    struct job_offer offers[WORDS_MAX + 1];
    struct job_plan p = {.n = 0};
    size_t n = 0;
    for (int i = 0; i < in->n_values; i++) {
        n += job_value_decode(j, n, in->value[i], &offers[n], NULL) == 0;
    }
    if (j->n_ports) {
        job_offer_make(j, ports, &offers[n++]);
    }
    if (job_plan_make(j, offers, n, n ? n - 1 : 0, "/tmp/x", &p, NULL) == 0) {
        check(j, &p);
        job_plan_done(&p);
    }
    for (size_t i = 0; i < n; i++) {
        CO_AUTOFREE char *text = job_value_encode(j, &offers[i]);
        hold(text);
        job_offer_done(&offers[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *text = co_xstrndup((const char *)data, size);
    struct input in = {.argc = 0};
    read_input(text, &in);
    struct options o;
    struct job j;
    struct job_node node = {.ip = (char *)"10.0.0.1",
        .pod = (char *)"abcdef",
        .python = (char *)"python3",
        .dir = (char *)"/"};
    if (options_parse(in.argc, in.argv, get, &in, &o, NULL)) {
        return 0;
    }
    if (job_plan(&o, &node, get, &in, &j, NULL) == 0) {
        CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
        (void)!job_report_configuration(&j, &b, NULL);
        (void)!job_report_job(&j, 0, &b, NULL);
        plan(&in, &j);
        job_done(&j);
    }
    options_done(&o);
    return 0;
}
