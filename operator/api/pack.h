/* Inside of operator/api: a projection's one allocation, the struct and then its strings. */
#pragma once

#include "operator/api/child.h"

enum { OP_PACK_MAX = 16 };

struct op_packer {
    struct {
        size_t offset; /* of the const char * in the struct */
        const char *text;
        size_t len;
    } ref[OP_PACK_MAX];
    size_t n;
};

/* Borrowed until op_pack; NULL is "". */
void op_pack_put(struct op_packer *p, size_t offset, const char *text);
void op_pack_put_n(struct op_packer *p, size_t offset, const char *text, size_t len);
/* Its last line that says something, cut at a character's start. */
void op_pack_put_last_line(struct op_packer *p, size_t offset, const char *text);
/* A copy of proto, which begins with a struct op_child, with all that was put. */
void *op_pack(const struct op_packer *p, struct co_slab *slab, const void *proto, size_t size);

/* What an object's metadata says; child has it, borrowed, too.  False when there is no name. */
bool op_pack_put_meta(struct op_packer *p, const struct co_jnode *obj, struct op_child *child);

/* A decimal label's value, or -1. */
int32_t op_label_number(const char *text);
int32_t op_label_attempt(const char *text); /* 0 when there is none */
