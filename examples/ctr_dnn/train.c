/* Trains CTR-DNN on click data (examples/ctr/program.h). */
#include "examples/ctr/program.h"
#include "examples/ctr_dnn/net.h"

int main(int argc, char *argv[]) {
    return ctr_program(&cd_net, argc, argv);
}
