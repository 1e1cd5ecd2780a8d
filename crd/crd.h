/*
 * The fields of a PaddleJob: the source of truth for names, types, limits and documentation.
 *
 * One tree of rows (crd_job_fields) from which both CustomResourceDefinition files, the reference
 * page and the list of paths are printed; the committed files are compared with it by a test.
 * Knows nothing of what the operator does with a field beyond the sentence that documents it.
 * All data is constant; the functions are pure and may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#define CRD_GROUP "batch.paddlepaddle.org"
#define CRD_VERSION "v1"
#define CRD_KIND "PaddleJob"
#define CRD_PLURAL "paddlejobs"
#define CRD_SINGULAR "paddlejob"
#define CRD_SHORT "pdj"

enum crd_type {
    CRD_OBJECT,       /* .fields says what is in it */
    CRD_OBJECT_LIST,  /* list of objects of .fields */
    CRD_STRING,       /* any string: the field's text says what unknown values mean */
    CRD_STRING_LIST,  /* list of strings */
    CRD_STRING_MAP,   /* string -> string */
    CRD_QUANTITY_MAP, /* resource name -> quantity, as 200m, 4Gi or a plain number */
    CRD_INTEGER,
    CRD_INT32,
    CRD_INT64,
    CRD_BOOLEAN,
    CRD_TIME, /* RFC 3339 */
    CRD_TYPES /* number of types */
};

/* A rule in CEL, judged by the API server at admission. */
struct crd_rule {
    const char *rule;
    const char *message; /* says what to do */
};

/* One field. Tables of them end with a row whose name is NULL. */
struct crd_field {
    const char *name;
    const char *doc;                /* one paragraph, as `kubectl explain` shows it */
    const struct crd_field *fields; /* of CRD_OBJECT and CRD_OBJECT_LIST */
    const struct crd_rule *rules;   /* ends with a row whose rule is NULL; NULL: none */
    const char *list_key;           /* list merged by this key; NULL: replaced as a whole */
    const char *anchor;             /* fields shared by several rows: documented once under this */
    enum crd_type type;
    unsigned max;  /* items of a list, characters of a string; 0: no bound. Rules need one */
    bool required; /* of the object it is in */
    bool open;     /* keeps fields that are not in .fields */
    bool opaque;   /* has no schema for the API server; .fields only document what we write */
    bool atomic;   /* has one writer, so the API server need not track who owns which part */
    bool added;    /* not in paddle-operator v0.3.5 */
};

/* A column of `kubectl get`; wide ones only with -o wide. Ends with a row whose name is NULL. */
struct crd_column {
    const char *name;
    const char *type;
    const char *path;
    const char *doc;
    bool wide;
};

/* The root: the job itself. */
extern const struct crd_field crd_job;
extern const struct crd_column crd_columns[];

/* Fields of `template`, in a file of their own because there are many. */
extern const struct crd_field crd_template_fields[];
/* Likewise of `status`. */
extern const struct crd_field crd_status_fields[];

/* Where `kubectl scale` and autoscalers read and write. */
struct crd_scale {
    const char *spec_replicas, *status_replicas, *selector; /* JSON paths */
};
extern const struct crd_scale crd_scale;

/* The files. Failed writes are left to the caller's ferror(). */
void crd_print_v1(FILE *out);
void crd_print_v1beta1(FILE *out);
void crd_print_docs(FILE *out);

/* One line a field: "spec.worker.replicas integer"; list items are "[]". */
void crd_print_paths(FILE *out);

/* Name of the type in documentation: "integer", "list of strings". Never NULL. */
const char *crd_type_name(enum crd_type type);
