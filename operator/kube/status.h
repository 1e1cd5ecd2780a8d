/* Translates failures of the API server (HTTP status and Kubernetes Status) to enum co_code and one
 * readable line, and parses the headers Retry-After and Warning.  Pure. */
#pragma once

#include "common/json/jdoc.h"

/* The code for a status outside 2xx; see kube_done_fn for the table. reason and message may
 * be "". */
int kube_status_code(int http, const char *reason, const char *message);

/* Sets err from an answer.  body: the Status; NULL: the message has the beginning of text instead.
 * what: the request ("create pods default/x").  Returns the code. */
int kube_status_err(
    struct co_err *err, const char *what, int http, const struct co_jnode *body, const char *text);

/* details.retryAfterSeconds of a Status in ms; -1 when it has none. */
int64_t kube_status_retry_ms(const struct co_jnode *body);
/* The value of the header Retry-After in ms; -1 for a date or an invalid value.  At most an hour.
 */
int64_t kube_retry_header_ms(const char *value, size_t len);

enum { KUBE_WARNINGS_MAX = 512 };
/* Appends the texts in the value of a Warning header (RFC 7234, 5.5) to texts, separated by "; ".
 * The API server warns of unknown fields and of violated policies.  What does not fit is left out.
 */
void kube_warnings_add(char texts[KUBE_WARNINGS_MAX], const char *value, size_t len);
