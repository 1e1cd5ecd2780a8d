/* Open addressing with linear probing; doubled when two thirds are full. */
#include "runtime/tools/inspect/idmap.h"

#include "common/mem.h"

enum { FIRST = 64 };

void inspect_idmap_done(struct inspect_idmap *m) {
    free(m->ids);
    free(m->values);
    *m = (struct inspect_idmap){0};
}

/* The slot that has the id, or the empty one where it would go. */
static size_t place_of(const struct inspect_idmap *m, uint64_t id) {
    size_t i = (size_t)inspect_idmap_mix(id) & (m->cap - 1);
    while (m->values[i] && m->ids[i] != id) {
        i = (i + 1) & (m->cap - 1);
    }
    return i;
}

uint32_t inspect_idmap_find(const struct inspect_idmap *m, uint64_t id) {
    size_t i = m->cap ? place_of(m, id) : 0;
    return m->cap && m->values[i] ? m->values[i] - 1 : INSPECT_IDMAP_NONE;
}

static void grow(struct inspect_idmap *m) {
    struct inspect_idmap old = *m;
    m->cap = old.cap ? old.cap * 2 : FIRST;
    m->ids = co_xcalloc(m->cap, sizeof(*m->ids));
    m->values = co_xcalloc(m->cap, sizeof(*m->values));
    for (size_t i = 0; i < old.cap; i++) {
        if (old.values[i]) {
            size_t k = place_of(m, old.ids[i]);
            m->ids[k] = old.ids[i];
            m->values[k] = old.values[i];
        }
    }
    free(old.ids);
    free(old.values);
}

bool inspect_idmap_add(struct inspect_idmap *m, uint64_t id, uint32_t value) {
    if (m->n >= m->cap / 3 * 2) {
        grow(m);
    }
    size_t i = place_of(m, id);
    if (m->values[i]) {
        return false;
    }
    m->ids[i] = id;
    m->values[i] = value + 1;
    m->n++;
    return true;
}
