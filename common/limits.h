/* What the process may use: the least of what the machine has, of what its cgroup, and each one
 * above it, allows (cgroups version 2, and 1), and of the cores that it may run on. */
#pragma once

#include <stdint.h>

#include "common/err.h"

/* root: of /proc and /sys; "" outside of tests.  A file that is there and cannot be read, or has
 * an unknown form, limits nothing: ret_unread, which may be NULL, names the first such file.
 * It is 0 before the call. */
uint64_t co_limit_memory(const char *root, struct co_err *ret_unread); /* bytes */
uint32_t co_limit_cpus(const char *root, struct co_err *ret_unread);   /* rounded up, 1 or more */
