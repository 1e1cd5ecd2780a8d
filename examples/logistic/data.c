/* Writes data for logistic, then executes a program if one is given:
 *
 *     logistic-data DIR [PROGRAM...]
 *
 * Writes part-0.csv and part-1.csv below DIR, each with 2000 lines "label,x1,x2,x3,x4" that are
 * always the same.  Labels are drawn with probability sigmoid(w x + b); a model that knows w and b
 * has a loss of about 0.29. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/flag.h"
#include "examples/nn/rng.h"

enum { FILES = 2, LINES = 2000, FEATURES = 4, TEXT_MAX = 1 << 20 };

static const double weights[FEATURES] = {1, -2, 3, -1};
#define BIAS 0.5

static int line_add(struct nn_rng *r, struct co_buf *text, struct co_err *err) {
    double x[FEATURES], z = BIAS;
    for (size_t i = 0; i < FEATURES; i++) {
        x[i] = round(nn_rng_normal(r) * 1000.0) / 1000.0;
        z += weights[i] * x[i];
    }
    int rc = co_buf_adds(text, nn_rng_double(r) < 1.0 / (1.0 + exp(-z)) ? "1" : "0", err);
    for (size_t i = 0; rc == 0 && i < FEATURES; i++) {
        rc = co_buf_addf(text, err, ",%.3f", x[i]);
    }
    return rc == 0 ? co_buf_adds(text, "\n", err) : rc;
}

/* All workers of a machine may write the file at the same time: it is replaced atomically, with the
 * same bytes. */
static int file_write(const char *dir, unsigned number, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/part-%u.csv", dir, number);
    CO_AUTOBUF struct co_buf text = CO_BUF(TEXT_MAX);
    struct nn_rng r;
    int rc = 0;
    nn_rng_init(&r, 1, number);
    for (size_t i = 0; rc == 0 && i < LINES; i++) {
        rc = line_add(&r, &text, err);
    }
    return rc == 0 ? co_file_write(path, text.data, text.len, 0644, err) : rc;
}

int main(int argc, char *argv[]) {
    const int end = co_words_check("logistic-data DIR [PROGRAM...]", 1, 0, argc, argv);
    if (end >= 0) {
        return end;
    }
    struct co_err err = {0};
    int rc = mkdir(argv[1], 0755) == 0 || errno == EEXIST
                 ? 0
                 : co_err_errno(&err, errno, "\"%s\"", argv[1]);
    for (unsigned i = 0; rc == 0 && i < FILES; i++) {
        rc = file_write(argv[1], i, &err);
    }
    if (rc == 0 && argc > 2) {
        (void)execvp(argv[2], argv + 2);
        rc = co_err_errno(&err, errno, "cannot start \"%s\"", argv[2]);
    }
    if (rc < 0) {
        (void)fprintf(stderr, "logistic-data: %s\n", co_err_text(&err));
    }
    return rc < 0 ? 1 : 0;
}
