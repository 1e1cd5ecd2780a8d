/* Answers of the API server that are no success: HTTP status and Kubernetes Status to codes by
 * remedy and one readable line.  Pure. */
#pragma once

#include "common/json.h"

/* The code for a status outside 2xx; see op_kube_done_fn for the table. reason and message may
 * be "". */
int op_kube_status_code(int http, const char *reason, const char *message);

/* Sets err from an answer: body is the parsed Status or NULL (then text, cut, speaks).  what
 * names the request ("create pods default/x").  Returns the code. */
int op_kube_status_err(
    struct co_err *err, const char *what, int http, const json_t *body, const char *text);

/* Retry-After of a Status (details.retryAfterSeconds) in ms; -1 when it holds none. */
int64_t op_kube_status_retry_ms(const json_t *body);
/* The header's value, in seconds; -1 for a date or nonsense.  Bounded to an hour. */
int64_t op_kube_retry_header_ms(const char *value, size_t len);
