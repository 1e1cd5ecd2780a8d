/* Tests data sets on disk, and the batches that the loader makes of them. */
#include "examples/resnet50/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/log.h"
#include "examples/nn/nn_testing.h"

enum { IMAGES = 32, CLASSES = 4, SIZE = 32, PIXELS = 3 * SIZE * SIZE };

static const struct rn_gen gen = {.seed = 9, .classes = CLASSES, .edge = 37, .images = IMAGES};

struct fixture {
    struct tk_dir dir;
};

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));
    struct co_err err = {0};

    tk_dir_make(&f->dir, "rn_loader_test");
    if (rn_gen_write(&gen, f->dir.path, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tk_dir_remove(&f->dir);
    free(f);
    return 0;
}

static struct rn_flowers *flowers_open(const char *dir, const char *part) {
    struct rn_flowers *f = NULL;
    struct co_err err = {0};

    if (rn_flowers_open(dir, part, CLASSES, &f, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return f;
}

static void file_put(const struct fixture *f, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", f->dir.path, name);

    assert_int_equal(co_file_write(path, text, strlen(text), 0644, NULL), 0);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void parts_are_those_of_paddle(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *part, *first;
        size_t n;
    } rows[] = {
        {"test", "image_00001.jpg", IMAGES / 8},
        {"valid", "image_00005.jpg", IMAGES / 8},
        {"train", "image_00009.jpg", IMAGES * 3 / 4},
    };

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rn_flowers *flowers = flowers_open(f->dir.path, rows[i].part), *same = NULL;

        assert_int_equal(flowers->n, rows[i].n);
        assert_non_null(strstr(flowers->images[0].path, rows[i].first));
        assert_int_equal(rn_flowers_generated(&gen, rows[i].part, &same, NULL), 0);
        assert_int_equal(same->n, flowers->n);
        for (size_t k = 0; k < flowers->n; k++) {
            assert_int_equal(flowers->images[k].label, same->images[k].label);
        }
        rn_flowers_close(flowers);
        rn_flowers_close(same);
    }
}

static void a_list_may_be_text(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *labels = co_xasprintf("%s/imagelabels.mat", f->dir.path);

    assert_int_equal(unlink(labels), 0);
    file_put(f, "train.txt",
        "\xef\xbb\xbfjpg/image_00003.jpg\t2 \r\n\r\n \t\n jpg/with a blank.jpg \t0");
    struct rn_flowers *flowers = flowers_open(f->dir.path, "train");
    assert_int_equal(flowers->n, 2);
    assert_int_equal(flowers->images[0].label, 2);
    assert_non_null(strstr(flowers->images[1].path, "/jpg/with a blank.jpg"));
    rn_flowers_close(flowers);
}

static void a_wrong_list_names_its_line(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *labels = co_xasprintf("%s/imagelabels.mat", f->dir.path);
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a.jpg 1\nb.jpg 4\n", "train.txt:2"},
        {"a.jpg\n", "train.txt:1: expected a path"},
        {"a.jpg x\n", "train.txt:1"},
        {"\n", "no images for train"},
    };

    assert_int_equal(unlink(labels), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rn_flowers *flowers = NULL;
        struct co_err err = {0};

        file_put(f, "train.txt", rows[i].text);
        assert_int_equal(
            rn_flowers_open(f->dir.path, "train", CLASSES, &flowers, &err), CO_INVALID);
        assert_non_null(strstr(err.msg, rows[i].says));
    }
}

static void more_classes_than_expected_are_refused(void **state) {
    struct fixture *f = *state;
    struct rn_flowers *flowers = NULL;
    struct co_err err = {0};

    assert_int_equal(
        rn_flowers_open(f->dir.path, "train", CLASSES - 1, &flowers, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "is of class 4, expected 1 to 3"));
}

/* ---- batches --------------------------------------------------------------------------------- */

struct run {
    size_t n;
    uint32_t labels[IMAGES];
    float *images; /* (n, PIXELS) */
};

static struct rn_loader *loader_new(const struct rn_flowers *flowers, size_t threads, bool fail) {
    const struct rn_loader_config config = {.flowers = flowers,
        .image = SIZE,
        .batch = 5,
        .threads = threads,
        .ahead = 2,
        .seed = 1,
        .augment = true,
        .fail_bad = fail};
    struct rn_loader *l = NULL;

    assert_int_equal(rn_loader_new(&config, &l, NULL), 0);
    return l;
}

static struct run run_make(struct rn_loader *l, size_t n, size_t first, uint32_t epoch) {
    struct run r = {.images = co_xcalloc((IMAGES + 5) * (size_t)PIXELS, sizeof(float))};
    uint32_t order[IMAGES], labels[5];
    struct co_err err = {0};
    size_t got = 1;

    for (uint32_t i = 0; i < n; i++) {
        order[i] = (i * 7) % (uint32_t)n;
    }
    rn_loader_start(l, order, n, first, epoch);
    while (got) {
        if (rn_loader_next(l, r.images + r.n * PIXELS, labels, &got, &err) < 0) {
            fail_msg("%s", co_err_text(&err));
        }
        memcpy(r.labels + r.n, labels, got * sizeof(*labels));
        r.n += got;
    }
    return r;
}

static void batches_do_not_depend_on_the_number_of_threads(void **state) {
    struct fixture *f = *state;
    struct rn_flowers *flowers = flowers_open(f->dir.path, "train");
    struct rn_loader *one = loader_new(flowers, 1, true), *four = loader_new(flowers, 4, true);
    size_t n = flowers->n;

    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        struct run a = run_make(one, n, 0, epoch), b = run_make(four, n, 0, epoch);
        struct run later = run_make(four, n, 10, epoch);

        assert_int_equal(a.n, n); /* the last batch is shorter */
        assert_int_equal(b.n, n);
        assert_memory_equal(a.labels, b.labels, n * sizeof(*a.labels));
        assert_memory_equal(a.images, b.images, n * PIXELS * sizeof(float));
        assert_int_equal(later.n, n - 10);
        assert_memory_equal(
            a.images + (size_t)10 * PIXELS, later.images, later.n * PIXELS * sizeof(float));
        free(a.images);
        free(b.images);
        free(later.images);
    }
    rn_loader_free(one);
    rn_loader_free(four);
    rn_flowers_close(flowers);
}

static void a_bad_image_is_replaced_and_counted(void **state) {
    struct fixture *f = *state;
    struct rn_flowers *flowers = flowers_open(f->dir.path, "train");
    struct rn_loader *l = loader_new(flowers, 2, false);

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    assert_int_equal(truncate(flowers->images[3].path, 200), 0);
    assert_int_equal(unlink(flowers->images[4].path), 0);
    struct run r = run_make(l, flowers->n, 0, 0), again = run_make(l, flowers->n, 0, 1);
    assert_int_equal(r.n, flowers->n);
    for (size_t i = 0; i < r.n; i++) { /* order i * 7 % n */
        size_t at = i * 7 % flowers->n;

        assert_int_equal(r.labels[i], flowers->images[at == 3 || at == 4 ? 5 : at].label);
    }
    assert_int_equal(rn_loader_bad(l), 2); /* files, not times */
    free(r.images);
    free(again.images);
    rn_loader_free(l);
    rn_flowers_close(flowers);
}

static void a_bad_image_fails_its_own_batch(void **state) {
    struct fixture *f = *state;
    struct rn_flowers *flowers = flowers_open(f->dir.path, "train");
    struct rn_loader *l = loader_new(flowers, 2, true);
    const uint32_t order[] = {0, 1, 2, 3, 4};
    CO_AUTOFREE float *images = co_xcalloc((size_t)5 * PIXELS, sizeof(*images));
    uint32_t labels[5];
    struct co_err err = {0};
    size_t n;

    assert_int_equal(truncate(flowers->images[3].path, 200), 0);
    rn_loader_start(l, order, 5, 0, 0);
    assert_int_equal(rn_loader_next(l, images, labels, &n, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, flowers->images[3].path));
    rn_loader_free(l);
    rn_flowers_close(flowers);
}

static void a_loader_may_be_freed_in_the_middle_of_an_epoch(void **state) {
    struct fixture *f = *state;
    struct rn_flowers *flowers = flowers_open(f->dir.path, "train");
    struct rn_loader *l = loader_new(flowers, 3, true);
    const uint32_t order[20] = {0};

    rn_loader_start(l, order, 20, 0, 0);
    rn_loader_free(l);
    rn_flowers_close(flowers);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(parts_are_those_of_paddle),
        TEST(a_list_may_be_text),
        TEST(a_wrong_list_names_its_line),
        TEST(more_classes_than_expected_are_refused),
        TEST(batches_do_not_depend_on_the_number_of_threads),
        TEST(a_bad_image_is_replaced_and_counted),
        TEST(a_bad_image_fails_its_own_batch),
        TEST(a_loader_may_be_freed_in_the_middle_of_an_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
