/* A strategy file of any bytes: no crash, and what is accepted is within its bounds. */
#include "runtime/train/ps/client/strategy.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct psc_strategy s;
    int rc = psc_strategy_parse("file", (const char *)data, size, &s, NULL);
    if (rc == 0 && (s.options.mode < RT_ASYNC || s.options.mode > RT_GEO ||
                       (s.options.mode == RT_GEO) != (s.options.k_steps > 0))) {
        abort();
    }
    psc_strategy_done(&s);
    return 0;
}
