/* What is wanted of a line, and how it becomes numbers and ids; the options of a reader of samples,
 * checked.  Immutable, any thread. */
#pragma once

#include "common/err.h"
#include "common/map.h"
#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/data/text.h"

enum { DA_NAME_MAX = 127, DA_FIELDS_MAX = 1 << 16 };

struct da_field {
    char *name;
    enum rt_data_kind kind;
    uint32_t n;     /* numbers; a slot: 0 */
    uint32_t first; /* the place of its first number among labels or dense ones, or its slot */
};

struct da_fields {
    enum rt_data_format format;
    struct da_field *at; /* [n] owned */
    size_t n;
    size_t labels, dense, slots; /* of a sample */
    struct co_map names;
    char *
        *columns; /* [n_columns] owned; n_columns 0: files have headers, or the format no columns */
    size_t n_columns;
    uint64_t vocabulary, fill;
    uint32_t pad;
    bool whole, raw, unlabelled;
    /* For programs of click data: labels are da_label's, of which -1 stays, and a line may lack its
     * own; numbers are no words, and those of CSV are scaled as Criteo's unless raw. */
    bool clicks;
    const char *advice; /* follows what is said of a missing column; NULL: nothing.  Borrowed */
};

/* CO_INVALID names the option. */
CO_MUST_CHECK int da_fields_init(
    struct da_fields *f, const struct rt_data_options *o, struct co_err *err);
void da_fields_done(struct da_fields *f); /* zeroed = empty */
/* The field of that name; NULL: there is none. */
const struct da_field *da_fields_find(const struct da_fields *f, struct da_text name);
/* Whether files begin with the names of their columns. */
bool da_fields_headed(const struct da_fields *f);
