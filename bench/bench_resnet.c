/* Times steps of ResNet50 (forward, backward, Momentum) on always the same images.
 *
 *     bench-resnet BATCH THREADS f32|bf16 STEPS
 *
 * Prints a line for each step: seconds of wall time, seconds of CPU time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/flag.h"
#include "examples/resnet50/replica.h"
#include "examples/resnet50/team.h"

static double seconds(clockid_t clock) {
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int steps_run(struct rn_replica *r, int steps, struct co_err *err) {
    const struct rn_net_config *c = &rn_plan_net(r->plan)->config;
    float *images = rn_plan_images(r->plan);
    int rc = 0;

    for (size_t i = 0; i < (size_t)c->batch * 3 * c->image * c->image; i++) {
        images[i] = (float)(i * 2654435761U % 1000) / 500.0F - 1.0F;
    }
    for (uint32_t i = 0; i < c->batch; i++) {
        r->labels[i] = i % c->classes;
    }
    for (int i = 0; rc == 0 && i < steps; i++) {
        double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        struct rn_loss loss = {0};

        rc = rn_replica_step(r, 0.01, &loss, err);
        (void)printf("%.4f %.4f\n", seconds(CLOCK_MONOTONIC) - wall,
            seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
        (void)fflush(stdout);
    }
    return rc;
}

int main(int argc, char *argv[]) {
    const int end = co_words_check("bench-resnet BATCH THREADS f32|bf16 STEPS", 4, 4, argc, argv);
    if (end >= 0) {
        return end;
    }
    struct rn_options o = {.depth = 50,
        .width = 64,
        .image_size = 224,
        .class_dim = 102,
        .momentum = 0.9,
        .l2_decay = 1e-4};
    struct rn_replica r = {NULL};
    struct rt_job *job = NULL;
    struct co_err err = {0};

    o.batch_size = strtol(argv[1], NULL, 10);
    o.threads = strtol(argv[2], NULL, 10);
    o.precision = argv[3];
    int rc = rt_init(&job, &err);
    if (rc == 0) {
        rc = rn_replica_open(&r, job, &o, &err);
    }
    if (rc == 0) {
        rc = steps_run(&r, (int)strtol(argv[4], NULL, 10), &err);
    }
    if (rc < 0) {
        (void)fprintf(stderr, "bench-resnet: %s\n", co_err_text(&err));
    }
    rn_replica_close(&r);
    rt_done(job);
    return rc < 0;
}
