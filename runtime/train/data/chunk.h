/* Lines of one file that are parsed together, and what became of them.  One thread at a time has a
 * chunk. */
#pragma once

#include "runtime/train/data/format.h"

enum { DA_CHUNK_LINES = 1024, DA_CHUNK_BYTES = 256 << 10 };

struct da_line {
    uint32_t at, len; /* in the chunk's text */
    uint64_t number;  /* in the file, from 1 */
};

struct da_chunk {
    struct da_chunk *next;         /* its holder's */
    struct rt_position begin, end; /* before its first line, and behind its last */
    const char *path;              /* borrowed */
    const struct da_header *header;
    char *text;
    size_t used;
    struct da_line *lines; /* [DA_CHUNK_LINES] */
    size_t n;
    struct da_samples samples;
    struct da_tally
        tally; /* lines that cannot be used; until it is parsed, those that are no text */
    bool parsed;
    bool last; /* of a pass; with no other pass, nothing follows */
    int rc;    /* an error of reading, behind the lines */
    struct co_err err;
};

struct da_chunk *da_chunk_new(const struct da_fields *f);
void da_chunk_free(struct da_chunk *c); /* NULL is fine */
void da_chunk_clear(struct da_chunk *c);
bool da_chunk_full(const struct da_chunk *c);
/* Copies a line of at most RT_LINE_MAX bytes. */
void da_chunk_add(struct da_chunk *c, const char *line, size_t len, uint64_t number);
/* Makes samples of the lines, and counts those that cannot be used; blank lines are no lines. */
void da_chunk_parse(struct da_chunk *c);
