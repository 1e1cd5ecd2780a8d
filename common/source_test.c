#include "common/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* "a\n", packed. */
#define GZIP_A "\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\xe4\x02\0\x07\xa1\xea\xdd\x02\0\0\0"
/* "a\rb\rc" */
#define GZIP_RETURNS                                                                               \
    "\037\213\010\000\000\000\000\000\002\003\113\344\115\342\115\006\000\334\040\134\272\005\000" \
    "\000\000"
#define BYTES(s) s, sizeof(s) - 1

static void write_file(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* All of it, in parts of at most so many bytes; at most size - 1 bytes. */
static int read_parts(const char *path, size_t part, char *ret, size_t size, struct co_err *err) {
    CO_CLEANUP(co_source_closep) struct co_source *s = NULL;
    size_t used = 0, n = 1;
    int rc = co_source_open(path, 0, true, &s, err);
    while (rc == 0 && n > 0 && used + 1 < size) {
        size_t room = size - 1 - used;
        rc = co_source_read(s, ret + used, room < part ? room : part, &n, err);
        used += rc == 0 ? n : 0;
    }
    ret[used] = '\0';
    return rc;
}

static int read_all(const char *path, char *ret, size_t size, struct co_err *err) {
    return read_parts(path, size, ret, size, err);
}

static void formats_are_read_or_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        int code;
        const char *text; /* of the file, or a part of the error */
    } rows[] = {
        {BYTES(""), 0, ""},
        {BYTES("a\n"), 0, "a\n"},
        {BYTES(GZIP_A), 0, "a\n"},
        {BYTES(GZIP_A GZIP_A), 0, "a\na\n"},
        {BYTES(GZIP_A "\0\0\0\0"), 0, "a\n"},
        {BYTES(GZIP_A "\0\0" GZIP_A), 0, "a\na\n"},
        {BYTES(GZIP_A "b\n"), CO_DAMAGED,
            "is followed by other data: expected the end of the file"},
        {BYTES(GZIP_A "\x1f\x8b"), CO_DAMAGED, "is followed by other data"},
        {BYTES(GZIP_A "\x1f\x8b\x08"), CO_DAMAGED, "ends in the middle"},
        {GZIP_A, sizeof(GZIP_A) - 2, CO_DAMAGED, "ends in the middle: the file was cut"},
        {BYTES("\xff\xfe\0\0a\0\0\0"), CO_UNSUPPORTED, "is text in UTF-32, expected text in UTF-8"},
        {BYTES("\xff\xfe"
               "a\0"),
            CO_UNSUPPORTED, "is text in UTF-16"},
        {BYTES("7z\xbc\xaf\x27\x1c"), CO_UNSUPPORTED, "is a 7z archive"},
        {BYTES("\x5d\0\0\x80\0\xff"), CO_UNSUPPORTED, "is packed by lzma"},
        {BYTES("\x04\x22\x4d\x18"), CO_UNSUPPORTED, "is packed by lz4"},
        {BYTES("\x1f\x9d\x90"), CO_UNSUPPORTED, "is packed by compress"},
        {BYTES("BZh9"), CO_UNSUPPORTED, "is packed by bzip2"},
        {BYTES("]a"), 0, "]a"},
        {BYTES("a\rb\r\rc\r"), 0, "a\nb\n\nc\n"},
        {BYTES("a\r\nb\rc\r\n"), 0, "a\r\nb\nc\r\n"},
        {BYTES("a\nb\rc\n"), 0, "a\nb\nc\n"},
        {BYTES("a\r\r\nb\r\r"), 0, "a\r\r\nb\n\n"},
        {BYTES("a\r\r\r\nb"), 0, "a\n\r\r\nb"},
        {BYTES("a\r"), 0, "a\n"},
        {BYTES("\r"), 0, "\n"},
        {BYTES(GZIP_RETURNS), 0, "a\nb\nc"},
    };
    char path[] = "/tmp/source_test.XXXXXX";
    CO_AUTOCLOSE int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        char got[64];
        write_file(path, rows[i].bytes, rows[i].n);
        int rc = read_parts(path, i % 2 ? 1 : sizeof(got), got, sizeof(got), &err);
        bool right = rc == rows[i].code &&
                     (rc == 0 ? strcmp(got, rows[i].text) == 0
                              : strstr(err.msg, rows[i].text) && strstr(err.msg, path));
        if (!right) {
            fail_msg("row %zu: %d, \"%s\", %s", i, rc, got, co_err_text(&err));
        }
    }
    assert_int_equal(unlink(path), 0);
}

/* What follows a carriage return may come with the next bytes that are read, or unpacked. */
static void line_ends_behind_any_number_of_bytes(void **state) {
    (void)state;
    enum { MORE = 16 };
    static const struct {
        const char *end, *as;
    } rows[] = {{"\r\nb", "\r\nb"}, {"\rb", "\nb"}, {"\r\r\nb", "\r\r\nb"}, {"\r\rb", "\n\nb"}};
    char path[] = "/tmp/source_test.XXXXXX";
    CO_AUTOCLOSE int fd = mkstemp(path);
    CO_AUTOFREE char *text = co_xmalloc((64 << 10) + MORE), *got = co_xmalloc((64 << 10) + MORE);
    assert_true(fd >= 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) * 4; i++) {
        size_t n = (64 << 10) - i / CO_ARRAY_LEN(rows);
        const char *end = rows[i % CO_ARRAY_LEN(rows)].end;
        memset(text, 'x', n);
        (void)snprintf(text + n, MORE, "%s", end);
        write_file(path, text, n + strlen(end));
        assert_int_equal(read_all(path, got, n + MORE, NULL), 0);
        assert_string_equal(got + n, rows[i % CO_ARRAY_LEN(rows)].as);
    }
    assert_int_equal(unlink(path), 0);
}

static void archives_are_named_inside_gzip_too(void **state) {
    (void)state;
    char path[] = "/tmp/source_test.XXXXXX", tar[512] = "train.txt", command[128];
    CO_AUTOCLOSE int fd = mkstemp(path);
    assert_true(fd >= 0);
    memcpy(tar + 257, "ustar", 6);
    static const char *const said[] = {"is a tar archive, expected text",
        "is a tar archive inside its gzip data", "is packed by gzip inside its gzip data"};
    write_file(path, tar, sizeof(tar));
    for (size_t i = 0; i < CO_ARRAY_LEN(said); i++) {
        struct co_err err = {0};
        char all[1024];
        assert_int_equal(read_all(path, all, sizeof(all), &err), CO_UNSUPPORTED);
        if (!strstr(err.msg, said[i])) {
            fail_msg("\"%s\" is not in \"%s\"", said[i], err.msg);
        }
        (void)snprintf(
            command, sizeof(command), "gzip <%s >%s.gz && mv %s.gz %s", path, path, path, path);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_read_or_named),
        cmocka_unit_test(line_ends_behind_any_number_of_bytes),
        cmocka_unit_test(archives_are_named_inside_gzip_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
