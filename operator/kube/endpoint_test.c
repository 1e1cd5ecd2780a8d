#include "operator/kube/endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

/* libcurl verifies the name in the URL, so that is where another one goes. */
static void a_name_of_the_certificate_stands_in_the_url(void **state) {
    (void)state;
    static const struct {
        const char *server, *name; /* of the configuration */
        const char *base, *host_header, *route;
    } rows[] = {
        {"https://10.0.0.1:6443", NULL, "https://10.0.0.1:6443", NULL, NULL},
        {"https://10.0.0.1:6443/k", "api", "https://api:6443/k", "Host: 10.0.0.1:6443",
            "api:6443:10.0.0.1:6443"},
        {"https://h", "api", "https://api:443", "Host: h", "api:443:h:443"},
        {"https://[fd00::1]:6443", "api", "https://api:6443", "Host: [fd00::1]:6443",
            "api:6443:[fd00::1]:6443"},
        {"https://[fd00::1]", "api", "https://api:443", "Host: [fd00::1]", "api:443:[fd00::1]:443"},
        {"http://127.0.0.1:8001", "api", "http://127.0.0.1:8001", NULL, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct kube_config cfg = {.server = (char *)(uintptr_t)rows[i].server,
            .tls_server_name = (char *)(uintptr_t)rows[i].name};
        struct kube_endpoint e;
        assert_int_equal(kube_endpoint_init(&e, &cfg, NULL), 0);
        if (!co_streq(e.base, rows[i].base) || !co_streq(e.host_header, rows[i].host_header) ||
            !co_streq(e.route ? e.route->data : NULL, rows[i].route)) {
            fail_msg("%s: %s, %s, %s", rows[i].server, e.base, e.host_header,
                e.route ? e.route->data : "no route");
        }
        kube_endpoint_done(&e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_of_the_certificate_stands_in_the_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
