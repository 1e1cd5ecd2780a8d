/* CTR-DNN against testdata/ctr_dnn.json, and a training that must learn. */
#include "examples/ctr/network_testing.h"
#include "examples/ctr_dnn/net.h"

int main(void) {
    return tk_main(&cd_net, "examples/ctr_dnn/testdata/ctr_dnn.json");
}
