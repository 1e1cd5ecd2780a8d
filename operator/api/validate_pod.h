/* What the API server or kubelet would reject in a role's template, said before there is a cluster:
 * for `validate`.  The operator leaves it to them, whose words are newer.  Pure. */
#pragma once

#include "common/findings.h"
#include "operator/api/job.h"

/* Finds each thing that is wrong.  tmpl: a template, whose fields may have any type
 * (crd_find_mistyped reports those); base: its path. */
struct api_template_use {
    bool ends; /* its pods must end, and only its restartPolicy says whether containers restart */
    bool host; /* its pods are on the network of their nodes, whatever it says itself */
};
void api_template_validate(
    const json_t *tmpl, struct api_template_use use, const char *base, struct co_findings *to);
