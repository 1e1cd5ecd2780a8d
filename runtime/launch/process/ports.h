/* Finds and reserves free TCP ports for children, which will bind them themselves.
 *
 * Ports are taken from PORT_RANGE, and outside the kernel's range for outgoing connections where
 * possible: no client can get such a port by chance.  Two things protect a port:
 *  - until proc_ports_release it is bound, so that no other program gets it while nodes meet;
 *  - until this process ends an abstract UNIX socket marks it as used, for other launchers of the
 *    same network namespace.
 * So a port costs two open files before proc_ports_release, and one afterwards. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct proc_ports {
    uint16_t *port; /* n of them */
    size_t n;
    int *bound, *lock; /* sockets; -1: none */
};

struct proc_ports_range {
    uint16_t first, last; /* free ports are searched in here */
    unsigned fixed;       /* not 0: the children's ports begin here, whether they are free or not */
};

/* From PORT_RANGE ("35100:64000" by default), and FLAGS_FIXED_PORT or FLAGS_START_PORT. */
CO_MUST_CHECK int proc_ports_range(struct proc_ports_range *ret, struct co_err *err);
/* Reserves n ports.  Number `spare` of them is not for a child, and is a free one even when those
 * of the children are fixed. */
CO_MUST_CHECK int proc_ports_hold(const struct proc_ports_range *range, size_t n, size_t spare,
    struct proc_ports *ret, struct co_err *err);
/* Unbinds the ports; to be called just before the children start. */
void proc_ports_release(struct proc_ports *p);
void proc_ports_done(struct proc_ports *p);
