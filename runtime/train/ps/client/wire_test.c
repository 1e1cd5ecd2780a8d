/* Dense tables whose values and gradients travel in 16 bits: what is rounded, and what is not. */
#include "common/half.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/client_testing.h"

enum { STEPS = 64 };

static float by_f32(float f) {
    return f;
}

static float by_f16(float f) {
    return co_f16_widen(co_f16_narrow(f));
}

static float by_bf16(float f) {
    return co_bf16_widen(co_bf16_narrow(f));
}

static const struct {
    const char *wire;
    float (*round)(float f);
} wires[] = {{NULL, by_f32}, {"f16", by_f16}, {"bf16", by_bf16}};

enum way { PUSH, EXCHANGE, STEP, GRPC, WAYS };

/* The tables as in specs, the dense one with that wire. */
static struct rt_client *enter(struct client_world *w, enum way way, const char *wire) {
    struct rt_table_spec tables[2] = {specs[0], specs[1]};
    struct rt_client_options o = {.mode = way == STEP ? RT_SYNC : RT_ASYNC,
        .transport = way == GRPC ? RT_PS_GRPC : RT_PS_LANES};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    tables[0].wire = wire;
    must(world_open(w, 0, o, tables, &c, &err));
    return c;
}

static void train(struct rt_client *c, enum way way, const float *g, float *w) {
    struct co_err err = {0};
    if (way == PUSH || way == GRPC) {
        must(rt_push_dense(c, 0, g, &err));
    } else {
        must(rt_exchange_dense(c, 0, g, w, &err));
    }
    if (way == STEP) {
        must(rt_step(c, &err)); /* w is what the step left */
        return;
    }
    must(rt_flush(c, &err));
    must(rt_pull_dense(c, 0, w, &err));
}

/* The servers' own values are not rounded: updates that are less than the last bit of what travels
 * add up. */
static void only_values_in_transit_are_rounded(void **state) {
    (void)state;
    for (int row = 0; row < WAYS * (int)CO_ARRAY_LEN(wires); row++) {
        enum way way = (enum way)(row / 3);
        float (*round)(float) = wires[row % 3].round;
        struct client_world world;
        float own[SIZE], w[SIZE], g[SIZE];
        world_start(&world, 2, 1);
        struct rt_client *c = enter(&world, way, wires[row % 3].wire);
        struct co_err err = {0};
        for (uint64_t i = 0; i < SIZE; i++) {
            own[i] = w[i] = 1 + pseudo(0, 1, i);
            g[i] = 0.01F * pseudo(1, 2, i);
        }
        must(rt_init_dense(c, 0, w, &err));
        for (int s = 0; s < STEPS; s++) {
            train(c, way, g, w);
            for (int i = 0; i < SIZE; i++) {
                own[i] -= 0.1F * round(g[i]);
                /* The last bit of own decides by chance where it stands between two of them. */
                if (w[i] < round(own[i] - 1e-5F) || w[i] > round(own[i] + 1e-5F)) {
                    fail_msg("way %d, wire %s, step %d: value %d is %g, not %g", (int)way,
                        wires[row % 3].wire, s, i, (double)w[i], (double)round(own[i]));
                }
            }
        }
        for (int i = 0; i < SIZE; i++) {
            assert_true(w[i] == round(w[i]));
        }
        must(rt_finish(c, &err));
        world_end(&world);
    }
}

/* ---- int8 ---- */

struct int8_trainer {
    pthread_t thread;
    struct client_world *world;
    uint32_t index;
    enum rt_ps_transport transport;
    float w[SIZE], pulled[SIZE];
};

/* One value in 64 is large, so rounding takes the others whole from most gradients. */
static float int8_gradient(uint32_t trainer, uint64_t i) {
    return i % 64 == 0 ? 1 : 1e-3F * (1 + pseudo(trainer, 1, i));
}

static void *int8_train(void *arg) {
    struct int8_trainer *t = arg;
    struct rt_table_spec tables[2] = {specs[0], specs[1]};
    struct rt_client_options o = {.mode = RT_SYNC, .transport = t->transport};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    float g[SIZE];
    tables[0].wire = "int8";
    must(world_open(t->world, t->index, o, tables, &c, &err));
    must(rt_init_dense(c, 0, t->w, &err));
    for (uint64_t i = 0; i < SIZE; i++) {
        g[i] = int8_gradient(t->index, i);
    }
    for (int step = 0; step < STEPS; step++) {
        must(rt_exchange_dense(c, 0, g, t->w, &err));
        must(rt_step(c, &err));
    }
    must(rt_barrier(c, &err));
    must(rt_pull_dense(c, 0, t->pulled, &err));
    must(rt_finish(c, &err));
    return NULL;
}

/* The servers' values are those of the uncompressed sum but for what trainers have not sent yet,
 * half a scale; trainers have the servers' values but for half a scale of a step's change. */
static void int8_sums_lack_less_than_a_scale(void **state) {
    (void)state;
    for (enum rt_ps_transport way = RT_PS_LANES; way <= RT_PS_GRPC; way++) {
        struct client_world world;
        struct int8_trainer t[2];
        memset(t, 0, sizeof(t));
        world_start(&world, 2, 2);
        for (uint32_t i = 0; i < 2; i++) {
            t[i].world = &world;
            t[i].index = i;
            t[i].transport = way;
            assert_int_equal(0, pthread_create(&t[i].thread, NULL, int8_train, &t[i]));
        }
        for (uint32_t i = 0; i < 2; i++) {
            pthread_join(t[i].thread, NULL);
        }
        assert_memory_equal(t[0].w, t[1].w, sizeof(t[0].w));
        for (uint64_t i = 0; i < SIZE; i++) {
            float sum = -0.1F * STEPS * (int8_gradient(0, i) + int8_gradient(1, i)) / 2;
            float lacks = 0.1F * 1.01F / 254, step = way == RT_PS_GRPC ? 0 : lacks;
            if (fabsf(t[0].pulled[i] - sum) > lacks + 1e-5F ||
                fabsf(t[0].pulled[i] - t[0].w[i]) > step + 1e-6F) {
                fail_msg("transport %d: value %d is %g on servers and %g here, expected %g",
                    (int)way, (int)i, (double)t[0].pulled[i], (double)t[0].w[i], (double)sum);
            }
        }
        world_end(&world);
    }
}

/* After the job went back, what was left of gradients from before does not count. */
static void a_client_that_rejoins_has_sent_all(void **state) {
    (void)state;
    struct client_world world;
    float g[SIZE], w[SIZE] = {0};
    struct co_err err = {0};
    world_start(&world, 1, 1);
    struct rt_client *c = enter(&world, STEP, "int8");
    must(rt_init_dense(c, 0, w, &err));
    for (uint64_t i = 0; i < SIZE; i++) {
        g[i] = int8_gradient(0, i);
    }
    train(c, STEP, g, w);
    assert_true(psc_exchanges_rest(c->exchanges, 0)[1] != 0);
    uint32_t chunks = psc_exchanges_known(c->exchanges, 0, 2)->n;
    assert_true(psc_exchanges_known(c->exchanges, 0, chunks)->versions[0] != 0);
    psc_exchanges_forget(c->exchanges);
    assert_true(psc_exchanges_rest(c->exchanges, 0)[1] == 0);
    assert_int_equal(0, psc_exchanges_known(c->exchanges, 0, chunks)->versions[0]);
    train(c, STEP, g, w);
    must(rt_finish(c, &err));
    world_end(&world);
}

static void int8_needs_sync_mode(void **state) {
    (void)state;
    for (enum rt_mode mode = RT_ASYNC; mode <= RT_GEO; mode++) {
        struct rt_table_spec spec = specs[0];
        struct ps_table t;
        struct co_err err = {0};
        spec.wire = "int8";
        spec.mode = mode;
        must(ps_table_make(&spec, &t, &err));
        if (mode == RT_SYNC) {
            must(ps_table_fits(&t, mode, &err));
        } else {
            assert_int_equal(CO_INVALID, ps_table_fits(&t, mode, &err));
            says(&err, CO_INVALID, "table \"dense\" has wire \"int8\", which needs sync mode");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_values_in_transit_are_rounded),
        cmocka_unit_test(int8_sums_lack_less_than_a_scale),
        cmocka_unit_test(a_client_that_rejoins_has_sent_all),
        cmocka_unit_test(int8_needs_sync_mode),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
