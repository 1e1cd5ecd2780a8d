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
#include "runtime/launch/node/launcher_log.h"
#include "runtime/launch/process/children.h"

enum { KIT_WORDS = 12, KIT_TRACE = 1 << 16 };

static struct co_buf kit_trace = {.max = KIT_TRACE};

CO_PRINTF(1, 2) static void kit_report(const char *fmt, ...) {
    va_list ap;
    char text[1024];
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)!co_buf_addf(&kit_trace, NULL, "%s%s", kit_trace.len ? " " : "", text);
}

/* ---- children ---------------------------------------------------------------------------- */

struct proc_children {
    struct proc_children_fns fns;
    void *arg;
    size_t n, n_running;
    int64_t grace_ms;
};

static struct proc_children kit_children;
static size_t kit_fails_at;                  /* the child that cannot be started, from 1 */
static void (*kit_begun)(struct co_loop *l); /* or NULL: called with the loop of the children */

int proc_children_new(struct co_loop *l, const struct proc_children_fns *fns, void *arg,
    struct proc_children **ret, struct co_err *err) {
    (void)err;
    if (kit_begun) {
        kit_begun(l);
    }
    kit_children = (struct proc_children){.fns = *fns, .arg = arg, .grace_ms = INT64_MAX};
    *ret = &kit_children;
    return 0;
}

void proc_children_free(struct proc_children *g) {
    (void)g;
}

int proc_children_start(
    struct proc_children *g, const struct proc_spawn *spawn, struct co_err *err) {
    (void)spawn;
    if (g->n + 1 == kit_fails_at) {
        return co_err_set(err, CO_NOTFOUND, "no such program");
    }
    g->n++;
    g->n_running++;
    kit_report("start");
    return 0;
}

int proc_children_again(
    struct proc_children *g, size_t i, const struct proc_spawn *spawn, struct co_err *err) {
    (void)spawn;
    (void)err;
    g->n_running++;
    kit_report("again(%zu)", i);
    return 0;
}

void proc_children_started(struct proc_children *g) {
    (void)g;
}

void proc_children_pause(struct proc_children *g, bool on) {
    (void)g;
    (void)on;
}

void proc_children_signal(struct proc_children *g, int signo) {
    (void)g;
    kit_report("signal(%d)", signo);
}

/* Again: only ever sooner. */
void proc_children_stop(struct proc_children *g, int64_t grace_ms) {
    if (grace_ms < g->grace_ms) {
        kit_report("stop(%d)", (int)grace_ms);
        g->grace_ms = grace_ms;
    }
}

size_t proc_children_running(const struct proc_children *g) {
    return g->n_running;
}

void proc_children_clear(struct proc_children *g) {
    g->n = g->n_running = 0;
    g->grace_ms = INT64_MAX;
}

/* "2:0": child 2 ends with exit code 0; "2:-9": by signal 9; "empty": nobody is left.  False: the
 * step is none of the children's. */
static inline bool kit_step(const char *step) {
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
    struct options options;
    struct job_node node;
    struct job job;
    struct node_log say; /* to nobody */
    struct job_offer own;
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
    k->say.level = NODE_LOG_ERROR;
    k->say.out = k->say.err = open("/dev/null", O_WRONLY | O_CLOEXEC);
    co_buf_clear(&kit_trace);
    kit_fails_at = 0;
    CO_TRY(options_parse(argc, (char *const *)k->argv, kit_no_variable, NULL, &k->options, err));
    CO_TRY(job_plan(&k->options, &k->node, kit_no_variable, NULL, &k->job, err));
    if (k->job.n_ports) {
        job_offer_make(&k->job, ports, &k->own);
        k->value = job_value_encode(&k->job, &k->own);
    }
    return 0;
}

static void kit_close(struct kit *k) {
    job_offer_done(&k->own);
    job_done(&k->job);
    options_done(&k->options);
    free(k->value);
    co_close(k->say.out);
    co_buf_done(&kit_trace);
}
