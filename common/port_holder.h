/* Finds out who has a TCP port, for messages about ports that are in use.  Linux's /proc. */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

/* "process 12 (python3) listens there", "process 12 (curl) has a connection from there to
 * 10.0.0.1:443"; "another process ..." where this one may not look, or it is of another container;
 * "" where no process has it (any more).  Others may have the port at other addresses of this
 * machine, unless `at` is any address.  Reads at most a few megabytes. */
void co_port_holder(const struct sockaddr *at, char *ret_text, size_t size);
