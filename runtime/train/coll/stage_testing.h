/* Fault injection for tests.  Kills or stops a rank at a "stage": at its k-th system call on a
 * socket from now on, or when it touches a certain page of a buffer.  Or makes a rank slow with
 * each page.  Include it in one file of a program only: it replaces functions of libc. */
#pragma once

#include <stdatomic.h>

#include "runtime/train/coll/coll_testing.h"

enum { STAGE_PAGE = 4096 };

struct kill_stage {
    const char *name;
    uint32_t call;         /* strike at this call on a socket, from 1; 0: at a page */
    bool out;              /* of the output buffer, not of the input */
    uint32_t eighth;       /* of the buffer, where the page is */
    unsigned char *buffer; /* the armed page */
};

static struct kill_stage stage_now;
static _Atomic int stage_signal; /* 0: not armed; set last, as another thread may strike */
static _Atomic uint32_t stage_calls;
static struct coll_world *stage_world;

static inline void stage_strike(void) {
    int signal = atomic_exchange(&stage_signal, 0);
    atomic_store(&stage_world->shared->struck_ms, co_now_ms());
    (void)raise(signal);
}

/* SIGSEGV handler.  Makes the page usable again, so that a rank that is only stopped can
 * continue. */
static inline void stage_touched(int signal) {
    (void)signal;
    (void)mprotect(stage_now.buffer, STAGE_PAGE, PROT_READ | PROT_WRITE);
    stage_strike();
}

static inline void stage_arm(struct coll_world *w, const struct kill_stage *s, int signal,
    unsigned char *buffer, size_t bytes) {
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

/* At the end of a call: if the stage was not reached, strike now. */
static inline void stage_end(void) {
    if (atomic_load(&stage_signal)) {
        if (stage_now.call == 0) {
            (void)mprotect(stage_now.buffer, STAGE_PAGE, PROT_READ | PROT_WRITE);
        }
        stage_strike();
    }
}

/* ---- a slow rank ---- */

static int stage_slow_ms; /* delay for each page that it sends; 0: not slow */
static unsigned char *stage_slow_buffer;
static size_t stage_slow_bytes;

static inline void stage_slow_touch(int signal, siginfo_t *info, void *context) {
    unsigned char *page =
        (unsigned char *)((uintptr_t)info->si_addr & ~(uintptr_t)(STAGE_PAGE - 1));
    (void)signal;
    (void)context;
    if (page < stage_slow_buffer || page >= stage_slow_buffer + stage_slow_bytes) {
        abort();
    }
    (void)poll(NULL, 0, stage_slow_ms);
    (void)mprotect(page, STAGE_PAGE, PROT_READ | PROT_WRITE);
}

/* From now on this rank takes `ms` for each page that it sends over a socket and, with a buffer,
 * for the first touch of each page of it. */
static inline void stage_slow(int ms, unsigned char *buffer, size_t bytes) {
    stage_slow_ms = ms;
    if (buffer) {
        struct sigaction a = {.sa_sigaction = stage_slow_touch, .sa_flags = SA_SIGINFO};
        stage_slow_buffer = buffer;
        stage_slow_bytes = bytes;
        (void)sigaction(SIGSEGV, &a, NULL);
        (void)mprotect(buffer, bytes, PROT_NONE);
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
    struct iovec *last = m->msg_iovlen > 0 ? &m->msg_iov[m->msg_iovlen - 1] : NULL;
    if (stage_slow_ms > 0 && last && last->iov_len > STAGE_PAGE) {
        (void)poll(NULL, 0, stage_slow_ms);
        struct iovec v[2] = {m->msg_iov[0], *last};
        v[m->msg_iovlen - 1].iov_len = STAGE_PAGE;
        struct msghdr less = *m;
        less.msg_iov = v;
        return syscall(SYS_sendmsg, fd, &less, flags);
    }
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
