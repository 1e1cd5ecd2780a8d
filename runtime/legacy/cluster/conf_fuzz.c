/* A conf.py from anybody. */
#include "runtime/legacy/cluster/conf.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOJSON json_t *values = NULL;
    struct cluster_conf c;
    struct co_err err = {0};
    if (cluster_python_read("conf.py", (const char *)data, size, &values, &err) == 0 &&
        cluster_conf_decode("conf.py", values, &c, &err) == 0) {
        cluster_conf_done(&c);
    }
    return 0;
}
