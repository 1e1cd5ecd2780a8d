/* An object as the API server tells of it, and small values around one.  Pure. */
#pragma once

#include "common/jdoc.h"
#include "common/json.h"

/* Less managedFields.  All is borrowed. */
struct op_kube_object {
    const struct co_jnode *nodes;
    const char *text; /* its JSON, not NUL-terminated; "" when it came in protobuf */
    size_t len;
};

/* resourceVersion as a number, for comparing the age of writes and watches of one resource
 * (the API promises that since 1.35, and etcd has always kept it); 0 when it is none. */
uint64_t op_kube_version(const char *resource_version);

/* The body of a delete: what the object owns goes afterwards.  uid: the precondition; NULL: none.
 * The caller owns it. */
json_t *op_kube_delete_options(const char *uid);
