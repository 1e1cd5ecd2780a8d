/* A hash map from strings to pointers.  Keys are copied, values are the caller's.
 * Not thread-safe.  Removing during co_map_each is allowed for the current key only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct co_map_node;

struct co_map {
    struct co_map_node **buckets; /* owned */
    size_t n_buckets;             /* 0 or a power of two */
    size_t len;
};

void co_map_done(struct co_map *m); /* frees the keys, not the values; zeroed = empty */
void *co_map_get(const struct co_map *m, const char *key); /* NULL: absent */
/* Stores value (not NULL); returns the former one or NULL. */
void *co_map_set(struct co_map *m, const char *key, void *value);
void *co_map_remove(struct co_map *m, const char *key); /* the former value or NULL */
void co_map_each(
    const struct co_map *m, void (*fn)(void *arg, const char *key, void *value), void *arg);

/* FNV-1a, 64 bits: hashes of identities that must not change between versions. */
uint64_t co_hash(const void *data, size_t len);
uint64_t co_hash_str(const char *s);
