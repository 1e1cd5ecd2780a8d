#include "operator/cmd/exporter.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cert.h"

static void put(const char *dir, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

/* The code of an exporter that is opened and closed; *ret_text: why not, yours. */
static int try_open(const char *addr, bool secure, const char *cert_dir, char **ret_text) {
    struct co_loop *loop = NULL;
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    struct opc_exporter *x = NULL;
    struct co_err err = {0};
    int r = opc_exporter_open(loop,
        &(struct opc_exporter_opts){.addr = addr, .secure = secure, .cert_dir = cert_dir}, &x,
        &err);
    assert_true(!r == !!x);
    opc_exporter_close(x);
    co_loop_free(loop);
    free(*ret_text);
    *ret_text = co_xstrdup(r ? co_err_text(&err) : "");
    return r;
}

static void an_invalid_address_is_named(void **state) {
    (void)state;
    CO_AUTOFREE char *text = NULL;
    assert_int_equal(try_open("127.0.0.1:0", false, "", &text), 0);
    assert_true(try_open("127.0.0.1:x", false, "", &text) < 0);
    assert_non_null(strstr(text, "metrics: "));
    assert_non_null(strstr(text, "127.0.0.1:x"));
}

/* A wrong folder ends the start; to continue with another certificate would go unnoticed. */
static void a_certificate_is_read_or_its_absence_is_named(void **state) {
    (void)state;
    char dir[] = "/tmp/op-exporter-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *text = NULL, *cert = NULL, *key = NULL, *other_cert = NULL, *other_key = NULL;
    assert_int_equal(co_cert_self_signed("a", &cert, &key, NULL), 0);
    assert_int_equal(co_cert_self_signed("b", &other_cert, &other_key, NULL), 0);

    assert_int_equal(try_open("127.0.0.1:0", true, "", &text), 0); /* one of its own */

    assert_true(try_open("127.0.0.1:0", true, dir, &text) < 0);
    assert_non_null(strstr(text, "metrics: certificate of metrics: "));
    assert_non_null(strstr(text, "/tls.crt"));
    put(dir, "tls.crt", cert);
    assert_true(try_open("127.0.0.1:0", true, dir, &text) < 0);
    assert_non_null(strstr(text, "/tls.key"));
    put(dir, "tls.key", other_key); /* of another */
    assert_int_equal(try_open("127.0.0.1:0", true, dir, &text), CO_INVALID);
    put(dir, "tls.key", key);
    assert_int_equal(try_open("127.0.0.1:0", true, dir, &text), 0);

    static const char *const names[] = {"tls.crt", "tls.key"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_invalid_address_is_named),
        cmocka_unit_test(a_certificate_is_read_or_its_absence_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
