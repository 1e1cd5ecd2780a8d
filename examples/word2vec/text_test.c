/* Tests the dictionary against imikolov's numbering, windows of words in files, draws and pairs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/nn/nn_testing.h"
#include "examples/word2vec/pairs.h"
#include "examples/word2vec/prepare.h"

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static void file_is(const char *dir, const char *name, const char *want) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};

    must(co_file_read(path, 1 << 20, &text, &err), &err);
    assert_string_equal(text.data ? text.data : "", want);
}

static void file_write(const char *dir, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    struct co_err err = {0};

    must(co_file_write(path, text, strlen(text), 0644, &err), &err);
}

/* Counts: b 5, <e> and <s> 4 (a line each), a and c 3, d 1 and out, as is what the text itself
 * calls <unk>.  Windows: a line is <s> words <e>; the third, of 2 words, has 2. */
static void text_becomes_windows(void **state) {
    struct tk_dir dir;
    CO_CLEANUP(wv_dict_done) struct wv_dict d = {0};
    struct co_err err = {0};

    (void)state;
    tk_dir_make(&dir, "wv_text_test");
    file_write(dir.path, "ptb.train.txt", " b a  b \n c <unk> b d\nb c\n");
    file_write(dir.path, "ptb.valid.txt", "a c b a");
    CO_AUTOFREE char *out = co_xasprintf("%s/out", dir.path);
    const struct wv_prepare p = {.text = dir.path, .out = out, .least = 2, .n = 3, .split = 2};
    must(wv_prepare(&p, &err), &err);
    file_is(out, "word_dict", "b 5\n<e> 4\n<s> 4\na 3\nc 3\n<unk> 0\n");
    file_is(out, "train_data_dir/train.txt-00000", "2,0,3\n0,3,0\n3,0,1\n2,4,5\n4,5,0\n");
    file_is(out, "train_data_dir/train.txt-00001", "5,0,5\n0,5,1\n2,0,4\n0,4,1\n");
    file_is(out, "test_data_dir/test.txt-00000", "2,3,4\n3,4,0\n4,0,3\n");
    file_is(out, "test_data_dir/test.txt-00001", "0,3,1\n");
    CO_AUTOFREE char *dict = co_xasprintf("%s/word_dict", out);
    must(wv_dict_read(dict, &d, &err), &err);
    assert_int_equal(d.n, 6);
    assert_int_equal(wv_dict_find(&d, "cx", 1), 4);
    assert_int_equal(wv_dict_find(&d, "cx", 2), 5);
    assert_int_equal(wv_dict_find(&d, "", 0), 5);
    tk_dir_remove(&dir);
}

static void shell(const char *dir, const char *command) {
    CO_AUTOFREE char *text = co_xasprintf("cd %s && %s", dir, command);

    assert_int_equal(system(text), 0);
}

/* However it was written, the same text. */
static void text_in_other_forms(void **state) {
    static const char *const commands[] = {
        "printf '\\357\\273\\277b a\\tb \\r\\n\\r\\nc b' > ptb.train.txt",
        "printf 'b a b\\n\\nc b\\n' | gzip > ptb.train.txt",
        "printf 'b a b\\r\\rc b\\r' > ptb.train.txt", /* an old Mac's */
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        struct tk_dir dir;
        struct co_err err = {0};

        tk_dir_make(&dir, "wv_text_test");
        shell(dir.path, commands[i]);
        file_write(dir.path, "ptb.valid.txt", "a");
        CO_AUTOFREE char *out = co_xasprintf("%s/out", dir.path);
        CO_AUTOFREE char *dict = co_xasprintf("%s/out/word_dict", dir.path);
        const struct wv_prepare p = {.text = dir.path, .out = out, .n = 3, .split = 1};
        struct wv_dict d = {0};
        must(wv_prepare(&p, &err), &err);
        file_is(out, "word_dict", "<e> 4\n<s> 4\nb 3\na 2\nc 1\n<unk> 0\n");
        file_is(out, "train_data_dir/train.txt-00000", "1,2,3\n2,3,2\n3,2,0\n1,4,2\n4,2,0\n");
        file_write(out, "word_dict",
            "\xef\xbb\xbf"
            "b 3 \r\n a\t2\r\n\r\n<unk> 0");
        must(wv_dict_read(dict, &d, &err), &err);
        assert_true(d.n == 3 && d.words[1].count == 2 && wv_dict_find(&d, "a", 1) == 1);
        wv_dict_done(&d);
        tk_dir_remove(&dir);
    }
}

/* A text of one line, and a word without end: read in parts, whose borders fall into words. */
static void lines_and_words_of_any_length(void **state) {
    enum { WORDS = 40000, LONG = 200000 };
    struct tk_dir dir;
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20), want = CO_BUF(1 << 20);
    struct co_err err = {0};

    (void)state;
    tk_dir_make(&dir, "wv_text_test");
    for (size_t i = 0; i < WORDS; i++) {
        must(co_buf_adds(&text, i % 3 ? "bb " : "a ", &err), &err);
    }
    must(co_buf_reserve(&text, LONG + 1, &err), &err);
    memset(text.data + text.len, 'x', LONG);
    text.len += LONG;
    CO_AUTOFREE char *path = co_xasprintf("%s/ptb.train.txt", dir.path);
    CO_AUTOFREE char *out = co_xasprintf("%s/out", dir.path);
    must(co_file_write(path, text.data, text.len, 0644, &err), &err);
    file_write(dir.path, "ptb.valid.txt", "a");
    const struct wv_prepare p = {.text = dir.path, .out = out, .least = 2, .n = 2, .split = 1};
    struct wv_prepare rare = p;
    rare.least = 26666;
    assert_int_equal(wv_prepare(&rare, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "no word occurs more than 26666 times (--min-freq)"));
    assert_non_null(strstr(co_err_text(&err), "\"bb\", 26666 times"));
    must(wv_prepare(&p, &err), &err);
    file_is(out, "word_dict", "bb 26666\na 13335\n<unk> 0\n");
    must(co_buf_adds(&want, "2,1\n", &err), &err);
    for (size_t i = 1; i < WORDS; i++) {
        must(co_buf_addf(&want, &err, "%d,%d\n", (i - 1) % 3 == 0, i % 3 == 0), &err);
    }
    must(co_buf_adds(&want, "1,2\n2,2\n", &err), &err);
    file_is(out, "train_data_dir/train.txt-00000", want.data);
    tk_dir_remove(&dir);
}

static void text_that_cannot_be_used_is_named(void **state) {
    static const char *const rows[][2] = {
        {"printf 'a b\\nc\\n' > ptb.train.txt",
            "no usable line in \"%s/ptb.train.txt\": none of 2 has a window of 5 words"},
        {": > ptb.train.txt", "no usable line in \"%s/ptb.train.txt\": none of 0 has"},
        {"printf 'a b c\\nc\\000\\n' > ptb.train.txt", "%s/ptb.train.txt:2: a NUL, expected text"},
        {"seq 9999 | gzip | head -c 900 > ptb.train.txt",
            "\"%s/ptb.train.txt\": gzip data ends in"},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_dir dir;
        struct co_err err = {0};

        tk_dir_make(&dir, "wv_text_test");
        shell(dir.path, rows[i][0]);
        file_write(dir.path, "ptb.valid.txt", "a b c d e");
        CO_AUTOFREE char *out = co_xasprintf("%s/out", dir.path);
        const struct wv_prepare p = {.text = dir.path, .out = out, .n = 5, .split = 1};
        assert_true(wv_prepare(&p, &err) < 0);
        const char *place = strstr(rows[i][1], "%s"), *said = co_err_text(&err);
        CO_AUTOFREE char *begin =
            co_xasprintf("%.*s%s%s", (int)(place - rows[i][1]), rows[i][1], dir.path, place + 2);
        if (strstr(said, begin) != said) {
            fail_msg("\"%s\" begins not with \"%s\"", said, rows[i][1]);
        }
        tk_dir_remove(&dir);
    }
}

static void a_file_that_is_no_dictionary_is_refused(void **state) {
    static const char *const rows[][2] = {
        {"a 1\nb\n<unk> 0\n", ":2: expected a word, a blank and its count"},
        {"a 1\nb x\n<unk> 0\n", ":2: expected"},
        {"a 1\n", "<unk> as the last"},
        {"a 1\n\nb 1\na 1\n<unk> 0\n", "/d:4: \"a\" is in the dictionary twice"},
    };
    struct tk_dir dir;

    (void)state;
    tk_dir_make(&dir, "wv_text_test");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/d", dir.path);
        struct wv_dict d = {0};
        struct co_err err = {0};

        file_write(dir.path, "d", rows[i][0]);
        assert_int_equal(wv_dict_read(path, &d, &err), CO_INVALID);
        if (!strstr(co_err_text(&err), rows[i][1])) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i][1]);
        }
    }
    tk_dir_remove(&dir);
}

/* 16 to 1: 8 to 1 of the draws; a word without count is never drawn. */
static void words_are_drawn_by_their_counts(void **state) {
    struct wv_word words[] = {{"a", 16}, {"b", 1}, {"<unk>", 0}};
    const struct wv_dict d = {.words = words, .n = 3};
    struct wv_sampler s;
    size_t drawn[3] = {0};

    (void)state;
    wv_sampler_init(&s, &d, 1, 0);
    for (size_t i = 0; i < 90000; i++) {
        drawn[wv_sampler_draw(&s)]++;
    }
    assert_in_range(drawn[0], 79500, 80500);
    assert_int_equal(drawn[2], 0);
    wv_sampler_done(&s);
}

static void gradients_of_pairs_are_slopes(void **state) {
    enum { E = 3, U = 2, W = 4 };
    const uint32_t middle[] = {0, 1, 0}, other[] = {0, 1, 2, 3, 1, 1, 0, 2, 3, 0, 1, 2};
    float rows[U * E] = {0.3F, -0.2F, 0.9F, -0.5F, 0.4F, 0.1F}, grads[U * E] = {0};
    float others[W * (E + 1)], other_grads[W * (E + 1)] = {0};
    const struct wv_pairs p = {.n = 3,
        .others = 4,
        .each = 2,
        .embed = E,
        .middle = middle,
        .other = other,
        .rows = rows,
        .other_rows = others};

    (void)state;
    for (size_t i = 0; i < W * (E + 1); i++) {
        others[i] = 0.1F * (float)(i % 7) - 0.3F;
    }
    (void)wv_pairs_loss(&p, grads, other_grads);
    for (size_t i = 0; i < U * E + W * (E + 1); i++) {
        float *at = i < U * E ? &rows[i] : &others[i - U * E], kept = *at;
        double ours = (double)(i < U * E ? grads[i] : other_grads[i - U * E]);

        *at = kept + 0.01F;
        double above = wv_pairs_loss(&p, NULL, NULL);
        *at = kept - 0.01F;
        double slope = (above - wv_pairs_loss(&p, NULL, NULL)) / 0.02;
        *at = kept;
        if (!(fabs(slope - ours) < 1e-4)) {
            fail_msg("gradient %zu is %g, the slope %g", i, ours, slope);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_windows),
        cmocka_unit_test(text_in_other_forms),
        cmocka_unit_test(lines_and_words_of_any_length),
        cmocka_unit_test(text_that_cannot_be_used_is_named),
        cmocka_unit_test(a_file_that_is_no_dictionary_is_refused),
        cmocka_unit_test(words_are_drawn_by_their_counts),
        cmocka_unit_test(gradients_of_pairs_are_slopes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
