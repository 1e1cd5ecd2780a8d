/* Growing arrays of samples. */
#include "runtime/train/data/samples.h"

#include <math.h>
#include <string.h>

enum { ROOM = 64, IDS_ROOM = 1024 };

void da_samples_init(struct da_samples *s, const struct da_fields *fields) {
    *s = (struct da_samples){.fields = fields, .taken = co_xcalloc(fields->n, sizeof(*s->taken))};
}

void da_samples_done(struct da_samples *s) {
    free(s->labels);
    free(s->dense);
    free(s->ends);
    free(s->ids);
    free(s->slots);
    free(s->other);
    free(s->taken);
    memset(s, 0, sizeof(*s));
}

void da_samples_clear(struct da_samples *s) {
    s->n = s->n_ids = 0;
}

static void grow(struct da_samples *s) {
    const struct da_fields *f = s->fields;

    if (s->n < s->room) {
        return;
    }
    s->room += s->room / 2 + ROOM;
    s->labels = co_xrealloc(s->labels, s->room * f->labels + 1, sizeof(*s->labels));
    s->dense = co_xrealloc(s->dense, s->room * f->dense + 1, sizeof(*s->dense));
    s->ends = co_xrealloc(s->ends, s->room * f->slots + 1, sizeof(*s->ends));
}

static void ids_room_make(struct da_samples *s, size_t more) {
    s->ids_room += s->ids_room / 2 + more + IDS_ROOM;
    s->ids = co_xrealloc(s->ids, s->ids_room, sizeof(*s->ids));
    s->slots = co_xrealloc(s->slots, s->ids_room, sizeof(*s->slots));
    s->other = co_xrealloc(s->other, s->ids_room, sizeof(*s->other));
}

static void ids_grow(struct da_samples *s, size_t more) {
    if (s->n_ids + more > s->ids_room) {
        ids_room_make(s, more);
    }
}

float *da_samples_labels(struct da_samples *s) {
    return s->labels + s->n * s->fields->labels;
}

float *da_samples_dense(struct da_samples *s) {
    return s->dense + s->n * s->fields->dense;
}

void da_samples_begin(struct da_samples *s) {
    grow(s);
    for (size_t i = 0; i < s->fields->labels; i++) {
        da_samples_labels(s)[i] = NAN;
    }
    memset(da_samples_dense(s), 0, s->fields->dense * sizeof(*s->dense));
    memset(s->taken, 0, s->fields->n * sizeof(*s->taken));
    s->first_id = s->n_ids;
    s->sorted = true;
}

void da_samples_add(struct da_samples *s, uint32_t slot, uint64_t id) {
    ids_grow(s, 1);
    s->sorted = s->sorted && (s->n_ids == s->first_id || s->slots[s->n_ids - 1] <= slot);
    s->slots[s->n_ids] = slot;
    s->ids[s->n_ids++] = s->fields->vocabulary > 0 ? id % s->fields->vocabulary : id;
}

void da_samples_drop(struct da_samples *s) {
    s->n_ids = s->first_id;
}

/* Where the ids of each slot will end, in order of slots. */
static void ends_count(struct da_samples *s, uint32_t *ends) {
    uint32_t end = (uint32_t)s->first_id;

    memset(ends, 0, s->fields->slots * sizeof(*ends));
    for (size_t i = s->first_id; i < s->n_ids; i++) {
        ends[s->slots[i]]++;
    }
    for (size_t k = 0; k < s->fields->slots; k++) {
        end = ends[k] += end;
    }
}

/* Ids of one slot stay in their order: from the last one on, each takes the last free place. */
static void ids_sort(struct da_samples *s, uint32_t *ends) {
    size_t n = s->n_ids - s->first_id;

    memcpy(s->other, s->ids + s->first_id, n * sizeof(*s->ids));
    for (size_t i = n; i-- > 0;) {
        s->ids[--ends[s->slots[s->first_id + i]]] = s->other[i];
    }
    ends_count(s, ends);
}

static int label_check(struct da_samples *s, struct da_why *why) {
    const struct da_fields *f = s->fields;

    for (size_t i = 0; i < f->n && !f->unlabelled && !f->clicks; i++) {
        const struct da_field *field = &f->at[i];

        for (size_t k = 0; field->kind == RT_DATA_LABEL && k < field->n; k++) {
            if (isnan(da_samples_labels(s)[field->first + k])) {
                return da_why_set(why, "label", "no label \"%.40s\"", field->name);
            }
        }
    }
    return 0;
}

static const char *slot_name(const struct da_fields *f, size_t slot) {
    for (size_t i = 0; i < f->n; i++) {
        if (f->at[i].kind == RT_DATA_IDS && f->at[i].first == slot) {
            return f->at[i].name;
        }
    }
    return "";
}

static int pad_check(const struct da_samples *s, const uint32_t *ends, struct da_why *why) {
    const struct da_fields *f = s->fields;
    uint32_t begin = (uint32_t)s->first_id;

    for (size_t k = 0; f->pad > 0 && k < f->slots; begin = ends[k++]) {
        if (ends[k] - begin > f->pad) {
            return da_why_set(why, "values", "slot \"%.40s\" has %u ids, expected at most %u (pad)",
                slot_name(f, k), ends[k] - begin, f->pad);
        }
    }
    return 0;
}

int da_samples_end(struct da_samples *s, struct da_why *why) {
    uint32_t *ends = s->ends + s->n * s->fields->slots;

    ends_count(s, ends);
    if (label_check(s, why) < 0 || pad_check(s, ends, why) < 0) {
        da_samples_drop(s);
        return -1;
    }
    if (!s->sorted) {
        ids_sort(s, ends);
    }
    s->n++;
    return 0;
}

void da_samples_copy(struct da_samples *s, const struct da_samples *from, size_t i) {
    const struct da_fields *f = s->fields;
    const uint32_t *ends = from->ends + i * f->slots;
    size_t first = i * f->slots > 0 ? from->ends[i * f->slots - 1] : 0;
    size_t n = f->slots > 0 ? ends[f->slots - 1] - first : 0;

    grow(s);
    ids_grow(s, n);
    memcpy(da_samples_labels(s), from->labels + i * f->labels, f->labels * sizeof(float));
    memcpy(da_samples_dense(s), from->dense + i * f->dense, f->dense * sizeof(float));
    if (n > 0) {
        memcpy(s->ids + s->n_ids, from->ids + first, n * sizeof(*s->ids));
    }
    for (size_t k = 0; k < f->slots; k++) {
        s->ends[s->n * f->slots + k] = (uint32_t)(ends[k] - first + s->n_ids);
    }
    s->n_ids += n;
    s->n++;
}
