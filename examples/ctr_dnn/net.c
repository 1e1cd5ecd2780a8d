/* CTR-DNN has no layers of its own: it is only the shared tower. */
#include "examples/ctr_dnn/net.h"

const struct ctr_net cd_net = {
    .name = "ctr_dnn",
    .config = {.vocabulary = 1000001,
        .embed = 9,
        .slots = 26,
        .dense = 13,
        .hidden = {512, 256, 128, 32},
        .n_hidden = 4},
    .row_init = "uniform:min=-1,max=1",
    .inputs = ctr_concat_inputs,
    .wanted = ctr_concat_wanted,
    .fill = ctr_concat_fill,
    .backward = ctr_concat_backward,
};
