/* What the process may use: the least of what the machine has, of what its cgroup, and each one
 * above it, allows (cgroups version 2, and 1), and of the cores that it may run on. */
#pragma once

#include <stdint.h>

/* root: of /proc and /sys; "" outside of tests. */
uint64_t co_limit_memory(const char *root); /* bytes */
uint32_t co_limit_cpus(const char *root);   /* rounded up, 1 or more */
