/* The program paddle-operator. */
#include "common/stdio.h"
#include "operator/cmd/commands.h"

int main(int argc, char *argv[]) {
    co_stdio_begin();
    return co_stdio_close("paddle-operator", opc_cmd(argc, argv));
}
