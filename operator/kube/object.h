/* An object as it comes from the API server, resourceVersions, and the body of a delete.  Pure. */
#pragma once

#include "common/json/jdoc.h"
#include "common/json/json.h"

/* Without managedFields.  All is borrowed. */
struct kube_object {
    const struct co_jnode *nodes;
    const char *text; /* its JSON, not NUL-terminated; "" when it came in protobuf */
    size_t len;
};

/* A resourceVersion as a number, so that versions of one resource can be compared.  (The API
 * guarantees that since Kubernetes 1.35, and with etcd it has always been true.)  0 when it is not
 * a number. */
uint64_t kube_version(const char *resource_version);

/* The body of a delete with background propagation.  uid: the precondition; NULL: none.  at_once:
 * grace period 0, for a pod whose node is lost and cannot confirm its end.  The caller owns the
 * result. */
json_t *kube_delete_options(const char *uid, bool at_once);
