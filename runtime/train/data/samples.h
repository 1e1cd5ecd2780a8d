/* Samples, one behind the other.  A parser adds one: begin, fill labels and dense numbers, add ids,
 * then end or drop. */
#pragma once

#include "common/err.h"
#include "runtime/train/data/tally.h"
#include "runtime/train/data/wanted.h"

/* Arrays are owned; S, L, D: slots, labels and dense numbers of fields. */
struct da_samples {
    const struct da_fields *fields;
    size_t n, room;
    float *labels;  /* [n][L] */
    float *dense;   /* [n][D] */
    uint32_t *ends; /* [n][S]: where the ids of a slot end in ids */
    uint64_t *ids;  /* [n_ids]: by sample and slot */
    size_t n_ids, ids_room;
    /* Of the sample that is added: */
    size_t first_id;
    uint32_t *slots; /* [ids_room]: of its ids, from first_id on */
    uint32_t *taken; /* [fields->n]: for parsers, numbers of each field that were stored */
    bool sorted;     /* its slots are in order */
    uint64_t *other; /* [ids_room]: for sorting */
};

void da_samples_init(struct da_samples *s, const struct da_fields *fields);
void da_samples_done(struct da_samples *s); /* zeroed = empty */
void da_samples_clear(struct da_samples *s);

/* Labels are NaN, numbers 0; no ids. */
void da_samples_begin(struct da_samples *s);
float *da_samples_labels(struct da_samples *s); /* of the sample that is added */
float *da_samples_dense(struct da_samples *s);
void da_samples_add(struct da_samples *s, uint32_t slot, uint64_t id);
/* Returns 0, or -1 and drops it: it lacks a label, or a slot has more ids than fields->pad. */
int da_samples_end(struct da_samples *s, struct da_why *why);
void da_samples_drop(struct da_samples *s);

/* Adds sample i of another, of the same fields. */
void da_samples_copy(struct da_samples *s, const struct da_samples *from, size_t i);
