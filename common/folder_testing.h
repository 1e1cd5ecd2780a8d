/* A folder for each test: *state is its path.  It is made before the test, and removed after it
 * with all that is in it. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/mem.h"

static inline int co_test_folder_make(void **state) {
    char *dir = co_xasprintf("/tmp/%s_XXXXXX", program_invocation_short_name);
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static inline int co_test_folder_remove(void **state) {
    CO_AUTOFREE char *dir = *state;
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r '%s'", dir);
    return system(cmd);
}

/* A row of main. */
#define CO_TEST_IN_FOLDER(test)                                                                    \
    cmocka_unit_test_setup_teardown(test, co_test_folder_make, co_test_folder_remove)
