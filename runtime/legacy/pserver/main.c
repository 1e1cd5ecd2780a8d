/* paddle-pserver: the parameter server of jobs of Paddle 0.8 to 0.12. */
#include "runtime/legacy/pserver/pserver.h"

int main(int argc, char **argv) {
    return rt_pserver(argc, argv);
}
