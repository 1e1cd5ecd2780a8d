/* Reads an HTTP/1.0 or 1.1 answer as it arrives, in pieces of any size.  Pure; bounds: a line, the
 * number of headers, the body.  What follows the answer is not touched. */
#pragma once

#include "common/buf.h"

#include <stdbool.h>

struct co_http_answer {
    int status;         /* 200; 0 before it is known */
    bool complete;      /* all of it was read */
    bool close;         /* the server will close, or may not be asked again, on this connection */
    struct co_buf body; /* its max is the bound */
    /* When set gets the body of a 200 in pieces instead, in all not bounded. */
    void (*data)(void *arg, const char *data, size_t len);
    void *arg;
    const char *want; /* a header's name, borrowed; NULL: none */
    char wanted[128]; /* its value, cut to fit; "": the answer has no such header */
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
/* ret_used: bytes that belong to this answer.  CO_INVALID: no HTTP; CO_NORESOURCE: too long. */
CO_MUST_CHECK int co_http_answer_feed(
    struct co_http_answer *a, const char *data, size_t len, size_t *ret_used, struct co_err *err);
/* The connection was closed: that may be the end of a body; else CO_UNAVAILABLE. */
CO_MUST_CHECK int co_http_answer_end(struct co_http_answer *a, struct co_err *err);
