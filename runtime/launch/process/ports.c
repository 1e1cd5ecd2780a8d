/* Reserves TCP ports by binding them and by abstract UNIX sockets.  See ports.h. */
#include "runtime/launch/process/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/mem.h"
#include "common/parse.h"

int proc_ports_range(struct proc_ports_range *ret, struct co_err *err) {
    static const enum co_var names[] = {CO_VAR_FIXED_PORT, CO_VAR_FIRST_PORT};
    int64_t fixed = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(names) && !fixed; i++) {
        const char *name = co_contract[names[i]].name;
        const char *text = co_contract_getenv(names[i]);
        if (text && co_parse_i64(name, text, 1, 65535, &fixed, err)) {
            return CO_INVALID;
        }
    }
    const char *text = co_contract_getenv(CO_VAR_PORT_RANGE);
    text = text ? text : "35100:64000";
    const char *colon = strchr(text, ':');
    CO_AUTOFREE char *from = co_xstrndup(text, strcspn(text, ":"));
    int64_t first = 0, last = 0;
    if (!colon || co_parse_i64("PORT_RANGE", from, 1, 65535, &first, NULL) ||
        co_parse_i64("PORT_RANGE", colon + 1, first, 65535, &last, NULL)) {
        return co_err_set(err, CO_INVALID, "PORT_RANGE is \"%.100s\", expected FIRST:LAST", text);
    }
    *ret = (struct proc_ports_range){(uint16_t)first, (uint16_t)last, (unsigned)fixed};
    return 0;
}

/* Narrows the range to the larger part that the kernel does not use for outgoing connections, if
 * that part is large enough for n ports. */
static void leave_clients_out(struct proc_ports_range *r, size_t n) {
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    int low = 0, high = 0;
    int got = f ? fscanf(f, "%d %d", &low, &high) : 0;
    if (f) {
        (void)fclose(f);
    }
    if (got != 2) {
        return;
    }
    int above = r->last - (high >= r->first ? high + 1 : r->first);
    int below = (low <= r->last ? low - 1 : r->last) - r->first;
    int want = 4 * (int)(n < 10000 ? n : 10000) + 100;
    if (above >= want && above >= below) {
        r->first = (uint16_t)(high >= r->first ? high + 1 : r->first);
    } else if (below >= want) {
        r->last = (uint16_t)(low <= r->last ? low - 1 : r->last);
    }
}

static int bind_socket(int family, const void *address, socklen_t size) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, address, size) < 0) {
        co_close(fd);
        return -1;
    }
    return fd;
}

/* Returns -1 when another launcher uses the port. */
static int take_lock(unsigned port) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "paddlerun-port-%u", port);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    return bind_socket(AF_UNIX, &a, size);
}

static int take_port(unsigned port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return bind_socket(AF_INET, &a, sizeof(a));
}

/* Reserves one port.  Returns 0 or an error number.  must: the port is fixed, so it is taken even
 * if it is in use. */
static int hold_one(struct proc_ports *p, unsigned port, bool must) {
    int lock = take_lock(port);
    int bound = lock >= 0 || must ? take_port(port) : -1;
    if (bound < 0 && !must) {
        int e = errno;
        co_closep(&lock);
        return e;
    }
    p->port[p->n] = (uint16_t)port;
    p->bound[p->n] = bound;
    p->lock[p->n++] = lock;
    return 0;
}

static int too_few(
    const struct proc_ports_range *r, size_t got, size_t n, int e, struct co_err *err) {
    struct rlimit files = {0};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (e == EMFILE || e == ENFILE) {
        return co_err_set(err, CO_NORESOURCE,
            "%zu ports take %zu open files until the processes start: %s after %zu ports (ulimit "
            "-n "
            "is %llu), expected a higher hard limit",
            n, 2 * n, strerror(e), got, (unsigned long long)files.rlim_cur);
    }
    if (e == ERANGE) {
        return co_err_set(err, CO_INVALID,
            "%zu ports from %u on (FLAGS_FIXED_PORT, FLAGS_START_PORT), expected none above 65535",
            n, r->fixed);
    }
    return co_err_set(
        err, CO_NORESOURCE, "%zu free ports in %u to %u, expected %zu", got, r->first, r->last, n);
}

/* Reserves the next free port from *at on and advances *at.  Returns 0 or an error number. */
static int hold_next(struct proc_ports *p, const struct proc_ports_range *r, unsigned *at) {
    const unsigned span = (unsigned)(r->last - r->first) + 1;
    int e = EADDRINUSE;
    for (unsigned tried = 0; e && tried < span && e != EMFILE && e != ENFILE; tried++) {
        e = hold_one(p, r->first + (*at)++ % span, false);
    }
    return e;
}

int proc_ports_hold(const struct proc_ports_range *range, size_t n, size_t spare,
    struct proc_ports *ret, struct co_err *err) {
    struct proc_ports_range r = *range;
    leave_clients_out(&r, n);
    unsigned at = 0, next = r.fixed;
    if (getrandom(&at, sizeof(at), GRND_NONBLOCK) != (ssize_t)sizeof(at)) {
        at = (unsigned)getpid();
    }
    struct proc_ports p = {.port = co_xcalloc(n + 1, sizeof(*p.port)),
        .bound = co_xcalloc(n + 1, sizeof(*p.bound)),
        .lock = co_xcalloc(n + 1, sizeof(*p.lock))};
    int e = 0;
    while (p.n < n && !e) {
        bool fixed = r.fixed && p.n != spare;
        e = !fixed ? hold_next(&p, &r, &at) : next > 65535 ? ERANGE : hold_one(&p, next++, true);
    }
    if (p.n < n) {
        size_t got = p.n;
        proc_ports_done(&p);
        return too_few(&r, got, n, e, err);
    }
    *ret = p;
    return 0;
}

void proc_ports_release(struct proc_ports *p) {
    for (size_t i = 0; i < p->n; i++) {
        co_closep(&p->bound[i]);
        p->bound[i] = -1;
    }
}

void proc_ports_done(struct proc_ports *p) {
    proc_ports_release(p);
    for (size_t i = 0; i < p->n; i++) {
        co_closep(&p->lock[i]);
    }
    free(p->port);
    free(p->bound);
    free(p->lock);
    *p = (struct proc_ports){0};
}
