/* Tests MovieLens' files: what is accepted, what is refused, and what is generated instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "examples/nn/nn_testing.h"
#include "examples/recommendation/net.h"
#include "examples/recommendation/prepare.h"

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static void file_write(const char *dir, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    struct co_err err = {0};

    must(co_file_write(path, text, strlen(text), 0644, &err), &err);
}

static struct da_text text(const char *line) {
    return (struct da_text){line, strlen(line)};
}

static void a_library_is_read(void **state) {
    struct tk_dir dir;
    CO_CLEANUP(rc_library_done) struct rc_library l = {0};
    CO_CLEANUP(rc_batch_done) struct rc_batch b = {0};
    struct rc_rating r = {0};
    struct co_err err = {0};

    (void)state;
    tk_dir_make(&dir, "rc_ml_test");
    file_write(dir.path, "users.dat",
        "\xef\xbb\xbf"
        "1::F::1::10::48067\n\r\n 6040::M::56::16::70072 \r\n\n");
    file_write(dir.path, "movies.dat",
        "1::Toy Story (1995)::Animation|Children's|Comedy\n"
        "2::toy (Again) (1996)::Comedy\n");
    must(rc_library_read(dir.path, &l, &err), &err);
    assert_true(l.users[1].gender == 1 && l.users[1].age == 0 && l.users[1].job == 10);
    assert_true(l.users[6040].gender == 0 && l.users[6040].age == 6 && !l.users[2].known);
    assert_true(l.movies[1].n_genres == 3 && l.movies[1].n_words == 2);
    assert_true(l.movies[2].n_genres == 1 && l.movies[2].n_words == 2);
    const uint64_t *first = l.hashes + l.movies[1].at, *second = l.hashes + l.movies[2].at;
    assert_true(first[2] == second[0]); /* Comedy */
    assert_true(first[3] == second[1]); /* Toy, toy */
    must(rc_rating_parse(&l, text("6040::2::4::978300760"), "f:1", &r, &err), &err);
    rc_batch_init(&b, 2);
    rc_batch_add(&b, &l, &r);
    assert_true(b.target[0] == 3.0F && b.n_ids[RC_LONG] == 5 && b.n_ids[RC_SHORT] == 3);
    assert_true(b.ids[RC_LONG][0] == rc_id(RC_USER, 6040));
    assert_true(b.ids[RC_LONG][2] != b.ids[RC_LONG][3]);
    must(rc_rating_parse(&l, text("1::1::5::978300760"), "f:2", &r, &err), &err);
    rc_batch_add(&b, &l, &r);
    const uint64_t *ids = b.ids[RC_LONG] + 5;
    assert_true(b.n == 2 && b.n_ids[RC_LONG] == 5 + 7 && b.genres[2] == 4 && b.words[2] == 4);
    assert_true(ids[0] == rc_id(RC_USER, 1) && ids[1] == rc_id(RC_MOVIE, 1));
    for (size_t i = 0; i < 5; i++) {
        assert_true(ids[2 + i] == rc_id(i < 3 ? RC_GENRE : RC_TITLE, first[i]));
    }
    tk_dir_remove(&dir);
}

static void malformed_movielens_files_are_refused(void **state) {
    static const char *const rows[][3] = {
        {"1::F::1::10\n", "", "users.dat:1: expected UserID::Gender::Age::Occupation::Zip-code"},
        {"1::F::2::10::0\n", "", ":1: expected M or F, and an age of 1, 18"},
        {"1::X::1::10::0\n", "", ":1: expected M or F"},
        {"-1::F::1::10::0\n", "", ":1: expected numbers as user"},
        {"99999999::F::1::10::0\n", "", ":1: expected numbers as user"},
        {"1::F::1::10::0\n", "1::Toy Story (1995)\n", "movies.dat:1: expected MovieID::Title"},
        {"1::F::1::10::0\n", "\n1:Toy Story::Comedy\n", "movies.dat:2: expected MovieID"},
        {"1::F::1::10::0\n", "1::Toy Story::Comedy\n", "a title that ends with (Year)"},
    };
    struct tk_dir dir;

    (void)state;
    tk_dir_make(&dir, "rc_ml_test");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rc_library l = {0};
        struct co_err err = {0};

        file_write(dir.path, "users.dat", rows[i][0]);
        file_write(dir.path, "movies.dat", rows[i][1]);
        assert_int_equal(rc_library_read(dir.path, &l, &err), CO_INVALID);
        if (!strstr(co_err_text(&err), rows[i][2])) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i][2]);
        }
    }
    tk_dir_remove(&dir);
}

static void ratings_of_unknown_users_and_movies_are_refused(void **state) {
    static const char *const rows[][2] = {
        {"1::1::4", "f:7: expected UserID::MovieID::Rating::Timestamp"},
        {"1::1::6::0", "a rating up to 5"},
        {"2::1::5::0", "users.dat has no user 2"},
        {"1::3::5::0", "movies.dat has no movie 3"},
    };
    struct rc_user users[2] = {{0}, {.known = 1}};
    struct rc_movie movies[2] = {{0}, {.known = 1}};
    const struct rc_library l = {.users = users, .movies = movies, .n_users = 2, .n_movies = 2};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rc_rating r;
        struct co_err err = {0};

        assert_int_equal(rc_rating_parse(&l, text(rows[i][0]), "f:7", &r, &err), CO_INVALID);
        if (!strstr(co_err_text(&err), rows[i][1])) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i][1]);
        }
    }
}

/* All ratings are in one of the files, about a tenth in the test's. */
static void ratings_are_split(void **state) {
    struct tk_dir dir;
    struct co_err err = {0};
    size_t lines[4] = {0};

    (void)state;
    tk_dir_make(&dir, "rc_ml_test");
    const struct rc_prepare p = {
        .ml = "", .out = dir.path, .split = 3, .users = 9, .movies = 7, .ratings = 1000, .seed = 1};
    must(rc_prepare(&p, &err), &err);
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[] = {"ratings.dat.train-00000", "ratings.dat.train-00001",
            "ratings.dat.train-00002", "ratings.dat.test"};
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir.path, names[i]);
        CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);

        must(co_file_read(path, 1 << 20, &text, &err), &err);
        for (size_t k = 0; k < text.len; k++) {
            lines[i] += text.data[k] == '\n';
        }
    }
    assert_int_equal(lines[0] + lines[1] + lines[2] + lines[3], 1000);
    assert_in_range(lines[3], 60, 140);
    assert_in_range(lines[0] - lines[2], 0, 1);
    tk_dir_remove(&dir);
}

/* A blank line is no rating; without any, nothing is written. */
static void blank_lines_are_no_ratings(void **state) {
    struct tk_dir dir;
    struct co_err err = {0};

    (void)state;
    tk_dir_make(&dir, "rc_ml_test");
    CO_AUTOFREE char *out = co_xasprintf("%s/out", dir.path);
    CO_AUTOFREE char *path = co_xasprintf("%s/ratings.dat.train-00000", out);
    CO_AUTOBUF struct co_buf read = CO_BUF(1 << 16);
    const struct rc_prepare p = {.ml = dir.path, .out = out, .split = 1, .seed = 4};
    file_write(dir.path, "ratings.dat", "\n1::1::5::1\r\n \r\n1::2::3::2\n\n");
    must(rc_prepare(&p, &err), &err);
    must(co_file_read(path, 1 << 16, &read, &err), &err);
    assert_string_equal(read.data, "1::1::5::1\n1::2::3::2\n");
    file_write(dir.path, "ratings.dat", "1::1::5::1\n1\t2\t3\t4\n");
    assert_int_equal(rc_prepare(&p, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "ratings.dat:2: expected UserID::MovieID::Rating"));
    file_write(dir.path, "ratings.dat", "\n \n");
    assert_int_equal(rc_prepare(&p, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "no usable line in \""));
    tk_dir_remove(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_read),
        cmocka_unit_test(malformed_movielens_files_are_refused),
        cmocka_unit_test(ratings_of_unknown_users_and_movies_are_refused),
        cmocka_unit_test(ratings_are_split),
        cmocka_unit_test(blank_lines_are_no_ratings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
