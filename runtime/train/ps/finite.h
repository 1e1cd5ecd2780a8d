/* Checks values for NaN and infinity.  Servers check all that they receive.  Trainers check what
 * is sent in several parts, since a server can only refuse its own part.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether no value is NaN or infinite. */
bool ps_all_finite_f32(const float *g, size_t n);
/* Whether all values are finite and below 2^40: sums of gradients, and sums of their squares, then
 * stay finite for longer than any training lasts.  As fast as the above. */
bool ps_all_small_f32(const float *g, size_t n);

/* The limit for the shows, and for the clicks, of a row in one push. */
#define PS_CLICKS_MAX 1e9F
