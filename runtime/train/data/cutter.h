/* Cuts a line of CSV into fields: between commas, or another character, and in double quotes where
 * they hold some.  Pure. */
#pragma once

#include <stdbool.h>

#include "runtime/train/data/text.h"

/* What may stand between the columns of a file. */
extern const char da_cutter_any[];

struct da_cutter {
    struct da_text rest;
    char between;
    char *scratch; /* room for the texts of fields in quotes: as long as the line */
    bool more;     /* another field follows; true at the start */
};

/* Passes over what stands behind a field. */
static inline void da_cutter_step(struct da_cutter *c) {
    c->more = c->rest.len > 0;
    c->rest.at += c->more;
    c->rest.len -= c->more;
}

/* The next field, without blanks at its ends unless it is in quotes.  Returns NULL, or what is
 * wrong. */
const char *da_cutter_next(struct da_cutter *c, struct da_text *ret);
/* What the columns of that header are between: that of da_cutter_any which it has most, names in
 * quotes apart; a comma if it has none. */
char da_cutter_between(struct da_text header);
