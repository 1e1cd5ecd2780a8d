/* Tells when nobody has been connected to some TCP ports of this machine for a while: the only
 * sign, where launchers do not meet, that the workers of other nodes need its servers no more. */
#pragma once

#include "common/loop.h"

struct rl_quiet;

/* quiet(arg) runs once, when there has been no connection for quiet_ms; used: somebody was
 * connected before (else the wait begins with the first connection).  ports is copied. */
struct rl_quiet *rl_quiet_new(struct co_loop *l, const uint16_t *ports, size_t n, int64_t quiet_ms,
    bool used, void (*quiet)(void *arg), void *arg);
void rl_quiet_free(struct rl_quiet *q); /* NULL allowed */
