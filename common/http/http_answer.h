/* Parses an HTTP/1.0 or 1.1 answer as it arrives, in pieces of any size.  The length of a line, the
 * number of headers and the body are limited.  Bytes after the answer are left to the caller.
 * Pure. */
#pragma once

#include <stdbool.h>

#include "common/buf.h"

struct co_http_answer {
    int status;         /* 200; 0 before it is known */
    bool complete;      /* the whole answer has been read */
    bool close;         /* the connection cannot be used for another request */
    struct co_buf body; /* its max is the limit */
    /* If set, it gets the body of a 200 in pieces, without a limit in all. */
    void (*data)(void *arg, const char *data, size_t len);
    void *arg;
    const char *want; /* name of a header that the caller needs, borrowed; NULL: none */
    char wanted[128]; /* its value, cut to fit; "": the answer does not have it */
    /* private */
    int state;
    bool chunked;
    bool has_length;
    unsigned n_headers;
    uint64_t left; /* of the body or the chunk */
    struct co_buf line;
};

void co_http_answer_init(struct co_http_answer *a, size_t max_body);
void co_http_answer_done(struct co_http_answer *a);
/* ret_used: bytes that belong to this answer.  CO_INVALID: not HTTP; CO_NORESOURCE: too long. */
CO_MUST_CHECK int co_http_answer_feed(
    struct co_http_answer *a, const char *data, size_t len, size_t *ret_used, struct co_err *err);
/* The connection was closed, which ends a body without a length; otherwise CO_UNAVAILABLE. */
CO_MUST_CHECK int co_http_answer_end(struct co_http_answer *a, struct co_err *err);
