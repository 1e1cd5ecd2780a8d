/* The program paddle-operator. */
#include "operator/cmd/cmd.h"

int main(int argc, char *argv[]) {
    return op_cmd(argc, argv);
}
