/* Logistic regression on parameter servers: a program to start your own from.
 *     logistic [DATA [MODEL]]    DATA: lines "label,x1,x2,x3,x4", a file or a directory of files;
 *                                a label is 1, or 0 or -1;
 *                                MODEL: where to save the model; loaded first if it exists
 * Without a job it trains alone; in a job's environment it is a server, or a worker. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt.h"

enum { W, B, FEATURES = 4, BATCH = 50, PASSES = 3 };
static const struct rt_param list[] = {{"w", FEATURES, "normal:std=0.01"}, {"b", 1, NULL}};
static struct co_err err;

static void must(int rc) {
    if (rc < 0) {
        (void)fprintf(stderr, "logistic: %s\n", co_err_text(&err));
        exit(co_code_exit(rc));
    }
}

/* Adds a line's gradients to those of its batch; returns its loss. */
static float learn(struct rt_params *p, const char *line, const char *where) {
    float *w = rt_params_value(p, W), *dw = rt_params_gradient(p, W), y, x[FEATURES];
    char more;
    int n = sscanf(line, " %f , %f , %f , %f , %f %c", &y, &x[0], &x[1], &x[2], &x[3], &more);
    bool good = n == 5 && (y == 0 || fabsf(y) == 1) && /* a rule may square what is x times more */
                fabsf(x[0]) + fabsf(x[1]) + fabsf(x[2]) + fabsf(x[3]) <= 1e15F;
    must(good ? 0 : co_err_set(&err, CO_INVALID, "%s: expected 1, 0 or -1,x1,x2,x3,x4", where));
    float z = *rt_params_value(p, B) + w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
    float error = 1 / (1 + expf(-z)) - (y > 0); /* some write -1 for 0 */
    for (int i = 0; i < FEATURES; i++) {
        dw[i] += error * x[i] / BATCH;
    }
    *rt_params_gradient(p, B) += error / BATCH;
    return fmaxf(y > 0 ? -z : z, 0) + log1pf(expf(-fabsf(z))); /* without an overflow */
}

static void train(const struct rt_job *job, const char *data, const char *model) {
    struct rt_share share = {rt_worker_index(job), rt_worker_num(job), RT_SHARE_FILES};
    struct rt_table_spec table = {.name = "dense", .optimizer = "adagrad:lr=0.1"};
    struct rt_progress progress = {.job = job};
    struct rt_table_stat stat;
    struct rt_params *p;
    struct rt_input *input;
    struct rt_client *c;
    size_t n = 0, len;
    float loss = 0;

    must(rt_is_first_worker(job) ? rt_save_check(model, &err) : 0);
    must(rt_params_new(list, 2, 1, &p, &err));
    table.size = rt_params_size(p);
    must(rt_input_open(data, &share, &input, &err));
    must(rt_client_open(job, NULL, &table, 1, &c, &err)); /* waits for the servers */
    must(rt_load_or_init(job, c, model, 0, rt_params_values(p), NULL, &err));
    must(rt_resume_input(c, input, &err)); /* after a restart: skips trained lines */
    rt_progress_begin(&progress, rt_input_pass(input));
    for (const char *line; rt_input_pass(input) < PASSES;) {
        must(rt_input_next(input, &line, &len, &err));
        if (line && strspn(line, " \t") < len) { /* not a blank line */
            loss += learn(p, line, rt_input_where(input));
            n++;
        }
        if (n == BATCH || (!line && n > 0)) {
            must(rt_exchange_dense(c, 0, rt_params_gradients(p), rt_params_values(p), &err));
            must(rt_keep_input(c, input, &err));
            must(rt_step(c, &err));
            rt_progress_add(&progress, n, loss / (float)n);
            memset(rt_params_gradients(p), 0, table.size * sizeof(float));
            loss = 0;
            n = 0;
        }
        if (!line) {
            rt_progress_end(&progress);
            rt_input_rewind(input);
            rt_progress_begin(&progress, rt_input_pass(input));
        }
    }
    must(rt_no_more(c, &err)); /* the others may have more data */
    must(rt_barrier(c, &err));
    must(rt_stat(c, 0, &stat, &err));
    must(stat.pushes > 0 ? 0 : co_err_set(&err, CO_INVALID, "no usable line in \"%s\"", data));
    must(rt_is_first_worker(job) ? rt_save(c, model, &err) : 0);
    must(rt_finish(c, &err));
    rt_input_close(input);
    rt_params_free(p);
}

int main(int argc, char *argv[]) {
    struct rt_job *job;
    if (argc > 3 || (argc > 1 && argv[1][0] == '-')) {
        int help = strcmp(argv[1], "--help") == 0;
        (void)fprintf(help ? stdout : stderr, "usage: logistic [DATA [MODEL]]\n");
        return help ? 0 : 2;
    }
    must(rt_init(&job, &err));
    must(rt_is_server(job) ? rt_server_run(job, NULL, &err) : 0);
    if (!rt_is_server(job)) {
        train(job, argc > 1 ? argv[1] : "data", argc > 2 ? argv[2] : "model");
    }
    rt_done(job);
    must(ferror(stdout) ? co_err_set(&err, CO_NORESOURCE, "cannot write to stdout") : 0);
    return 0;
}
