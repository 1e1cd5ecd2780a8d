/* The version and the flags that the Makefile passes in. */
#include "common/version.h"

const char co_version[] = CO_VERSION;
const char co_compiler[] = __VERSION__;
const char co_build_flags[] = CO_BUILD_FLAGS;
