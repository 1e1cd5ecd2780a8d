/* Makes random calls to a store, and compares it with a plain array of what it should hold. */
#include "runtime/train/table/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/half.h"
#include "runtime/train/table/narrow.h"

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)((state >> 33) * below >> 31);
}

/* What the store should hold: of `universe` ids, which are there, where, and their first value. */
struct model {
    struct table_store *store;
    uint32_t universe;
    uint32_t *slot; /* TABLE_SLOT_NONE: no row */
    float *value;
    size_t rows;
};

/* Neighbours among the numbers are neighbours among the ids, or far apart. */
static uint64_t id_of(uint32_t k) {
    return k % 3 ? k : k * 0x9e3779b97f4a7c15ULL;
}

static void model_init(struct model *m, uint32_t universe, const struct table_store_shape *shape,
    struct table_budget *b) {
    m->store = table_store_new(shape, b);
    m->universe = universe;
    m->slot = co_xmalloc(universe * sizeof(*m->slot));
    m->value = co_xcalloc(universe, sizeof(*m->value));
    memset(m->slot, 0xff, universe * sizeof(*m->slot));
    m->rows = 0;
}

static void model_done(struct model *m) {
    table_store_free(m->store);
    free(m->slot);
    free(m->value);
}

static void set_row(struct model *m, uint32_t k, float v) {
    float *values = table_store_values(m->store, m->slot[k]);
    values[0] = m->value[k] = v;
}

static void make_one(struct model *m, uint32_t k) {
    uint32_t slot;
    bool fresh;
    assert_int_equal(0, table_store_make(m->store, id_of(k), &slot, &fresh, NULL));
    assert_int_equal(m->slot[k] == TABLE_SLOT_NONE, fresh);
    assert_true(fresh || slot == m->slot[k]);
    const float *values = table_store_values(m->store, slot);
    if (fresh) {
        assert_true(values[0] == 0 && values[2] == 0 && table_store_state(m->store, slot)[0] == 0);
    }
    m->rows += fresh;
    m->slot[k] = slot;
    if (fresh && draw(4) == 0) {
        m->value[k] = 0; /* as it was made */
    } else {
        set_row(m, k, (float)draw(1000));
    }
}

static void make_some(struct model *m) {
    enum { N = 100 };
    uint64_t ids[N];
    uint32_t k[N], slots[N];
    bool fresh[N];
    uint32_t first = draw(m->universe);
    for (int i = 0; i < N; i++) {
        k[i] = i % 2 ? draw(m->universe) : (first + (uint32_t)i) % m->universe;
        ids[i] = id_of(k[i]);
    }
    assert_int_equal(0, table_store_make_many(m->store, ids, N, slots, fresh, NULL));
    for (int i = 0; i < N; i++) {
        assert_int_equal(m->slot[k[i]] == TABLE_SLOT_NONE, fresh[i]);
        m->rows += fresh[i];
        m->slot[k[i]] = slots[i];
        set_row(m, k[i], (float)i);
    }
}

static void erase_one(struct model *m, uint32_t k) {
    if (m->slot[k] != TABLE_SLOT_NONE) {
        table_store_erase(m->store, m->slot[k]);
        m->slot[k] = TABLE_SLOT_NONE;
        m->rows--;
    }
}

static void check(const struct model *m) {
    CO_AUTOFREE uint64_t *ids = co_xmalloc(m->universe * sizeof(*ids));
    CO_AUTOFREE uint32_t *slots = co_xmalloc(m->universe * sizeof(*slots));
    for (uint32_t k = 0; k < m->universe; k++) {
        ids[k] = id_of(k);
        assert_int_equal(m->slot[k], table_store_find(m->store, ids[k]));
    }
    table_store_find_many(m->store, ids, m->universe, slots);
    assert_memory_equal(slots, m->slot, m->universe * sizeof(*slots));
    for (uint32_t k = 0; k < m->universe; k++) {
        if (slots[k] != TABLE_SLOT_NONE) {
            assert_true(table_store_id(m->store, slots[k]) == ids[k]);
            assert_true(*(float *)table_store_values(m->store, slots[k]) == m->value[k]);
        }
    }
    size_t n = 0;
    for (uint32_t s = table_store_next(m->store, 0); s != TABLE_SLOT_NONE;
         s = table_store_next(m->store, s + 1)) {
        n++;
    }
    assert_int_equal(m->rows, n);
    assert_int_equal(m->rows, table_store_rows(m->store));
}

static const struct table_store_shape shapes[] = {
    {.dim = 3, .state = 1, .head = 4, .storage = RT_F32},
    {.dim = 300, .state = 300, .storage = RT_F32},   /* few rows a slab */
    {.dim = 9000, .state = 9000, .storage = RT_F32}, /* one row a slab */
};

/* More rows, then fewer, then more: segments grow, split, empty and fill again. */
static void any_sequence_of_calls_gives_the_rows_it_should(void **unused) {
    (void)unused;
    for (size_t i = 0; i < CO_ARRAY_LEN(shapes); i++) {
        state = i + 1;
        struct model m;
        model_init(&m, (uint32_t[]){150000, 2000, 200}[i], &shapes[i], NULL);
        for (int phase = 0; phase < 6; phase++) {
            for (uint32_t step = 0; step < m.universe * 2; step++) {
                uint32_t dice = draw(100), k = draw(m.universe);
                if (dice == 0 && step % 8 == 0) {
                    make_some(&m);
                } else if (dice < (phase % 2 ? 10U : 80U)) {
                    make_one(&m, k);
                } else {
                    erase_one(&m, k);
                }
            }
            check(&m);
        }
        size_t bytes = table_store_bytes(m.store);
        table_store_clear(m.store);
        memset(m.slot, 0xff, m.universe * sizeof(*m.slot));
        m.rows = 0;
        check(&m);
        for (int round = 0; round < 3; round++) { /* few rows: the other way to clear */
            make_one(&m, draw(m.universe));
            make_some(&m);
            check(&m);
            table_store_clear(m.store);
            memset(m.slot, 0xff, m.universe * sizeof(*m.slot));
            m.rows = 0;
        }
        check(&m);
        assert_true(table_store_bytes(m.store) <= bytes + (16 << 10));
        model_done(&m);
    }
}

/* Rows that live all the time are met once, whatever happens to the others between the slices. */
static void a_scan_survives_growth_and_erasing(void **unused) {
    (void)unused;
    state = 5;
    struct model m;
    model_init(&m, 60000, &shapes[0], NULL);
    for (uint32_t k = 0; k < 20000; k++) {
        make_one(&m, k);
    }
    CO_AUTOFREE unsigned char *met = co_xcalloc(m.universe, 1);
    CO_AUTOFREE unsigned char *erased = co_xcalloc(m.universe, 1);
    uint32_t n = 0;
    for (uint32_t s = table_store_next(m.store, 0); s != TABLE_SLOT_NONE;
         s = table_store_next(m.store, s + 1)) {
        uint64_t id = table_store_id(m.store, s);
        for (uint32_t k = 0; k < 20000 && n % 100 == 0; k++) {
            met[k] = (unsigned char)(met[k] + (id_of(k) == id));
        }
        if (n++ % 100 == 0) {
            for (int i = 0; i < 100; i++) {
                make_one(&m, 20000 + draw(40000));
                uint32_t k = draw(60000) | 1;
                erased[k] = 1;
                erase_one(&m, k);
            }
        } else {
            for (uint32_t k = (uint32_t)id; k < 20000 && id_of(k) == id; k = 20000) {
                met[k]++;
            }
        }
    }
    for (uint32_t k = 0; k < 20000; k++) {
        if (!erased[k] && k % 3) {
            assert_int_equal(1, met[k]);
        }
        assert_true(met[k] <= 1);
    }
    check(&m);
    model_done(&m);
}

/* ---- memory ---- */

static void an_insert_above_the_budget_changes_nothing(void **unused) {
    (void)unused;
    enum { N = 500 };
    for (size_t max = 10000; max < 6000000; max = max * 5 / 4) {
        struct table_budget budget = {.max = max};
        struct table_store *s = table_store_new(&shapes[0], &budget);
        uint64_t ids[N], id = 0;
        uint32_t slots[N];
        bool fresh[N];
        struct co_err err = {0};
        int rc = 0;
        size_t before = 0;
        while (rc == 0) {
            before = table_store_rows(s);
            for (int i = 0; i < N; i++) {
                ids[i] = ++id / 2; /* each twice, and the first one is of the time before */
            }
            rc = table_store_make_many(s, ids, N, slots, fresh, &err);
            assert_int_equal(table_store_bytes(s), atomic_load(&budget.used));
            assert_true(budget.used <= max);
        }
        assert_int_equal(CO_NORESOURCE, rc);
        assert_non_null(strstr(err.msg, "memory_max"));
        assert_int_equal(before, table_store_rows(s));
        assert_int_equal(before > 0, table_store_find(s, ids[0]) != TABLE_SLOT_NONE);
        assert_int_equal(TABLE_SLOT_NONE, table_store_find(s, ids[1]));
        budget.max += 1 << 20;
        assert_int_equal(0, table_store_make_many(s, ids, N, slots, fresh, &err));
        table_store_free(s);
        assert_int_equal(0, atomic_load(&budget.used));
    }
}

/* Key and payload of 10 floats and SGD are 48 bytes: at most a quarter more, at every fill. */
static void a_row_takes_at_most_a_quarter_more_than_its_payload(void **unused) {
    (void)unused;
    const struct table_store_shape shape = {.dim = 10, .storage = RT_F32};
    CO_CLEANUP(table_store_freep) struct table_store *s = table_store_new(&shape, NULL);
    for (uint64_t k = 0; k < 1000000; k++) {
        uint32_t slot;
        bool fresh;
        assert_int_equal(0, table_store_make(s, k, &slot, &fresh, NULL));
        if (k >= 200000 && k % 1000 == 0) {
            assert_true(table_store_bytes(s) <= k * 60);
        }
    }
}

/* ---- narrow values ---- */

static void narrow_values_come_back(void **unused) {
    (void)unused;
    static const enum rt_dtype types[] = {RT_F32, RT_F16, RT_BF16};
    for (size_t i = 0; i < CO_ARRAY_LEN(types); i++) {
        const struct table_store_shape shape = {.dim = 5, .state = 2, .storage = types[i]};
        CO_CLEANUP(table_store_freep) struct table_store *s = table_store_new(&shape, NULL);
        uint32_t slot;
        bool fresh;
        assert_int_equal(0, table_store_make(s, 7, &slot, &fresh, NULL));
        const float in[5] = {1, -0.5F, 0, 0x1p-24F, 60000};
        float out[5], again[5];
        table_store_state(s, slot)[0] = 3;
        table_store_state(s, slot)[1] = 4;
        table_store_write(s, slot, in);
        table_store_read(s, slot, out);
        assert_true(out[0] == 1 && out[1] == -0.5F && out[2] == 0 && out[3] == 0x1p-24F);
        assert_true(types[i] == RT_BF16 ? out[4] == 59904 : out[4] == 60000);
        for (int k = 0; k < 100; k++) { /* what can be kept is kept */
            table_store_write_update(s, slot, out);
            table_store_read(s, slot, again);
            assert_memory_equal(out, again, sizeof(out));
        }
        assert_true(table_store_state(s, slot)[0] == 3 && table_store_state(s, slot)[1] == 4);
    }
}

/* 60000 twice is beyond f16. */
static void narrow_values_do_not_become_infinite(void **unused) {
    (void)unused;
    const struct table_store_shape shape = {.dim = 2, .storage = RT_F16};
    CO_CLEANUP(table_store_freep) struct table_store *s = table_store_new(&shape, NULL);
    const float in[2] = {120000, -120000};
    float out[2];
    uint32_t slot;
    bool fresh;
    assert_int_equal(0, table_store_make(s, 7, &slot, &fresh, NULL));
    table_store_write(s, slot, in);
    table_store_read(s, slot, out);
    assert_true(out[0] == 65504 && out[1] == -65504);
    table_store_write_update(s, slot, in);
    table_store_read(s, slot, out);
    assert_true(out[0] == 65504 && out[1] == -65504);
}

/* Whatever the processor has for it: bit for bit what half.h makes of one value, at any place of an
 * array; NaN stays one. */
static void arrays_are_narrowed_as_values_are(void **unused) {
    (void)unused;
    enum { N = 1003 };
    static float in[N], back[N];
    static unsigned char out[2 * N + 1];
    uint32_t bits = 1;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < N; i++) { /* all exponents, ends and halves of what is kept */
            bits = bits * 1664525 + 1013904223;
            in[i] = co_f32_of(i % 3 ? bits : bits & 0xfffff000U);
        }
        for (int to_f16 = 0; to_f16 < 2; to_f16++) {
            enum rt_dtype t = to_f16 ? RT_F16 : RT_BF16;
            size_t n = N - (size_t)round % 17;
            table_narrow(t, out + 1, in, n);
            table_widen(t, back, out + 1, n);
            for (size_t i = 0; i < n; i++) {
                uint16_t want = to_f16 ? co_f16_narrow(in[i]) : co_bf16_narrow(in[i]);
                float wide = to_f16 ? co_f16_widen(want) : co_bf16_widen(want);
                assert_int_equal(want, co_get_u16(out + 1 + 2 * i));
                assert_int_equal(co_f32_bits(wide), co_f32_bits(back[i]));
            }
        }
    }
}

/* Updates of a hundredth of what the storage can represent: to nearest they would all be lost. */
static void small_updates_count_on_average(void **unused) {
    (void)unused;
    static const struct {
        enum rt_dtype type;
        float start, step;
    } rows[] = {{RT_F16, 1, 0x1p-16F}, {RT_BF16, 1, 0x1p-13F}, {RT_F16, -1, -0x1p-16F},
        {RT_F16, 0x1p-20F, 0x1p-30F}, {RT_BF16, 0x1p-20F, 0x1p-33F}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct table_store_shape shape = {.dim = 64, .storage = rows[i].type};
        CO_CLEANUP(table_store_freep) struct table_store *s = table_store_new(&shape, NULL);
        uint32_t slot;
        bool fresh;
        assert_int_equal(0, table_store_make(s, 7, &slot, &fresh, NULL));
        float w[64];
        for (int k = 0; k < 64; k++) {
            w[k] = rows[i].start;
        }
        table_store_write(s, slot, w);
        enum { UPDATES = 2000 };
        double sum = 0;
        for (int u = 0; u < UPDATES; u++) {
            table_store_read(s, slot, w);
            for (int k = 0; k < 64; k++) {
                w[k] += rows[i].step;
            }
            table_store_write_update(s, slot, w);
        }
        table_store_read(s, slot, w);
        for (int k = 0; k < 64; k++) {
            sum += ((double)w[k] - rows[i].start) / ((double)rows[i].step * UPDATES) / 64;
        }
        if (sum < 0.95 || sum > 1.05) {
            fail_msg("row %zu: %g of the updates arrived", i, sum);
        }
    }
}

static void values_that_are_not_finite_stay_so(void **unused) {
    (void)unused;
    const float odd[4] = {
        co_f32_of(0x7f800000), co_f32_of(0xff800000), co_f32_of(0x7fc00000), 3e38F};
    static const enum rt_dtype types[] = {RT_F16, RT_BF16};
    for (size_t i = 0; i < CO_ARRAY_LEN(types); i++) {
        uint16_t kept[4];
        float out[4];
        uint64_t random = 0;
        for (int k = 0; k < 100; k++) {
            table_narrow_at_random(types[i], kept, odd, 4, &random);
            table_widen(types[i], out, kept, 4);
            assert_true(out[0] == odd[0] && out[1] == odd[1] && out[2] != out[2]);
            assert_true(
                out[3] == (types[i] == RT_F16 ? odd[0] : 2.9904294e38F) || out[3] < 3.1e38F);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_sequence_of_calls_gives_the_rows_it_should),
        cmocka_unit_test(a_scan_survives_growth_and_erasing),
        cmocka_unit_test(an_insert_above_the_budget_changes_nothing),
        cmocka_unit_test(a_row_takes_at_most_a_quarter_more_than_its_payload),
        cmocka_unit_test(narrow_values_come_back),
        cmocka_unit_test(narrow_values_do_not_become_infinite),
        cmocka_unit_test(arrays_are_narrowed_as_values_are),
        cmocka_unit_test(small_updates_count_on_average),
        cmocka_unit_test(values_that_are_not_finite_stay_so),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
