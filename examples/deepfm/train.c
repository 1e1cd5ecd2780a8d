/* Trains DeepFM on click data (examples/ctr/program.h). */
#include "examples/ctr/program.h"
#include "examples/deepfm/net.h"

int main(int argc, char *argv[]) {
    return ctr_program(&fm_net, argc, argv);
}
