/* Internal to operator/api: allocates a projection as one block, the struct and then its strings.
 */
#pragma once

#include "operator/api/child.h"

enum { API_PACK_MAX = 16 };

struct api_packer {
    struct {
        size_t offset; /* of the const char * in the struct */
        const char *text;
        size_t len;
    } ref[API_PACK_MAX];
    size_t n;
};

/* Adds a string for the pointer at `offset`; borrowed until api_pack; NULL is "". */
void api_pack_put(struct api_packer *p, size_t offset, const char *text);
void api_pack_put_n(struct api_packer *p, size_t offset, const char *text, size_t len);
/* Adds one line of a text: the line that says why a program failed (common/cause.h), or the last
 * line that is not blank.  Long lines are cut, but not inside a character. */
void api_pack_put_cause(struct api_packer *p, size_t offset, const char *text);
void api_pack_put_last_line(struct api_packer *p, size_t offset, const char *text);
/* A copy of proto, with all the strings behind it; the caller frees it. */
void *api_pack(const struct api_packer *p, const void *proto, size_t size);

/* Adds an object's metadata; child gets it, too, borrowed.  False when the object has no name. */
bool api_pack_put_meta(struct api_packer *p, const struct co_jnode *obj, struct api_child *child);

/* The value of a decimal label, or -1. */
int32_t api_label_number(const char *text);
int32_t api_label_attempt(const char *text); /* 0 when there is none */
