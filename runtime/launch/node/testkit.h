/* For the tests of this folder: makes a job from a command line, replaces
 * runtime/launch/process/children.c by children that are no processes, and records all calls in one
 * trace.  Include it once in a program. */
#pragma once

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "runtime/launch/job/value.h"
#include "runtime/launch/node/say.h"
#include "runtime/launch/process/children.h"

enum { KIT_WORDS = 12, KIT_TRACE = 1 << 16 };

static struct co_buf kit_trace = {.max = KIT_TRACE};

CO_PRINTF(1, 2) static void kit_tell(const char *fmt, ...) {
    va_list ap;
    char text[1024];
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)!co_buf_addf(&kit_trace, NULL, "%s%s", kit_trace.len ? " " : "", text);
}

/* ---- children ---------------------------------------------------------------------------- */

struct rl_children {
    struct rl_children_fns fns;
    void *arg;
    size_t n, n_running;
    int64_t grace_ms;
};

static struct rl_children kit_children;
static size_t kit_fails_at;                  /* the child that cannot be started, from 1 */
static void (*kit_begun)(struct co_loop *l); /* or NULL: called with the loop of the children */

int rl_children_new(struct co_loop *l, const struct rl_children_fns *fns, void *arg,
    struct rl_children **ret, struct co_err *err) {
    (void)err;
    if (kit_begun) {
        kit_begun(l);
    }
    kit_children = (struct rl_children){.fns = *fns, .arg = arg, .grace_ms = INT64_MAX};
    *ret = &kit_children;
    return 0;
}

void rl_children_free(struct rl_children *g) {
    (void)g;
}

int rl_children_start(struct rl_children *g, const struct rl_spawn *spawn, struct co_err *err) {
    (void)spawn;
    if (g->n + 1 == kit_fails_at) {
        return co_err_set(err, CO_NOTFOUND, "no such program");
    }
    g->n++;
    g->n_running++;
    kit_tell("start");
    return 0;
}

void rl_children_started(struct rl_children *g) {
    (void)g;
}

void rl_children_signal(struct rl_children *g, int signo) {
    (void)g;
    kit_tell("signal(%d)", signo);
}

/* Again: only ever sooner. */
void rl_children_stop(struct rl_children *g, int64_t grace_ms) {
    if (grace_ms < g->grace_ms) {
        kit_tell("stop(%d)", (int)grace_ms);
        g->grace_ms = grace_ms;
    }
}

size_t rl_children_running(const struct rl_children *g) {
    return g->n_running;
}

void rl_children_clear(struct rl_children *g) {
    g->n = g->n_running = 0;
    g->grace_ms = INT64_MAX;
}

/* "2:0": child 2 ends with exit code 0; "2:-9": by signal 9; "empty": nobody is left.  False: the
 * step is none of the children's. */
static bool kit_step(const char *step) {
    size_t i = 0;
    int code = 0;
    if (strcmp(step, "empty") == 0) {
        kit_children.fns.empty(kit_children.arg, 0);
        return true;
    }
    if (sscanf(step, "%zu:%d", &i, &code) != 2) {
        return false;
    }
    kit_children.n_running--;
    kit_children.fns.ended(kit_children.arg, i, code < 0 ? -code : code << 8);
    return true;
}

/* ---- a job ------------------------------------------------------------------------------- */

struct kit {
    const char *argv[KIT_WORDS + 4];
    struct rl_options options;
    struct rl_node node;
    struct rl_job job;
    struct rl_say say; /* to nobody */
    struct rl_offer own;
    char *value;
};

static const char *kit_no_variable(void *arg, const char *name) {
    (void)arg;
    (void)name;
    return NULL;
}

/* NULL behind the last word; without logs. */
static int kit_open(struct kit *k, const char *const *words, struct co_err *err) {
    static const uint16_t ports[] = {1, 2, 3, 4, 5, 6, 7, 8};
    *k = (struct kit){.argv = {"launch", "--log_dir="},
        .node = {.ip = (char *)"h", .pod = (char *)"abcdef", .python = (char *)"python3"}};
    int argc = 2;
    for (size_t i = 0; i < KIT_WORDS && words[i]; i++) {
        k->argv[argc++] = words[i];
    }
    k->argv[argc++] = "train";
    k->say.level = RL_SAY_ERROR;
    k->say.out = k->say.err = open("/dev/null", O_WRONLY | O_CLOEXEC);
    co_buf_clear(&kit_trace);
    kit_fails_at = 0;
    int r = rl_options_parse(argc, (char *const *)k->argv, kit_no_variable, NULL, &k->options, err);
    r = r ? r : rl_job_plan(&k->options, &k->node, kit_no_variable, NULL, &k->job, err);
    if (!r && k->job.n_ports) {
        rl_offer_make(&k->job, ports, &k->own);
        k->value = rl_value_encode(&k->job, &k->own);
    }
    return r;
}

static void kit_close(struct kit *k) {
    rl_offer_done(&k->own);
    rl_job_done(&k->job);
    rl_options_done(&k->options);
    free(k->value);
    co_close(k->say.out);
    co_buf_done(&kit_trace);
}
