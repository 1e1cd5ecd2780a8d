/* Any text: what is accepted lies in the range asked for and formats back. */
#include "common/parse.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool ok) {
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *s = co_xstrndup((const char *)data, size);
    struct co_err err = {0};
    int64_t i;
    double f;
    bool b;
    if (co_parse_i64("x", s, -5, 1000, &i, &err) == 0) {
        demand(i >= -5 && i <= 1000);
    }
    if (co_parse_f64("x", s, -5, 1000, &f, &err) == 0) {
        demand(f >= -5 && f <= 1000);
    }
    (void)!co_parse_bool("x", s, &b, &err);
    if (co_parse_duration("x", s, &i, &err) == 0) {
        demand(i >= 0);
    }
    if (co_parse_time("x", s, &i, &err) == 0) {
        char text[32];
        int64_t again = 0;
        co_time_format(i, text);
        demand(co_parse_time("x", text, &again, &err) == 0 && again == i);
    }
    struct co_hostport hp, hp2;
    if (co_parse_hostport("x", s, &hp, &err) == 0) {
        char text[CO_HOST_MAX + 10];
        co_hostport_format(hp.host, hp.port, text, sizeof(text));
        demand(co_parse_hostport("x", text, &hp2, &err) == 0 && strcmp(hp.host, hp2.host) == 0);
    }
    return 0;
}
