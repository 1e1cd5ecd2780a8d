/* Distinguishes requests to stop from signals that reach this process twice. */
#include "common/stops.h"

int co_stops_note(struct co_stops *s, int64_t now_ms) {
    int64_t since = now_ms - s->last_ms;
    s->last_ms = now_ms;
    return s->n > 0 && since < CO_STOPS_APART_MS ? 0 : ++s->n;
}
