/* A job name that is unique to this process.  Tests run in parallel and reuse ports: a client of
 * another test that dials a port we have taken over is refused, as it names another job. */
#pragma once

#include <stdio.h>
#include <unistd.h>

/* The string belongs to the calling thread and lives as long as it. */
static inline const char *own_job(void) {
    static _Thread_local char name[32];
    (void)snprintf(name, sizeof(name), "test-%d", (int)getpid());
    return name;
}
