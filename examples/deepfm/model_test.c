/* DeepFM against testdata/deepfm.json, and a training that must learn. */
#include "examples/ctr/network_testing.h"
#include "examples/deepfm/net.h"

int main(void) {
    return tk_main(&fm_net, "examples/deepfm/testdata/deepfm.json");
}
