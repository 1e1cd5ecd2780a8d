/* Splits a byte stream into lines, each an event of a watch in JSON, however the bytes were cut in
 * transit.  The length of a line is bounded.  Pure. */
#pragma once

#include <stdbool.h>

#include "common/buf.h"

struct kube_frame {
    struct co_buf part; /* a line that is not complete yet */
};

/* One line without its line break, never empty.  Any result but 0 stops the feed with that code;
 * then the callback may have freed the frame. */
typedef int (*kube_frame_fn)(void *arg, const char *line, size_t len);

void kube_frame_init(struct kube_frame *f, size_t line_max);
void kube_frame_done(struct kube_frame *f);
void kube_frame_clear(struct kube_frame *f); /* for a new stream */

/* Calls fn for each line that data completes.  CO_NORESOURCE for a line longer than line_max
 * (err set); else 0 or what fn returned (err untouched). */
CO_MUST_CHECK int kube_frame_feed(struct kube_frame *f, const char *data, size_t len,
    kube_frame_fn fn, void *arg, struct co_err *err);
/* Whether the stream has ended inside a line. */
bool kube_frame_torn(const struct kube_frame *f);

enum kube_frame_type {
    KUBE_FRAME_ADDED,
    KUBE_FRAME_MODIFIED,
    KUBE_FRAME_DELETED,
    KUBE_FRAME_BOOKMARK,
    KUBE_FRAME_ERROR,
};

/* Splits {"type":"ADDED","object":{...}} without parsing the object: *ret_object points into
 * line.  CO_INVALID when the line does not have the order and spacing that every API server
 * writes; the caller then parses all of it. */
CO_MUST_CHECK int kube_frame_split(const char *line, size_t len, enum kube_frame_type *ret_type,
    const char **ret_object, size_t *ret_len, struct co_err *err);
/* The type by its name; CO_INVALID when there is none such. */
CO_MUST_CHECK int kube_frame_type_parse(
    const char *name, size_t len, enum kube_frame_type *ret, struct co_err *err);
