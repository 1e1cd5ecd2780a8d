/* Dense tables whose values and gradients travel in 16 bits: what is rounded, and what is not. */
#include "common/half.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_values_in_transit_are_rounded),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
