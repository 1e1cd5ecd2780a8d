/* Builds paths and queries of the Kubernetes API.  Everything is escaped, so that a name stays one
 * segment whatever characters it has.  Pure. */
#pragma once

#include "common/buf.h"
#include "operator/kube/client.h"

/* Appends "/apis/<group>/<version>/namespaces/<ns>/<plural>/<name>/<subresource>"; CO_INVALID
 * for a segment that is empty, "." or "..", too long or holds a control character. */
CO_MUST_CHECK int kube_path_add(struct co_buf *b, const struct kube_type *type, const char *ns,
    const char *name, const char *subresource, struct co_err *err);

/* Appends "?key=value" or "&key=value"; *first says which, and becomes false. */
CO_MUST_CHECK int kube_query_add(
    struct co_buf *b, bool *first, const char *key, const char *value, struct co_err *err);
