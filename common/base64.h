/* Base64 as kubeconfig files and HTTP headers use it (RFC 4648, padded), by GnuTLS. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

/* Strict: padding is required, and spare bits must be zero.  White space is skipped, but a text of
 * nothing else is not base64.  *ret_data is NUL-terminated; the caller frees it.  CO_INVALID "not
 * base64". */
CO_MUST_CHECK int co_base64_decode(
    const char *text, char **ret_data, size_t *ret_len, struct co_err *err);
char *co_base64(const void *data, size_t len); /* the caller frees */
