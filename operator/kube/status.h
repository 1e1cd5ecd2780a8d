/* Answers of the API server: HTTP status and Kubernetes Status of one that is no success to codes
 * by remedy and one readable line, and what its headers say.  Pure. */
#pragma once

#include "common/jdoc.h"

/* The code for a status outside 2xx; see op_kube_done_fn for the table. reason and message may
 * be "". */
int op_kube_status_code(int http, const char *reason, const char *message);

/* Sets err from an answer: body is the Status or NULL (then text, cut, speaks).  what
 * names the request ("create pods default/x").  Returns the code. */
int op_kube_status_err(
    struct co_err *err, const char *what, int http, const struct co_jnode *body, const char *text);

/* Retry-After of a Status (details.retryAfterSeconds) in ms; -1 when it holds none. */
int64_t op_kube_status_retry_ms(const struct co_jnode *body);
/* The header's value, in seconds; -1 for a date or nonsense.  Bounded to an hour. */
int64_t op_kube_retry_header_ms(const char *value, size_t len);

enum { OP_KUBE_WARNINGS_MAX = 512 };
/* Appends to texts, separated by "; ", what the value of a Warning header (RFC 7234, 5.5) says: of
 * a field that nobody knows, or that a policy would not have.  What does not fit is left out. */
void op_kube_warnings_add(char texts[OP_KUBE_WARNINGS_MAX], const char *value, size_t len);
