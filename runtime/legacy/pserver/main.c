/* paddle-pserver: the parameter server of jobs of Paddle 0.8 to 0.12. */
#include "common/stdio.h"
#include "runtime/legacy/pserver/pserver.h"

int main(int argc, char **argv) {
    co_stdio_begin();
    return co_stdio_close("paddle-pserver", pserver_run(argc, argv));
}
