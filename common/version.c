#include "common/version.h"

const char co_version[] = CO_VERSION;
