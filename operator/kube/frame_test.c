#include "operator/kube/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct seen {
    struct co_buf text; /* lines, each with "|" behind it */
    int stop_at, lines;
};

static int on_line(void *arg, const char *line, size_t len) {
    struct seen *s = arg;
    assert_int_equal(co_buf_add(&s->text, line, len, NULL), 0);
    assert_int_equal(co_buf_adds(&s->text, "|", NULL), 0);
    return ++s->lines == s->stop_at ? 7 : 0;
}

static void lines_do_not_depend_on_how_bytes_were_cut(void **state) {
    (void)state;
    static const char text[] = "one\n\ntwo\r\n{\"three\":3}\nfo";
    for (size_t piece = 1; piece <= sizeof(text); piece++) {
        struct kube_frame f;
        struct seen s = {.text = CO_BUF(1000)};
        kube_frame_init(&f, 100);
        for (size_t at = 0; at < strlen(text); at += piece) {
            size_t n = strlen(text) - at < piece ? strlen(text) - at : piece;
            assert_int_equal(kube_frame_feed(&f, text + at, n, on_line, &s, NULL), 0);
        }
        assert_string_equal(s.text.data, "one|two|{\"three\":3}|");
        assert_true(kube_frame_torn(&f));
        assert_int_equal(kube_frame_feed(&f, "ur\n", 3, on_line, &s, NULL), 0);
        assert_string_equal(s.text.data, "one|two|{\"three\":3}|four|");
        assert_false(kube_frame_torn(&f));
        kube_frame_done(&f);
        co_buf_done(&s.text);
    }
}

static void a_line_has_a_maximum(void **state) {
    (void)state;
    static const struct {
        const char *first, *second;
        int rc;
    } rows[] = {
        {"12345678\n", "", 0},
        {"1234", "5678\n", 0},
        {"123456789\n", "", CO_NORESOURCE},
        {"1234", "56789\n", CO_NORESOURCE},
        {"1234", "56789", CO_NORESOURCE},
        {"123456789", "", CO_NORESOURCE},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct kube_frame f;
        struct seen s = {.text = CO_BUF(1000)};
        struct co_err err = {0};
        kube_frame_init(&f, 8);
        int rc = kube_frame_feed(&f, rows[i].first, strlen(rows[i].first), on_line, &s, &err);
        if (!rc) {
            rc = kube_frame_feed(&f, rows[i].second, strlen(rows[i].second), on_line, &s, &err);
        }
        assert_int_equal(rc, rows[i].rc);
        assert_int_equal(err.code, rows[i].rc);
        kube_frame_done(&f);
        co_buf_done(&s.text);
    }
}

static void the_consumer_can_stop(void **state) {
    (void)state;
    struct kube_frame f;
    struct seen s = {.text = CO_BUF(1000), .stop_at = 2};
    kube_frame_init(&f, 8);
    assert_int_equal(kube_frame_feed(&f, "a\nb\nc\n", 6, on_line, &s, NULL), 7);
    assert_string_equal(s.text.data, "a|b|");
    kube_frame_done(&f);
    co_buf_done(&s.text);
}

static void split(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int rc;
        enum kube_frame_type type;
        const char *object;
    } rows[] = {
        {"{\"type\":\"ADDED\",\"object\":{\"a\":{}}}", 0, KUBE_FRAME_ADDED, "{\"a\":{}}"},
        {"{\"type\":\"ERROR\",\"object\":{}}", 0, KUBE_FRAME_ERROR, "{}"},
        {"{\"type\":\"BOOKMARK\",\"object\":{}}", 0, KUBE_FRAME_BOOKMARK, "{}"},
        {"{\"type\":\"OTHER\",\"object\":{}}", CO_INVALID, 0, ""},
        {"{\"type\": \"ADDED\",\"object\":{}}", CO_INVALID, 0, ""},
        {"{\"object\":{},\"type\":\"ADDED\"}", CO_INVALID, 0, ""},
        {"{\"type\":\"ADDED\",\"object\":{}", CO_INVALID, 0, ""},
        {"{\"type\":\"ADDED\",\"object\":", CO_INVALID, 0, ""},
        {"{\"type\":\"ADDED\"", CO_INVALID, 0, ""},
        {"{\"type\":\"", CO_INVALID, 0, ""},
        {"{", CO_INVALID, 0, ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        enum kube_frame_type type;
        const char *object;
        size_t len;
        int rc = kube_frame_split(rows[i].line, strlen(rows[i].line), &type, &object, &len, NULL);
        assert_int_equal(rc, rows[i].rc);
        if (!rc) {
            assert_int_equal(type, rows[i].type);
            assert_int_equal(len, strlen(rows[i].object));
            assert_memory_equal(object, rows[i].object, len);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_do_not_depend_on_how_bytes_were_cut),
        cmocka_unit_test(a_line_has_a_maximum),
        cmocka_unit_test(the_consumer_can_stop),
        cmocka_unit_test(split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
