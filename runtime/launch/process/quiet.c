/* Polls the kernel's tables of TCP connections.  See quiet.h. */
#include "runtime/launch/process/quiet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 500 /* polling interval */, ESTABLISHED = 1 /* the kernel's TCP_ESTABLISHED */ };

struct proc_quiet {
    struct co_timer *timer;
    uint16_t *port;
    size_t n;
    int64_t quiet_ms;
    int64_t since; /* when the ports were found unused first; -1: a client was connected */
    bool used;
    void (*fn)(void *arg);
    void *arg;
};

static bool is_own_port(const struct proc_quiet *q, unsigned port) {
    for (size_t i = 0; i < q->n; i++) {
        if (q->port[i] == port) {
            return true;
        }
    }
    return false;
}

enum connections_found { NONE, UNKNOWN, SOME };

/* The table has lines "sl: address:port address:port state ...", all but sl in hexadecimal.  It is
 * not there without IPv6, say; one that cannot be opened, without descriptors, may have any. */
static enum connections_found find_in_table(const struct proc_quiet *q, const char *path) {
    FILE *f = fopen(path, "re");
    char line[512];
    bool found = false;
    if (!f) {
        return errno == ENOENT ? NONE : UNKNOWN;
    }
    while (!found && fgets(line, sizeof(line), f)) {
        unsigned port = 0, state = 0;
        found = sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &port, &state) == 2 &&
                state == ESTABLISHED && is_own_port(q, port);
    }
    const bool whole = found || !ferror(f);
    (void)fclose(f);
    return found ? SOME : whole ? NONE : UNKNOWN;
}

static void look_for_connections(void *arg) {
    struct proc_quiet *q = arg;
    const enum connections_found v4 = find_in_table(q, "/proc/self/net/tcp");
    const enum connections_found v6 = v4 == SOME ? NONE : find_in_table(q, "/proc/self/net/tcp6");
    if (v4 != NONE || v6 != NONE) {
        q->used = q->used || v4 == SOME || v6 == SOME;
        q->since = -1;
    } else if (q->used && q->since < 0) {
        q->since = co_now_ms();
    } else if (q->used && co_now_ms() - q->since >= q->quiet_ms) {
        q->fn(q->arg);
        return;
    }
    co_timer_start(q->timer, LOOK_MS);
}

struct proc_quiet *proc_quiet_new(struct co_loop *l, const uint16_t *ports, size_t n,
    int64_t quiet_ms, bool used, void (*quiet)(void *arg), void *arg) {
    struct proc_quiet *q = co_xcalloc(1, sizeof(*q));
    *q = (struct proc_quiet){.timer = co_timer_new(l, look_for_connections, q),
        .port = co_xcalloc(n + 1, sizeof(*ports)),
        .n = n,
        .quiet_ms = quiet_ms,
        .since = -1,
        .used = used,
        .fn = quiet,
        .arg = arg};
    memcpy(q->port, ports, n * sizeof(*ports));
    co_timer_start(q->timer, 0);
    return q;
}

void proc_quiet_free(struct proc_quiet *q) {
    if (q) {
        co_timer_free(q->timer);
        free(q->port);
        free(q);
    }
}
