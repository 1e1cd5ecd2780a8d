#include "common/map.h"

#include "common/mem.h"

#include <string.h>

struct co_map_node {
    struct co_map_node *next;
    uint64_t hash;
    void *value;
    char key[];
};

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

/* The link that points to the key's node, or to the end of its chain. */
static struct co_map_node **find(const struct co_map *m, const char *key, uint64_t hash) {
    struct co_map_node **link = &m->buckets[hash & (m->n_buckets - 1)];
    while (*link && ((*link)->hash != hash || strcmp((*link)->key, key) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

static void grow(struct co_map *m) {
    struct co_map bigger = {.n_buckets = m->n_buckets ? m->n_buckets * 2 : 16};
    bigger.buckets = co_xcalloc(bigger.n_buckets, sizeof(struct co_map_node *));
    for (size_t i = 0; i < m->n_buckets; i++) {
        struct co_map_node *next;
        for (struct co_map_node *n = m->buckets[i]; n; n = next) {
            next = n->next;
            struct co_map_node **head = &bigger.buckets[n->hash & (bigger.n_buckets - 1)];
            n->next = *head;
            *head = n;
        }
    }
    free(m->buckets);
    bigger.len = m->len;
    *m = bigger;
}

void co_map_done(struct co_map *m) {
    for (size_t i = 0; i < m->n_buckets; i++) {
        struct co_map_node *next;
        for (struct co_map_node *n = m->buckets[i]; n; n = next) {
            next = n->next;
            free(n);
        }
    }
    free(m->buckets);
    *m = (struct co_map){0};
}

void *co_map_get(const struct co_map *m, const char *key) {
    if (!m->n_buckets) {
        return NULL;
    }
    struct co_map_node *n = *find(m, key, co_hash_str(key));
    return n ? n->value : NULL;
}

void *co_map_set(struct co_map *m, const char *key, void *value) {
    if (m->len >= m->n_buckets) {
        grow(m);
    }
    uint64_t hash = co_hash_str(key);
    struct co_map_node **link = find(m, key, hash);
    if (*link) {
        void *old = (*link)->value;
        (*link)->value = value;
        return old;
    }
    size_t len = strlen(key) + 1;
    struct co_map_node *n = co_xmalloc(sizeof(*n) + len);
    *n = (struct co_map_node){.hash = hash, .value = value};
    memcpy(n->key, key, len);
    *link = n;
    m->len++;
    return NULL;
}

void *co_map_remove(struct co_map *m, const char *key) {
    if (!m->n_buckets) {
        return NULL;
    }
    struct co_map_node **link = find(m, key, co_hash_str(key));
    struct co_map_node *n = *link;
    if (!n) {
        return NULL;
    }
    void *value = n->value;
    *link = n->next;
    free(n);
    m->len--;
    return value;
}

void co_map_each(
    const struct co_map *m, void (*fn)(void *arg, const char *key, void *value), void *arg) {
    for (size_t i = 0; i < m->n_buckets; i++) {
        struct co_map_node *next;
        for (struct co_map_node *n = m->buckets[i]; n; n = next) {
            next = n->next;
            fn(arg, n->key, n->value);
        }
    }
}
