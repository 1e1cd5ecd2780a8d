/* Trains wide & deep on click data (examples/ctr/program.h). */
#include "examples/ctr/program.h"
#include "examples/wide_and_deep/net.h"

int main(int argc, char *argv[]) {
    return ctr_program(&wd_net, argc, argv);
}
