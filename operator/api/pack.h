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

/* What an object's metadata says; NULL where it says nothing. */
struct op_meta {
    const char *name, *ns, *uid, *version;
    const char *owner_uid, *owner_job; /* as in struct op_child */
    const char *created, *deleted;     /* timestamps */
    bool deleting;
};

/* False when there is no name. */
bool op_pack_put_meta(struct op_packer *p, const struct op_meta *m, struct op_child *child);

/* A decimal label's value, or -1. */
int32_t op_label_number(const char *text);
int32_t op_label_attempt(const char *text); /* 0 when there is none */
