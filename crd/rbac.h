/*
 * What the operator may do in a cluster, and users with jobs: one row a rule, with the reason for
 * it. The roles in deploy/v1/operator.yaml and in the chart are printed from here. Add a verb here
 * before using it in the operator, and to tests/integration/test_rbac.py what uses it: that test
 * fails where a verb is used by nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum crd_scope {
    CRD_SCOPE_CLUSTER,  /* wherever jobs are */
    CRD_SCOPE_OPERATOR, /* the operator's own namespace */
    CRD_SCOPE_SHARDS,   /* the operator's own namespace, with --shard only */
    CRD_SCOPE_METRICS,  /* the cluster, with --metrics-secure only */
    /* No right of the operator's: of users, in namespaces where they have the role of that name. */
    CRD_SCOPE_EDIT, /* edit, and so admin */
    CRD_SCOPE_VIEW,
    /* wherever jobs are, with --scheduling of that word only */
    CRD_SCOPE_VOLCANO,
    CRD_SCOPE_COSCHEDULING,
    CRD_SCOPE_NATIVE,
    CRD_SCOPE_KUEUE,
};

/* Lists are separated by commas without blanks. */
struct crd_grant {
    enum crd_scope scope;
    const char *group; /* "" is the core group */
    const char *resources;
    const char *names; /* of the objects; NULL: any */
    const char *verbs;
    const char *why;
};

/* Ends with a row whose resources are NULL. */
extern const struct crd_grant crd_grants[];

/* The operator's ClusterRole and Role, and those of users, each with its "---" before it. */
void crd_print_rbac(FILE *out);

/* One role, with its "---", and its rules alone, for the chart. */
void crd_print_role(FILE *out, enum crd_scope scope);
void crd_print_rules(FILE *out, enum crd_scope scope);

/* For a word of --scheduling: the kustomize component that sets the flag and adds its rules, and
 * those rules alone.  False: there is no such word. */
bool crd_print_gang(FILE *out, const char *word);
bool crd_print_gang_rules(FILE *out, const char *word);
