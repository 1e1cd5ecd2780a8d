/* Tests the MATLAB parser.  scipy.io.savemat (1.x) wrote testdata/compressed.mat, with
 * do_compression and uint8 labels, and plain.mat, with arrays of uint16, double and int32. */
#include "examples/resnet50/mat.h"

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
#include "common/mem.h"

#define DATA "examples/resnet50/testdata/"

static void files_of_others_are_read(void **state) {
    static const struct {
        const char *file, *name;
        size_t n;
        uint32_t first, last;
    } rows[] = {
        {DATA "compressed.mat", "labels", 5, 1, 77},
        {DATA "compressed.mat", "other", 3, 0, 2},
        {DATA "plain.mat", "trnid", 3, 6765, 8189},
        {DATA "plain.mat", "valid", 2, 1, 2},
        {DATA "plain.mat", "tstid", 39, 1, 39},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE uint32_t *values = NULL;
        struct co_err err = {0};
        size_t n = 0;

        if (rn_mat_read(rows[i].file, rows[i].name, &values, &n, &err) < 0) {
            fail_msg("%s", co_err_text(&err));
        }
        assert_int_equal(n, rows[i].n);
        assert_int_equal(values[0], rows[i].first);
        assert_int_equal(values[n - 1], rows[i].last);
    }
}

static void written_arrays_are_read_back(void **state) {
    const uint32_t a[] = {1, 2, 3}, b[] = {65535};
    const struct rn_mat_array arrays[] = {{"trnid", a, 3}, {"a_longer_name", b, 1}, {"none", a, 0}};
    char path[] = "/tmp/rn_mat_test.XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(rn_mat_write(path, arrays, 3, NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        CO_AUTOFREE uint32_t *values = NULL;
        size_t n = 77;

        assert_int_equal(rn_mat_read(path, arrays[i].name, &values, &n, NULL), 0);
        assert_int_equal(n, arrays[i].n);
        assert_memory_equal(values, arrays[i].values, n * sizeof(*values));
    }
    (void)unlink(path);
}

/* Each beginning of a file, and each file with one byte changed: an answer or an error. */
static void damage(const char *file, const char *name) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);

    assert_int_equal(co_file_read(file, 1 << 20, &text, NULL), 0);
    for (size_t i = 0; i < 2 * text.len; i++) {
        CO_AUTOFREE unsigned char *copy = co_xmalloc(text.len + 1);
        CO_AUTOFREE uint32_t *values = NULL;
        size_t size = i < text.len ? i : text.len, n = 0;
        struct co_err err = {0};

        memcpy(copy, text.data, size);
        if (i >= text.len) {
            copy[i - text.len] ^= 0x41;
        }
        int rc = rn_mat_parse(copy, size, name, &values, &n, &err);
        assert_true(rc == 0 || rc == CO_INVALID || rc == CO_NOTFOUND || rc == CO_NORESOURCE);
        assert_true(rc == 0 || err.msg[0]);
        assert_true(rc < 0 || n <= RN_MAT_VALUES_MAX);
    }
}

static void damaged_files_are_refused(void **state) {
    (void)state;
    damage(DATA "compressed.mat", "labels");
    damage(DATA "plain.mat", "tstid");
}

static void an_array_that_is_not_there_is_named(void **state) {
    CO_AUTOFREE uint32_t *values = NULL;
    struct co_err err = {0};
    size_t n;

    (void)state;
    assert_int_equal(rn_mat_read(DATA "plain.mat", "labels", &values, &n, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, "plain.mat: no array \"labels\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_others_are_read),
        cmocka_unit_test(written_arrays_are_read_back),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(an_array_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
