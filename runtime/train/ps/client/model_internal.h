/* What model.c (versions and lookups), model_version.c and model_read.c (files) share. */
#pragma once

#include <pthread.h>

#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/layers.h"
#include "runtime/train/ps/spec.h"

/* Never changed once it is in a published version. */
struct psc_vector {
    uint32_t holders; /* atomic */
    float values[];
};

/* One table in one version. */
struct psc_view {
    struct psc_layers layers; /* sparse */
    struct psc_vector *dense; /* held */
};

struct psc_version {
    uint32_t holders; /* atomic */
    uint32_t n;
    struct ps_table *tables; /* [n]; as in its checkpoint: a later one may have another init */
    struct psc_view *views;  /* [n] */
};

struct rt_model {
    char *dir;
    uint32_t n;            /* tables */
    uint64_t number, base; /* of the loaded checkpoint; 0: from rt_save */
    pthread_mutex_t m;     /* guards the two pointers */
    struct psc_version *now, *before;
};

/* model_version.c.  The caller holds the new ones. */
struct psc_version *psc_version_new(uint32_t n);
void psc_version_drop(struct psc_version *v);
CO_DEFINE_CLEANUP(struct psc_version *, psc_version_drop)
CO_MUST_CHECK int psc_version_table(
    struct psc_version *v, uint32_t i, const struct ckpt_table *saved, struct co_err *err);
/* One with the tables of a point, but without views. */
CO_MUST_CHECK int psc_version_of(
    const struct ckpt_point *p, struct psc_version **ret, struct co_err *err);
CO_MUST_CHECK int psc_vector_new(uint64_t size, struct psc_vector **ret, struct co_err *err);
void psc_vector_drop(struct psc_vector *v);

/* model_read.c.  Reads the newest checkpoint that is not damaged into a version that shares
 * nothing. A refresh takes only one that is newer than the model.  CO_NOTFOUND: there is none. */
CO_MUST_CHECK int psc_model_read_newest(
    struct rt_model *m, struct psc_version **ret, struct co_err *err);
/* Reads the points from `from` to the end of the chain into v. */
CO_MUST_CHECK int psc_model_read_points(
    struct psc_version *v, const struct ckpt_chain *chain, uint32_t from, struct co_err *err);
/* Reads what rt_save wrote; sets m->now. */
CO_MUST_CHECK int psc_model_read_saved(struct rt_model *m, struct co_err *err);
/* A model that has readers keeps its tables' names and shapes: whether the checkpoint has the same.
 */
CO_MUST_CHECK int psc_model_check(
    const struct rt_model *m, const struct ckpt_point *p, struct co_err *err);
