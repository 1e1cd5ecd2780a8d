/* From the objects that the operator would create (`paddle-operator render`) to processes: what
 * to run with which environment.  Each pod gets an address of 127.0.0.0/8 of its own, so that
 * ports stay as the contract says them and endpoints stay different.
 *
 * Reads nothing but what it is given, starts nothing.  What a process cannot have (volumes,
 * init containers, host network...) becomes a note. */
#pragma once

#include <stdbool.h>

#include "common/buf.h"
#include "runtime/launch/job/env.h"

enum {
    LOCAL_PODS_MAX = 1000,
    LOCAL_PODS_BLOCK = 200 /* addresses in a block: 127.0.<block>.10... */
};

struct local_pod {
    char *name, *address; /* owned */
    char **argv;          /* owned strings, then NULL */
    struct job_env env;
    bool server; /* serves until it is stopped: its end is not waited for */
};

struct local_pods {
    char *job; /* owned; the PaddleJob's name */
    struct local_pod *item;
    size_t n;
    /* The longest terminationGracePeriodSeconds of all pods, which are stopped together; meaning
     * has it where a pod says one. */
    int64_t grace_s;
    bool says_grace;
    struct co_buf notes; /* lines */
};

/* What an image would run when a pod names no command. */
struct local_image {
    const char *name;    /* with or without a tag */
    const char *command; /* for the shell; the pod's args follow */
};

struct local_pods_options {
    const struct local_image *images;
    size_t n_images;
    const char *bin_dir; /* where paddlerun and the training programs are */
    const char *token;   /* for a Secret that is there without the key; NULL: none */
    unsigned block;      /* addresses start at 127.0.<block>.10 */
    char *const *envp;   /* what processes inherit */
};

/* CO_INVALID names file, pod, and what is wrong.  name: for messages. */
CO_MUST_CHECK int local_pods_read(const char *name, const char *text, size_t len,
    const struct local_pods_options *options, struct local_pods *ret, struct co_err *err);
void local_pods_done(struct local_pods *p);
