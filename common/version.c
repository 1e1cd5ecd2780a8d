/* The version that the Makefile passes in. */
#include "common/version.h"

const char co_version[] = CO_VERSION;
