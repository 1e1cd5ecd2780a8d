/* A rank that is killed or stopped at a stage: at the k-th system call on a socket from now on, or
 * when it touches a page of a buffer.  Included by one file of a program: it takes the place of
 * libc's functions. */
#pragma once

#include <stdatomic.h>

#include "runtime/train/coll/testkit.h"

enum { STAGE_PAGE = 4096 };

struct stage {
    const char *name;
    uint32_t call;         /* this call on a socket, from 1; 0: a page */
    bool out;              /* the buffer written, not the one read */
    uint32_t eighth;       /* where in it */
    unsigned char *buffer; /* of the armed one */
};

static struct stage stage_now;
static _Atomic int stage_signal; /* 0: not armed.  Set last */
static _Atomic uint32_t stage_calls;
static struct world *stage_world;

static inline void stage_strike(void) {
    int signal = atomic_exchange(&stage_signal, 0);
    atomic_store(&stage_world->shared->struck_ms, world_now());
    (void)raise(signal);
}

/* The stopped one goes on where it was. */
static inline void stage_touched(int signal) {
    (void)signal;
    (void)mprotect(stage_now.buffer, STAGE_PAGE, PROT_READ | PROT_WRITE);
    stage_strike();
}

static inline void stage_arm(
    struct world *w, const struct stage *s, int signal, unsigned char *buffer, size_t bytes) {
    stage_now = *s;
    stage_world = w;
    atomic_store(&stage_calls, 0);
    if (s->call == 0) {
        struct sigaction a = {.sa_handler = stage_touched, .sa_flags = SA_NODEFER};
        stage_now.buffer = buffer + bytes * s->eighth / 8 / STAGE_PAGE * STAGE_PAGE;
        (void)sigaction(SIGSEGV, &a, NULL);
        (void)mprotect(stage_now.buffer, STAGE_PAGE, PROT_NONE);
    }
    atomic_store(&stage_signal, signal);
}

/* The stage was not come to: then here. */
static inline void stage_end(void) {
    if (atomic_load(&stage_signal)) {
        if (stage_now.call == 0) {
            (void)mprotect(stage_now.buffer, STAGE_PAGE, PROT_READ | PROT_WRITE);
        }
        stage_strike();
    }
}

static inline void stage_count(void) {
    if (atomic_load(&stage_signal) && stage_now.call &&
        atomic_fetch_add(&stage_calls, 1) + 1 == stage_now.call) {
        stage_strike();
    }
}

ssize_t send(int fd, const void *data, size_t n, int flags) {
    stage_count();
    return syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
}
ssize_t recv(int fd, void *data, size_t n, int flags) {
    stage_count();
    return syscall(SYS_recvfrom, fd, data, n, flags, NULL, NULL);
}
ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    stage_count();
    return syscall(SYS_sendmsg, fd, m, flags);
}
ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
    stage_count();
    return syscall(SYS_recvmsg, fd, m, flags);
}
int accept4(int fd, struct sockaddr *a, socklen_t *len, int flags) {
    stage_count();
    return (int)syscall(SYS_accept4, fd, a, len, flags);
}
int connect(int fd, const struct sockaddr *a, socklen_t len) {
    stage_count();
    return (int)syscall(SYS_connect, fd, a, len);
}
