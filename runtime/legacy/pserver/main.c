#include "runtime/legacy/pserver/pserver.h"

int main(int argc, char **argv) {
    return rt_pserver(argc, argv);
}
