/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "common/slab.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HEAD = 64, BLOCKS = 5000, REGION_PAGES = 256 };

/* Pages in use, by what the system was asked for and what is left of it. */
static size_t pages(const struct co_slab *s) {
    return s->cap_empty - s->n_empty;
}

struct held {
    unsigned char *block;
    size_t size;
};

static void fill(struct held *h, struct co_slab *s, size_t size, size_t i) {
    *h = (struct held){co_slab_alloc(s, size), size};
    assert_int_equal((uintptr_t)h->block % CO_SLAB_STEP, 0);
    memset(h->block, (int)(i % 251), size);
}

static void check(const struct held *h, size_t i) {
    for (size_t k = 0; k < h->size; k++) {
        assert_int_equal(h->block[k], i % 251);
    }
}

/* Blocks of all sizes, beyond the largest, too; every third one is given back and taken again. */
static void no_block_touches_another(void **state) {
    (void)state;
    struct co_slab s = {0};
    static struct held held[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        fill(&held[i], &s, i % (CO_SLAB_MAX + 40), i);
    }
    for (size_t i = 0; i < BLOCKS; i += 3) {
        check(&held[i], i);
        co_slab_free(&s, held[i].block, held[i].size);
    }
    for (size_t i = 0; i < BLOCKS; i += 3) {
        fill(&held[i], &s, (i * 7) % CO_SLAB_MAX, i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        check(&held[i], i);
        co_slab_free(&s, held[i].block, held[i].size);
    }
    assert_in_range(pages(&s), 0, CO_SLAB_SIZES);
    co_slab_free(&s, NULL, 0);
    co_slab_done(&s);
}

static void blocks_lie_close_together(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 16, 17, 64, 300, 1000, CO_SLAB_MAX};
    for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
        struct co_slab s = {0};
        size_t round = (sizes[i] + CO_SLAB_STEP - 1) / CO_SLAB_STEP * CO_SLAB_STEP;
        size_t a_page = (PAGE - HEAD) / round;
        static struct held held[BLOCKS];
        for (size_t k = 0; k < BLOCKS; k++) {
            fill(&held[k], &s, sizes[i], k);
        }
        assert_in_range(pages(&s), 0, BLOCKS / a_page + 1);
        for (size_t k = 0; k < BLOCKS; k++) {
            co_slab_free(&s, held[k].block, sizes[i]);
        }
        co_slab_done(&s);
    }
}

static void what_is_given_back_is_taken_first(void **state) {
    (void)state;
    struct co_slab s = {0};
    static struct held held[BLOCKS];
    for (size_t k = 0; k < BLOCKS; k++) {
        fill(&held[k], &s, 100, k);
    }
    size_t most = pages(&s);
    for (int again = 0; again < 10; again++) {
        for (size_t k = (size_t)again; k < BLOCKS; k += 2) {
            co_slab_free(&s, held[k].block, 100);
        }
        for (size_t k = (size_t)again; k < BLOCKS; k += 2) {
            fill(&held[k], &s, 100, k);
        }
    }
    assert_in_range(pages(&s), 0, most);
    for (size_t k = 0; k < BLOCKS; k++) {
        co_slab_free(&s, held[k].block, 100);
    }
    co_slab_done(&s);
}

static size_t resident(const struct co_slab *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_regions; i++) {
        unsigned char in[REGION_PAGES];
        assert_int_equal(mincore(s->region[i], sizeof(in) * PAGE, in), 0);
        for (size_t k = 0; k < sizeof(in); k++) {
            n += in[k] & 1;
        }
    }
    return n;
}

static void pages_that_have_emptied_are_the_systems(void **state) {
    (void)state;
    struct co_slab s = {0};
    static struct held held[BLOCKS];
    for (size_t k = 0; k < BLOCKS; k++) {
        fill(&held[k], &s, 100, k);
    }
    for (size_t k = 0; k < BLOCKS; k++) {
        co_slab_free(&s, held[k].block, 100);
    }
    assert_in_range(resident(&s), 0, 1);
    co_slab_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_block_touches_another),
        cmocka_unit_test(blocks_lie_close_together),
        cmocka_unit_test(what_is_given_back_is_taken_first),
        cmocka_unit_test(pages_that_have_emptied_are_the_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
