/* What a trainer says when it joins, and where the job begins: the parts of join.c. */
#pragma once

#include "runtime/train/ps/client/client_internal.h"

/* Starts a hello on a link in state HELLO, a begin on one in state WELCOME.  The caller waits for
 * the call; the answer moves the link. */
CO_MUST_CHECK int psc_greet_hello(
    struct rt_client *c, uint32_t server, struct rt_call **ret_call, struct co_err *err);
CO_MUST_CHECK int psc_greet_begin(
    struct rt_client *c, uint32_t server, struct rt_call **ret_call, struct co_err *err);

/* muster.c.  All servers have sent a welcome: lists those to which another hello must go, as what
 * they said may be out of date. */
uint32_t psc_muster_doubtful(struct rt_client *c, uint32_t *ret_which);
/* Sets c->progress to where the job begins: at a restarted server's checkpoint, in a new era, or at
 * the step that the servers have reached.  CO_INVALID: a server has lost its tables. */
CO_MUST_CHECK int psc_muster_choose(struct rt_client *c, struct co_err *err);
