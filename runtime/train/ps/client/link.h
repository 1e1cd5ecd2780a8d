/* The links of a client, one to each server: their states, how long the client waits for each, and
 * what servers said of themselves.  Calls take the server's index and have the lock themselves. */
#pragma once

#include "runtime/net/dial.h"
#include "runtime/train/ps/client/call.h"

enum psc_link_state {
    PSC_LINK_DOWN,    /* not connected, or refused for the moment */
    PSC_LINK_HELLO,   /* connected, hello sent */
    PSC_LINK_WELCOME, /* welcome received; the first time, all other welcomes must come too */
    PSC_LINK_BEGUN,   /* the server has answered begin; data lanes open next */
    PSC_LINK_UP,      /* in use */
    PSC_LINK_LEFT,    /* has answered the trainer's finish: it may exit now */
};

/* Bits for psc_links_in. */
enum {
    PSC_LINKS_MISSING = 1U << PSC_LINK_DOWN | 1U << PSC_LINK_HELLO,
    PSC_LINKS_WELCOME = 1U << PSC_LINK_WELCOME,
    PSC_LINKS_BEGUN = 1U << PSC_LINK_BEGUN,
    PSC_LINKS_LEFT = 1U << PSC_LINK_LEFT,
    PSC_LINKS_WELCOMED = PSC_LINKS_WELCOME | PSC_LINKS_BEGUN | 1U << PSC_LINK_UP | PSC_LINKS_LEFT,
    PSC_LINKS_GREETED = 1U << PSC_LINK_HELLO | PSC_LINKS_WELCOMED,
};

/* Where the client is: its links as a whole. */
enum psc_stage {
    PSC_JOINING,   /* some link has not been up yet: nobody reconnects broken ones */
    PSC_JOINED,    /* all links have been up: the reconnector reconnects broken ones */
    PSC_FINISHING, /* sending finish: restored tables do not matter any more */
    PSC_FINISHED,  /* all servers have answered finish */
};

/* A server, as its last welcome says; `asked` and `welcomed`: when hello went out and welcome came,
 * by a logical clock. */
struct psc_welcome {
    uint64_t incarnation; /* 0: never welcomed */
    uint32_t shards;
    uint64_t key;  /* of data lanes; 0: it has none */
    size_t window; /* bytes of requests and answers in flight */
    int64_t lease_ms;
    uint64_t step, barriers, era, restored, restored_step, origin;
    bool fresh, dirty;           /* see join.c */
    bool replaced;               /* restarted since this trainer knew it */
    bool says_late;              /* for whom a step waits */
    enum rt_nonfinite nonfinite; /* what it does with NaN and Inf */
    uint64_t asked, welcomed;
};

struct psc_links;
struct psc_link;

void psc_links_open(struct rt_client *c, uint32_t n, const char *const *endpoints);
void psc_links_free(struct rt_client *c); /* without links: nothing */

const char *psc_link_endpoint(const struct rt_client *c, uint32_t i);
struct psc_welcome psc_link_welcomed(struct rt_client *c, uint32_t i);
struct co_err psc_link_why(struct rt_client *c, uint32_t i); /* the last attempt failed */
/* Lists the links in these states.  ret_which [servers], or NULL. */
uint32_t psc_links_in(struct rt_client *c, unsigned states, uint32_t *ret_which);

/* What moves a link from state to state: a connection on which both ends have proved the token, and
 * hello goes out; another hello on it (false: nothing to ask); the welcome; the answer to begin or
 * finish; all is open, and waiting parts are sent; an attempt that failed. */
CO_MUST_CHECK int psc_link_adopt(struct rt_client *c, uint32_t i, const struct net_dial *in,
    const char *address, struct co_err *err);
bool psc_link_ask_again(struct rt_client *c, uint32_t i);
void psc_link_welcome(struct rt_client *c, uint32_t i, const struct psc_welcome *w);
void psc_link_answered(struct rt_client *c, uint32_t i, enum psc_link_state to);
void psc_link_raise(struct rt_client *c, uint32_t i);
void psc_link_drop(struct rt_client *c, uint32_t i, const struct co_err *why);
/* Why there is still no connection: the log, and the error at the end, have the last reason. */
void psc_link_note(struct rt_client *c, uint32_t i, const struct co_err *why);
/* Whether the client waits for its return. */
bool psc_link_is_away(struct rt_client *c, uint32_t i);

/* Something has come over a stream.  False: from a connection that the link has dropped. */
bool psc_link_received(struct psc_link *l, const struct rpc_stream *stream);
void psc_link_closed(struct psc_link *l, struct rpc_stream *stream, const struct co_err *why);
/* Pings, leases, the time to come back. */
void psc_links_tick(struct rt_client *c, int64_t now, int64_t tick_ms);
/* Puts the server's name before the error. */
void psc_link_name(const struct psc_link *l, struct co_err *err);

enum psc_stage psc_links_stage(struct rt_client *c);
/* All links are up.  False: some are not. */
bool psc_links_joined(struct rt_client *c);
/* From now on it does not matter if a server goes back to a checkpoint.  False: one already has. */
bool psc_links_finish(struct rt_client *c);
void psc_links_finished(struct rt_client *c);
/* The client joins again, as another incarnation: waits for threads that work on what is over, and
 * forgets failures. */
void psc_links_forget(struct rt_client *c);
/* Waits until a link is away, and at least until next_ms.  False: the client has failed. */
bool psc_links_await_broken(struct rt_client *c, int64_t next_ms);
/* Reports to the servers of links `in` these states why this trainer leaves, and waits briefly for
 * the streams' end.  `returns`: the trainer joins again at once; then also to servers that have its
 * hello only, or may: they would take a mere end for its loss. */
void psc_links_leave(struct rt_client *c, unsigned in, const char *why, bool returns);
/* Takes links that are UP out of use, to be left: LEFT.  Returns how many; ret_which [servers]. */
uint32_t psc_links_put_down(struct rt_client *c, uint32_t *ret_which);
