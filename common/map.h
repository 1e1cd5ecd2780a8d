/* Hash tables: an intrusive index, and a map from strings to pointers.  Not thread-safe.  During an
 * each, only the current element may be removed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* An intrusive index: elements contain a link and know their keys, so it needs no memory but the
 * table. */
struct co_link {
    struct co_link *next;
    uint64_t hash; /* of the key */
};
struct co_index {
    struct co_link **buckets; /* owned */
    size_t n_buckets;         /* 0 or a power of two */
    size_t len;
};

void co_index_done(struct co_index *x); /* zeroed = empty */
void co_index_add(struct co_index *x, struct co_link *l, uint64_t hash);
void co_index_remove(struct co_index *x, const struct co_link *l); /* must be in the index */
/* The first element with this hash, and the next one; NULL: no more.  Different keys may share a
 * hash, so the caller compares keys. */
struct co_link *co_index_first(const struct co_index *x, uint64_t hash);
struct co_link *co_index_next(const struct co_link *l);
void co_index_each(const struct co_index *x, void (*fn)(void *arg, struct co_link *l), void *arg);

/* A map from strings to pointers.  Keys are copied; the caller owns the values. */
struct co_map {
    struct co_index nodes; /* .len of them */
};

void co_map_done(struct co_map *m); /* frees the keys, not the values; zeroed = empty */
void *co_map_get(const struct co_map *m, const char *key); /* NULL: absent */
/* Stores value (not NULL); returns the former value or NULL. */
void *co_map_set(struct co_map *m, const char *key, void *value);
void *co_map_remove(struct co_map *m, const char *key); /* the former value or NULL */
void co_map_each(
    const struct co_map *m, void (*fn)(void *arg, const char *key, void *value), void *arg);

/* FNV-1a, 64 bits.  Must not change between versions: shards and Kubernetes names depend on it. */
uint64_t co_hash(const void *data, size_t len);
uint64_t co_hash_str(const char *s);
