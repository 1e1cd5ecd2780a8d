/* Text forms on any bytes (servers read them from trainers): no crash; a rule that is accepted
 * comes back from its own text and can be applied, an initializer makes rows, a schedule rates that
 * are numbers. */
#include "runtime/train/optim/optim.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/train/optim/init.h"
#include "runtime/train/optim/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_initializer(const char *text) {
    struct optim_initializer in;
    float row[3];

    if (optim_initializer_parse(text, 1, &in, NULL) == 0) {
        optim_initializer_row(&in, 2, 3, row);
    }
}

static void try_schedule(const char *text) {
    static const uint64_t ts[] = {0, 1, 15, 1000, UINT64_MAX};
    struct rt_schedule s;

    for (size_t i = 0; i < CO_ARRAY_LEN(ts) && optim_schedule_parse(text, &s, NULL) == 0; i++) {
        double rate = optim_schedule_rate(&s, 0.1, ts[i]);

        if (!(rate >= 0 && rate <= 1e30)) {
            abort();
        }
    }
}

static void try_rule(const char *text) {
    char again[256];
    float w[3] = {0.5F, -0.5F, 0.0F}, g[3] = {0.1F, -0.2F, 0.3F}, state[10];
    struct optim o, copy;

    if (optim_parse(text, &o, NULL) < 0) {
        return;
    }
    if (optim_format(&o, again, sizeof(again), NULL) < 0 || optim_parse(again, &copy, NULL) < 0 ||
        copy.rule != o.rule || copy.set != o.set) {
        abort();
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(o.hyper); i++) {
        if (copy.hyper[i] != o.hyper[i]) {
            abort();
        }
    }
    if (optim_state_floats(&o, 3) > 10) {
        abort();
    }
    optim_state_init(&o, 3, state);
    optim_apply(&o, 3, w, g, state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[300];

    if (size >= sizeof(text)) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    try_rule(text);
    try_initializer(text);
    try_schedule(text);
    return 0;
}
