/* The text form on any bytes (servers read it from trainers): no crash; what is accepted comes
 * back from its own text and can be applied. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/optim/optim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[300], again[256];
    float w[3] = {0.5F, -0.5F, 0.0F}, g[3] = {0.1F, -0.2F, 0.3F}, state[10];
    struct rt_optim o, copy;

    if (size >= sizeof(text)) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (rt_optim_parse(text, &o, NULL) < 0) {
        return 0;
    }
    if (rt_optim_format(&o, again, sizeof(again), NULL) < 0 ||
        rt_optim_parse(again, &copy, NULL) < 0 || copy.rule != o.rule ||
        memcmp(copy.hyper, o.hyper, o.rule->n_hypers * sizeof(float)) != 0) {
        abort();
    }
    if (rt_optim_state_floats(&o, 3) > 10) {
        abort();
    }
    rt_optim_state_init(&o, 3, state);
    rt_optim_apply(&o, 3, w, g, state);
    return 0;
}
