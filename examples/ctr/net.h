/* The interface between the shared trainer and a network: sizes, and the network's own layers.
 *
 *     logit = tower(input) + what the network adds;  p = sigmoid(logit);  loss = mean log loss
 *
 * tower: hidden layers with relu, then one output (examples/nn/tower.h).
 * Letters: B batch, S slots, D numbers, R floats of a sparse row, U different ids of the batch, I
 * inputs of the tower, P dense parameters.  The functions keep no state; scratch memory is the
 * caller's. */
#pragma once

#include "examples/ctr/config.h"

/* The data of one batch with which a network computes. */
struct ctr_work {
    const struct ctr_config *config;
    const struct ctr_layout *layout;
    size_t n;              /* B */
    const uint32_t *index; /* (B, S): indexes of rows */
    const float *dense;    /* (B, D) */
    size_t n_rows;         /* U */
    const float *rows;     /* (U, R) */
    const float *params;   /* (P) */
    float *input;          /* (B, I) */
    float *logit;          /* (B) */
    /* Backward: */
    const float *dinput; /* (B, wanted) */
    const float *dlogit; /* (B) */
    float *grads;        /* (P); the tower's part is filled already */
    float *row_grads;    /* (U, R) */
};

struct ctr_net {
    const char *name; /* of the program */
    struct ctr_config config;
    const char *row_init;                         /* initial values of rows (docs/rules.md) */
    size_t (*inputs)(const struct ctr_config *c); /* I */
    size_t (*wanted)(
        const struct ctr_config *c); /* how many inputs, from the first, need gradients */
    /* Adds the views of the network's own parameters, after the tower's; NULL: none. */
    void (*layout)(const struct ctr_config *c, struct ctr_layout *l);
    void (*fill)(const struct ctr_work *w); /* fills the tower's input */
    void (*add)(const struct ctr_work *w);  /* adds to logit; NULL: nothing to add */
    /* Writes all of row_grads, and the grads of the network's own parameters. */
    void (*backward)(const struct ctr_work *w);
};

/* Functions for networks whose input is concat(rows of the slots in order, dense), and which need
 * no gradients of the numbers. */
size_t ctr_concat_inputs(const struct ctr_config *c);
size_t ctr_concat_wanted(const struct ctr_config *c);
void ctr_concat_fill(const struct ctr_work *w);
void ctr_concat_backward(const struct ctr_work *w);
