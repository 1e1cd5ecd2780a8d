/* Self-signed certificates, for endpoints that are given none: they encrypt, but do not
 * show who answers. */
#pragma once

#include "common/err.h"

/* A fresh ECDSA P-256 key and a certificate for `name`, signed by itself, for a year; both PEM.
 * The caller frees both. */
CO_MUST_CHECK int co_cert_self_signed(
    const char *name, char **ret_cert, char **ret_key, struct co_err *err);
