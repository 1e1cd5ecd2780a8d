/* Dense gradients of async tables that go to the servers as values come back.  A table has at most
 * one exchange in flight, so the network sets the pace; gradients that come meanwhile are summed.
 * For sync tables, the place of the values that the next step refreshes.  Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rt_client;
struct psc_exchanges;

struct psc_exchanges *psc_exchanges_new(struct rt_client *c);
void psc_exchanges_free(struct psc_exchanges *x); /* NULL allowed */
/* Whether one is in flight. */
bool psc_exchanges_pending(struct psc_exchanges *x);
/* The client rejoins: drops what waits. */
void psc_exchanges_forget(struct psc_exchanges *x);
/* Sync: where the table's values go after the step, if it was exchanged since the last one. */
float *psc_exchanges_take_place(struct psc_exchanges *x, uint32_t table);
