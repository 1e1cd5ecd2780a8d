/* Free TCP ports for children, which they will bind themselves.
 *
 * A port is taken from PORT_RANGE outside the kernel's range for outgoing connections where there
 * are any, so that no client gets it by chance; other launchers of this machine (of this network
 * namespace) see the abstract socket that stands for it until this process ends; and until
 * rl_ports_release it is bound, so that nobody else gets it while nodes still meet: two open files
 * a port until then, one after it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct rl_ports {
    uint16_t *port; /* n of them */
    size_t n;
    int *bound, *lock; /* sockets; -1: none */
};

struct rl_ports_range {
    uint16_t first, last;
    int fixed; /* not 0: exactly the n ports from first on, taken or not */
};

/* From PORT_RANGE ("35100:64000" by default), FLAGS_FIXED_PORT or FLAGS_START_PORT. */
CO_MUST_CHECK int rl_ports_range(struct rl_ports_range *ret, struct co_err *err);
CO_MUST_CHECK int rl_ports_hold(
    const struct rl_ports_range *range, size_t n, struct rl_ports *ret, struct co_err *err);
/* Just before the children start. */
void rl_ports_release(struct rl_ports *p);
void rl_ports_done(struct rl_ports *p);
