/* The event loop: timers, file descriptors, signals, and work posted by other threads.  It is built
 * on libuv, which no other file uses.  Everything here must be used by the thread that runs the
 * loop, except co_loop_post.  Callbacks never run inside the call that armed them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/mem.h"

struct co_loop;
struct co_timer;
struct co_poll;
struct co_signal;

CO_MUST_CHECK int co_loop_new(struct co_loop **ret, struct co_err *err);
/* Also frees all timers, polls and signals that are left.  No callback runs any more, and posted
 * work that has not run is dropped.  Must not be called from a callback, or while another thread
 * may post. */
void co_loop_free(struct co_loop *l);
CO_DEFINE_CLEANUP(struct co_loop *, co_loop_free)

/* Runs until co_loop_stop, or until nothing is armed (a timer, a poll with events, a signal) or
 * posted.  A thread that will post does not count: keep something armed for it. */
void co_loop_run(struct co_loop *l);
/* One turn: waits at most until the next event; does not wait when nothing is armed.  For tests. */
void co_loop_turn(struct co_loop *l);
/* For a thread that waits for other descriptors as well.  It polls co_loop_fd for at most
 * co_loop_patience milliseconds (-1: without a limit); then co_loop_serve runs what is due, without
 * waiting. */
int co_loop_fd(const struct co_loop *l);
int co_loop_patience(struct co_loop *l);
void co_loop_serve(struct co_loop *l);
/* Ends co_loop_run after the current turn; called before it, co_loop_run returns at once.  For the
 * loop's thread only: other threads post a function that calls it. */
void co_loop_stop(struct co_loop *l);

int64_t co_loop_now(const struct co_loop *l); /* monotonic milliseconds, of this turn */
int64_t co_wall_seconds(void);                /* since the epoch; any thread */
int64_t co_wall_ms(void);                     /* the same in milliseconds */

/* Thread-safe: fn(arg) runs on the loop, in order of posting. */
void co_loop_post(struct co_loop *l, void (*fn)(void *arg), void *arg);

/* One-shot timers; starting one again replaces its time.  A delay counts from the call.  With a
 * delay of 0 (or less) the timer runs right after the current callback.  If a timer that runs so
 * starts another one with 0, descriptors that are ready come before it, so that nothing starves. */
struct co_timer *co_timer_new(struct co_loop *l, void (*fn)(void *arg), void *arg);
void co_timer_start(struct co_timer *t, int64_t delay_ms);
/* For the silence of a peer: counts time in which this process runs.  A process that was stopped,
 * or had no processor, has not read what came meanwhile; its peers may have stood still with it.
 * Runs after delay_ms in a process that has its turns, and after about twice as much time with
 * turns in any. */
void co_timer_start_awake(struct co_timer *t, int64_t delay_ms);
void co_timer_stop(struct co_timer *t);
bool co_timer_armed(const struct co_timer *t);
void co_timer_free(struct co_timer *t); /* NULL allowed; safe inside its own callback */

enum { CO_POLL_IN = 1, CO_POLL_OUT = 2 };

/* Watches a file descriptor, level-triggered.  The caller owns fd, which becomes non-blocking and
 * must stay open until co_poll_free; there may be one poll for each fd.  Starts paused.  events is
 * a mask of CO_POLL_*: both for an error, those that were requested for a hang-up. */
CO_MUST_CHECK int co_poll_new(struct co_loop *l, int fd, void (*fn)(void *arg, int events),
    void *arg, struct co_poll **ret, struct co_err *err);
void co_poll_set(struct co_poll *p, int events); /* 0 pauses */
void co_poll_free(struct co_poll *p);            /* NULL allowed; safe inside its own callback */

/* When the last handler for signo is freed, its former disposition is restored. */
CO_MUST_CHECK int co_signal_new(struct co_loop *l, int signo, void (*fn)(void *arg, int signo),
    void *arg, struct co_signal **ret, struct co_err *err);
void co_signal_free(struct co_signal *s); /* NULL allowed; safe inside its own callback */
/* Whether the signal is ignored now.  nohup ignores SIGHUP, and a program started so must not end
 * by it. */
bool co_signal_ignored(int signo);
