/* Each loop is written once, over vectors of eight floats, and compiled for each instruction set.
 * Wider vectors would not be faster, as the loops wait for memory. */
#include "examples/resnet50/lanes.h"

#include <stdint.h>
#include <string.h>

#include "common/isa.h"

#define INLINE static inline __attribute__((always_inline))

enum { WIDE = 8, HALVES = RN_LANES_MAX / WIDE, CHUNK = 256 * RN_LANES_MAX };

typedef float vec __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(WIDE * sizeof(int32_t))));
typedef uint32_t bits __attribute__((vector_size(WIDE * sizeof(uint32_t))));
typedef uint16_t halves __attribute__((vector_size(WIDE * sizeof(uint16_t))));

/* Macros, not functions: how a function passes a vector depends on the instruction set. */
#define LOAD(from, at, bf16)                                                                       \
    __extension__({                                                                                \
        vec v_;                                                                                    \
        if (bf16) {                                                                                \
            halves h_;                                                                             \
            memcpy(&h_, (const char *)(from) + (at) * sizeof(uint16_t), sizeof(h_));               \
            v_ = (vec)(__builtin_convertvector(h_, bits) * 65536U);                                \
        } else {                                                                                   \
            memcpy(&v_, (const char *)(from) + (at) * sizeof(float), sizeof(v_));                  \
        }                                                                                          \
        v_;                                                                                        \
    })
/* Rounds to bf16: to nearest, ties to even.  A NaN may become infinite; training ends with both. */
#define STORE(to, at, v, bf16)                                                                     \
    do {                                                                                           \
        if (bf16) {                                                                                \
            bits b_ = (bits)(v);                                                                   \
            halves h_ =                                                                            \
                __builtin_convertvector((b_ + 0x7fffU + ((b_ / 65536U) & 1U)) / 65536U, halves);   \
            memcpy((char *)(to) + (at) * sizeof(uint16_t), &h_, sizeof(h_));                       \
        } else {                                                                                   \
            memcpy((char *)(to) + (at) * sizeof(float), &(v), sizeof(v));                          \
        }                                                                                          \
    } while (0)
#define POSITIVE(v, condition) ((vec)((ints)(v) & ((condition) > 0.0F)))
#define LANE(values, half) LOAD(values, (half)*WIDE, false)

/* dy + dy2 where ReLU was active, otherwise 0. */
#define GRADIENT(r, v, at, half, bf16)                                                             \
    __extension__({                                                                                \
        vec g_ = LOAD((r)->dy, at, bf16);                                                          \
        if ((r)->dy2) {                                                                            \
            g_ += LOAD((r)->dy2, at, bf16);                                                        \
        }                                                                                          \
        if ((r)->relu) {                                                                           \
            vec y_ = (r)->y ? LOAD((r)->y, at, bf16)                                               \
                            : (LOAD((r)->x, at, bf16) - LANE((v)->mean, half)) *                   \
                                      LANE((v)->scale, half) +                                     \
                                  LANE((v)->bias, half);                                           \
            g_ = POSITIVE(g_, y_);                                                                 \
        }                                                                                          \
        g_;                                                                                        \
    })

struct parts {
    vec sum[HALVES], square[HALVES];
};

INLINE void fold(struct rn_lane_sums *sums, const struct parts *p, size_t lanes) {
    float sum[RN_LANES_MAX], square[RN_LANES_MAX];

    memcpy(sum, p->sum, sizeof(sum));
    memcpy(square, p->square, sizeof(square));
    for (size_t i = 0; i < lanes; i++) {
        sums->sum[i] += (double)sum[i];
        sums->square[i] += (double)square[i];
    }
}

/* Sums x and x^2; with `back`, sums the gradient g and g x, and writes g to out. */
INLINE void body_sums(const struct rn_lane_rows *r, const struct rn_lane_values *v,
    struct rn_lane_sums *sums, size_t lanes, bool bf16, bool back) {
    for (size_t begin = 0; begin < r->n; begin += CHUNK) {
        size_t end = r->n - begin < CHUNK ? r->n : begin + CHUNK;
        struct parts p = {0};

        for (size_t i = begin; i < end; i += lanes) {
            for (size_t h = 0; h < lanes / WIDE; h++) {
                vec x = LOAD(r->x, i + h * WIDE, bf16) - LANE(v->mean, h);
                vec g = back ? GRADIENT(r, v, i + h * WIDE, h, bf16) : x;

                p.sum[h] += g;
                p.square[h] += g * x;
                if (back && r->out) {
                    STORE(r->out, i + h * WIDE, g, bf16);
                }
            }
        }
        fold(sums, &p, lanes);
    }
}

INLINE void body_apply(
    const struct rn_lane_rows *r, const struct rn_lane_values *v, size_t lanes, bool bf16) {
    for (size_t i = 0; i < r->n; i += lanes) {
        for (size_t h = 0; h < lanes / WIDE; h++) {
            vec y = (LOAD(r->x, i + h * WIDE, bf16) - LANE(v->mean, h)) * LANE(v->scale, h) +
                    LANE(v->bias, h);

            if (r->add) {
                y += LOAD(r->add, i + h * WIDE, bf16);
            }
            if (r->relu) {
                y = POSITIVE(y, y);
            }
            STORE(r->out, i + h * WIDE, y, bf16);
        }
    }
}

INLINE void body_back_apply(
    const struct rn_lane_rows *r, const struct rn_lane_values *v, size_t lanes, bool bf16) {
    for (size_t i = 0; i < r->n; i += lanes) {
        for (size_t h = 0; h < lanes / WIDE; h++) {
            vec x = LOAD(r->x, i + h * WIDE, bf16) - LANE(v->mean, h);
            vec g = GRADIENT(r, v, i + h * WIDE, h, bf16);
            vec dx = g * LANE(v->scale, h) + (x * LANE(v->slope, h) + LANE(v->level, h));

            STORE(r->out, i + h * WIDE, dx, bf16);
        }
    }
}

/* Compiles a loop for each combination of options, so that no option is tested inside a loop. */
#define EACH_FORM(r, call)                                                                         \
    do {                                                                                           \
        struct rn_lane_rows c_ = *(r);                                                             \
        if (c_.relu) {                                                                             \
            c_.relu = true;                                                                        \
            call;                                                                                  \
        } else {                                                                                   \
            c_.relu = false;                                                                       \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

#define KERNELS(set, attributes, type, lanes, bf16)                                                \
    attributes static void set##_sums_##type##lanes(                                               \
        const struct rn_lane_rows *r, const struct rn_lane_values *v, struct rn_lane_sums *sums) { \
        body_sums(r, v, sums, lanes, bf16, false);                                                 \
    }                                                                                              \
    attributes static void set##_back_sums_##type##lanes(                                          \
        const struct rn_lane_rows *r, const struct rn_lane_values *v, struct rn_lane_sums *sums) { \
        EACH_FORM(r, body_sums(&c_, v, sums, lanes, bf16, true));                                  \
    }                                                                                              \
    attributes static void set##_apply_##type##lanes(                                              \
        const struct rn_lane_rows *r, const struct rn_lane_values *v) {                            \
        EACH_FORM(r, body_apply(&c_, v, lanes, bf16));                                             \
    }                                                                                              \
    attributes static void set##_back_apply_##type##lanes(                                         \
        const struct rn_lane_rows *r, const struct rn_lane_values *v) {                            \
        EACH_FORM(r, body_back_apply(&c_, v, lanes, bf16));                                        \
    }                                                                                              \
    static const struct rn_lane_kernels set##_##type##lanes = {#set, set##_sums_##type##lanes,     \
        set##_back_sums_##type##lanes, set##_apply_##type##lanes, set##_back_apply_##type##lanes};
#define FORMS(set, attributes)                                                                     \
    KERNELS(set, attributes, f32, 8, false)                                                        \
    KERNELS(set, attributes, f32, 16, false)                                                       \
    KERNELS(set, attributes, bf16, 8, true)                                                        \
    KERNELS(set, attributes, bf16, 16, true)
#define ROW(set)                                                                                   \
    { {&set##_f32##8, &set##_f32##16}, {&set##_bf16##8, &set##_bf16##16}, }

FORMS(plain, )
static const struct rn_lane_kernels *const plain[2][2] = ROW(plain);

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))
FORMS(avx2, AVX2)
static const struct rn_lane_kernels *const avx2[2][2] = ROW(avx2);
#else
#define avx2 plain
#endif

const struct rn_lane_kernels *rn_lane_kernels_get(enum rn_type type, size_t lanes, size_t i) {
    const struct rn_lane_kernels *can[2];
    size_t n = 0;

    if (co_isa() >= CO_ISA_AVX2) {
        can[n++] = avx2[type][lanes / RN_LANES_MAX];
    }
    can[n++] = plain[type][lanes / RN_LANES_MAX];
    return i < n ? can[i] : NULL;
}
