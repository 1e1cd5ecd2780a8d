/* The event loop: timers, file descriptors, signals, work posted from other threads.  By libuv,
 * which no other file sees.  Everything here belongs to the thread that
 * runs the loop, except co_loop_post.  Callbacks never run inside the call that armed them. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct co_loop;
struct co_timer;
struct co_poll;
struct co_signal;

CO_MUST_CHECK int co_loop_new(struct co_loop **ret, struct co_err *err);
/* Frees what is left of timers, polls and signals, too; no callback runs any more, posted work
 * that did not run is dropped.  Not from a callback; no other thread may post any more. */
void co_loop_free(struct co_loop *l);
CO_DEFINE_CLEANUP(struct co_loop *, co_loop_free)

/* Until co_loop_stop, or until nothing is armed (a timer, a poll with events, a signal) and
 * nothing posted.  A thread that will post does not count: keep something armed for it. */
void co_loop_run(struct co_loop *l);
/* One turn: waits at most until the next event; does not wait when nothing is armed.  For tests. */
void co_loop_turn(struct co_loop *l);
/* After the current turn; called before co_loop_run, that returns at once.  Loop's thread only:
 * post a function that calls it from elsewhere. */
void co_loop_stop(struct co_loop *l);

int64_t co_loop_now(const struct co_loop *l); /* monotonic milliseconds, of this turn */
int64_t co_now_ms(void);                      /* monotonic milliseconds, now; any thread */
int64_t co_wall_seconds(void);                /* since the epoch; any thread */
int64_t co_wall_ms(void);                     /* the same clock, finer */

/* Thread-safe: fn(arg) runs on the loop, in order of posting. */
void co_loop_post(struct co_loop *l, void (*fn)(void *arg), void *arg);

/* One-shot timers; re-arming replaces.  Free stops.  A delay counts from the call; 0 (or less) is
 * at once after this callback; what is armed so by one armed so has its turn behind the descriptors
 * that are ready, so that nothing starves. */
struct co_timer *co_timer_new(struct co_loop *l, void (*fn)(void *arg), void *arg);
void co_timer_start(struct co_timer *t, int64_t delay_ms);
void co_timer_stop(struct co_timer *t);
bool co_timer_armed(const struct co_timer *t);
void co_timer_free(struct co_timer *t); /* NULL allowed; safe inside its own callback */

enum { CO_POLL_IN = 1, CO_POLL_OUT = 2 };

/* fd stays the caller's, becomes non-blocking and must stay open until co_poll_free; one poll an
 * fd.  Starts paused.  events passed to fn is a mask of CO_POLL_*; errors show as both, a hang-up
 * as what was asked for.  Level-triggered. */
CO_MUST_CHECK int co_poll_new(struct co_loop *l, int fd, void (*fn)(void *arg, int events),
    void *arg, struct co_poll **ret, struct co_err *err);
void co_poll_set(struct co_poll *p, int events); /* 0 pauses */
void co_poll_free(struct co_poll *p);            /* NULL allowed; safe inside its own callback */

/* The disposition of before returns when the last one for signo is freed. */
CO_MUST_CHECK int co_signal_new(struct co_loop *l, int signo, void (*fn)(void *arg, int signo),
    void *arg, struct co_signal **ret, struct co_err *err);
void co_signal_free(struct co_signal *s); /* NULL allowed; safe inside its own callback */
/* Ignored now, as nohup leaves SIGHUP: whoever was started so must not end by it. */
bool co_signal_ignored(int signo);
