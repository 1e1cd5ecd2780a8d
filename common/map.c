/* Chained hash tables that double when they are full. */
#include "common/map.h"

#include <string.h>

#include "common/mem.h"

uint64_t co_hash(const void *data, size_t len) {
    const unsigned char *p = data;
    uint64_t h = 14695981039346656037ULL;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ p[i]) * 1099511628211ULL;
    }
    return h;
}

uint64_t co_hash_str(const char *s) {
    return co_hash(s, strlen(s));
}

/* ---- an index --------------------------------------------------------------------------- */

static struct co_link **bucket_of(const struct co_index *x, uint64_t hash) {
    return &x->buckets[hash & (x->n_buckets - 1)];
}

static void put_link(const struct co_index *x, struct co_link *l) {
    struct co_link **head = bucket_of(x, l->hash);
    l->next = *head;
    *head = l;
}

static void grow_index(struct co_index *x) {
    struct co_index bigger = {.n_buckets = x->n_buckets ? x->n_buckets * 2 : 16, .len = x->len};
    bigger.buckets = co_xcalloc(bigger.n_buckets, sizeof(struct co_link *));
    for (size_t i = 0; i < x->n_buckets; i++) {
        struct co_link *next;
        for (struct co_link *l = x->buckets[i]; l; l = next) {
            next = l->next;
            put_link(&bigger, l);
        }
    }
    free(x->buckets);
    *x = bigger;
}

void co_index_add(struct co_index *x, struct co_link *l, uint64_t hash) {
    if (x->len >= x->n_buckets) {
        grow_index(x);
    }
    l->hash = hash;
    put_link(x, l);
    x->len++;
}

void co_index_remove(struct co_index *x, const struct co_link *l) {
    struct co_link **at = bucket_of(x, l->hash);
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    x->len--;
}

static struct co_link *with_hash(struct co_link *l, uint64_t hash) {
    while (l && l->hash != hash) {
        l = l->next;
    }
    return l;
}

struct co_link *co_index_first(const struct co_index *x, uint64_t hash) {
    return x->n_buckets ? with_hash(*bucket_of(x, hash), hash) : NULL;
}

struct co_link *co_index_next(const struct co_link *l) {
    return with_hash(l->next, l->hash);
}

void co_index_each(const struct co_index *x, void (*fn)(void *arg, struct co_link *l), void *arg) {
    for (size_t i = 0; i < x->n_buckets; i++) {
        struct co_link *next;
        for (struct co_link *l = x->buckets[i]; l; l = next) {
            next = l->next;
            fn(arg, l);
        }
    }
}

void co_index_done(struct co_index *x) {
    free(x->buckets);
    *x = (struct co_index){0};
}

/* ---- a map ------------------------------------------------------------------------------ */

struct map_node {
    struct co_link link; /* first */
    void *value;
    char key[];
};

static struct map_node *find_node(const struct co_map *m, const char *key, uint64_t hash) {
    struct co_link *l = co_index_first(&m->nodes, hash);
    while (l && strcmp(((struct map_node *)l)->key, key) != 0) {
        l = co_index_next(l);
    }
    return (struct map_node *)l;
}

void *co_map_get(const struct co_map *m, const char *key) {
    const struct map_node *n = find_node(m, key, co_hash_str(key));
    return n ? n->value : NULL;
}

void *co_map_set(struct co_map *m, const char *key, void *value) {
    uint64_t hash = co_hash_str(key);
    struct map_node *n = find_node(m, key, hash);
    if (n) {
        void *old = n->value;
        n->value = value;
        return old;
    }
    size_t len = strlen(key) + 1;
    n = co_xmalloc(sizeof(*n) + len);
    n->value = value;
    memcpy(n->key, key, len);
    co_index_add(&m->nodes, &n->link, hash);
    return NULL;
}

void *co_map_remove(struct co_map *m, const char *key) {
    struct map_node *n = find_node(m, key, co_hash_str(key));
    if (!n) {
        return NULL;
    }
    void *value = n->value;
    co_index_remove(&m->nodes, &n->link);
    free(n);
    return value;
}

struct map_visit {
    void (*fn)(void *arg, const char *key, void *value);
    void *arg;
};

static void visit_node(void *arg, struct co_link *l) {
    const struct map_visit *v = arg;
    const struct map_node *n = (const struct map_node *)l;
    v->fn(v->arg, n->key, n->value);
}

void co_map_each(
    const struct co_map *m, void (*fn)(void *arg, const char *key, void *value), void *arg) {
    struct map_visit v = {fn, arg};
    co_index_each(&m->nodes, visit_node, &v);
}

static void free_node(void *arg, struct co_link *l) {
    (void)arg;
    free(l);
}

void co_map_done(struct co_map *m) {
    co_index_each(&m->nodes, free_node, NULL);
    co_index_done(&m->nodes);
}
