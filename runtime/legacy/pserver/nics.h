/* Where a server listens that was given network interfaces: `--nics=eth0,ib0`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { PSERVER_NICS_MAX = 16 };

struct pserver_nics {
    char address[PSERVER_NICS_MAX][64]; /* numeric, IPv6 without brackets */
    size_t n;
};

/* The first address of each interface of the comma-joined list, IPv4 before IPv6.  An empty list
 * is "::", all of them.  CO_NOTFOUND names the interface that is not there, and those that are. */
CO_MUST_CHECK int pserver_nics_find(const char *list, struct pserver_nics *ret, struct co_err *err);
