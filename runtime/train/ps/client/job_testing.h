/* A job name that is unique to this process.  Tests run in parallel and reuse ports: a client of
 * another test that dials a port we have taken over is refused, as it names another job. */
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "runtime/train/ps/server/server.h"

/* The string belongs to the calling thread and lives as long as it. */
static inline const char *own_job(void) {
    static _Thread_local char name[32];
    (void)snprintf(name, sizeof(name), "test-%d", (int)getpid());
    return name;
}

/* One server for one trainer, in this process. */
static inline struct pss_server_config lone_server(const char *restore_dir) {
    return (struct pss_server_config){.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = own_job(),
        .lease_ms = 60000,
        .shards = 1,
        .memory_max = 1 << 30,
        .restore_dir = restore_dir,
        .quiet = true};
}
