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
/* Tables with wire int8: what rounding has taken from gradients and was not sent yet [size]; each
 * chunk is of the thread that makes its frame. */
float *psc_exchanges_rest(struct psc_exchanges *x, uint32_t table);
/* The same tables, of the thread that has the step: the values that servers know the trainer to
 * have, and their versions by chunk. */
struct psc_known {
    float *w;           /* [size] */
    uint32_t *versions; /* [n]; 0: the trainer has none */
    uint32_t n;
};
struct psc_known *psc_exchanges_known(struct psc_exchanges *x, uint32_t table, uint32_t n);
/* Sync: where the table's values go after the step, if it was exchanged since the last one. */
float *psc_exchanges_take_place(struct psc_exchanges *x, uint32_t table);
