/* For tests: tries something on a file system that fails (disk_layer_testing.h), for each call that
 * can fail and each way, in a process of its own and on a copy of a directory.  Then a restart on a
 * sound file system must find the old or, if the call said that it succeeded, the new.
 *
 * By default a sample that SEED chooses; DISK_ALL=1: all; DISK_CASE="full/EIO/17": that one. */
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/ckpt/disk_layer_testing.h"

enum { DISK_SAMPLE = 8, DISK_SAMPLE_SLOW = 2, DISK_HANGS_S = 100, DISK_LAST = 1000000 };

static struct disk_layer {
    disk_layer_arm_fn *arm;
    disk_layer_calm_fn *calm;
    disk_layer_cut_fn *cut;
} disk_layer;

/* What a child reports; shared memory. */
struct disk_report {
    int rc;         /* of the call under test; 1: it did not return */
    int again;      /* of the same call once more, without faults; 1: it was not made */
    int value;      /* of the tables now; -1: they differ from one another, -2: unknown */
    unsigned calls; /* that the fault could have hit */
    char why[sizeof(((struct co_err *)NULL)->msg)];
};
static struct disk_report *disk_report;

static uint64_t disk_seed = 20261126;

/* To be called first: begins the program again below the layer, which is beside the tests.  Ends it
 * if that is not there. */
static inline void disk_layer_load(char **argv) {
    *(void **)&disk_layer.arm = dlsym(RTLD_DEFAULT, "disk_layer_arm");
    *(void **)&disk_layer.calm = dlsym(RTLD_DEFAULT, "disk_layer_calm");
    *(void **)&disk_layer.cut = dlsym(RTLD_DEFAULT, "disk_layer_cut");
    if (!disk_layer.arm && !getenv("LD_PRELOAD")) {
        char self[4096];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        const char *tests = strstr(self, "/runtime/");
        CO_AUTOFREE char *layer =
            co_xasprintf("%.*s/disk/layer.so", tests ? (int)(tests - self) : 0, self);
        (void)setenv("LD_PRELOAD", layer, 1);
        (void)execv("/proc/self/exe", argv);
    }
    disk_report =
        mmap(NULL, sizeof(*disk_report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!disk_layer.arm || !disk_layer.calm || !disk_layer.cut || disk_report == MAP_FAILED) {
        (void)fprintf(stderr, "the library of tests/disk is not loaded\n");
        exit(1);
    }
    const char *asked = getenv("SEED");
    disk_seed = asked ? strtoull(asked, NULL, 10) : disk_seed;
    print_message("SEED=%llu\n", (unsigned long long)disk_seed);
}

/* Runs in a child, which ends after so many seconds.  Returns its exit code: 0, or 1 with a line on
 * stderr; 128 + a signal. */
static inline int disk_layer_child(
    int (*run)(const void *arg, struct co_err *err), const void *arg, unsigned seconds) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct co_err err = {0};
        (void)alarm(seconds);
        int rc = run(arg, &err);
        if (rc < 0) {
            (void)fprintf(stderr, "%s\n", err.msg);
        }
        _exit(rc < 0 ? 1 : 0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* In a child. */
struct disk_trial {
    const char *dir;
    enum disk_fault fault;
    unsigned n;
    bool all;            /* every call from the n-th on */
    enum disk_fault cut; /* in this way after the call has returned; DISK_NONE: it is made again */
};

static inline void disk_begin(const struct disk_trial *t) {
    disk_layer.arm(t->dir, t->fault, t->n, t->all);
}

/* The call under test has returned. */
static inline void disk_note(int rc, const struct co_err *err) {
    disk_report->calls = disk_layer.calm();
    disk_report->rc = rc;
    (void)snprintf(disk_report->why, sizeof(disk_report->why), "%s", rc < 0 ? err->msg : "");
}

static inline void disk_end(const struct disk_trial *t) {
    if (t->cut != DISK_NONE) {
        disk_layer.cut(t->cut);
    }
}

/* Something to try, on a directory that `prepare` fills.  One number says what is there. */
struct disk_way {
    const char *name;
    int (*prepare)(const char *dir, struct co_err *err);
    int (*try)(const struct disk_trial *t, struct co_err *err);
    int (*look)(const char *dir, int *ret, struct co_err *err); /* on a sound file system */
    int old;     /* the number before; after a write it is one more, after another two more */
    bool writes; /* else it only reads: the number stays */
};

/* ---- in children ---- */

static const char *const disk_fault_names[DISK_FAULTS] = DISK_FAULT_NAMES;

static inline bool disk_is_cut(enum disk_fault f) {
    return f >= DISK_CUT_OLD;
}

struct disk_look {
    const struct disk_way *way;
    const char *dir;
};

static inline int disk_run_prepare(const void *arg, struct co_err *err) {
    const struct disk_look *l = arg;
    return l->way->prepare(l->dir, err);
}

static inline int disk_run_look(const void *arg, struct co_err *err) {
    const struct disk_look *l = arg;
    return l->way->look(l->dir, &disk_report->value, err);
}

struct disk_attempt {
    const struct disk_way *way;
    struct disk_trial trial;
};

static inline int disk_run_try(const void *arg, struct co_err *err) {
    const struct disk_attempt *a = arg;
    return a->way->try(&a->trial, err);
}

static inline void disk_shell(const char *command_own) {
    CO_AUTOFREE char *command = (char *)(uintptr_t)command_own;
    assert_int_equal(0, system(command));
}

/* ---- one case ---- */

/* What is wrong after the try; NULL: nothing. */
static inline const char *disk_judge(const struct disk_attempt *a, int code, int looked) {
    const struct disk_report r = *disk_report;
    int fresh = a->way->old + 1;
    if (code == 128 + SIGKILL) { /* the cut; the report says whether the call had returned */
        return looked != 0 ? "a restart fails"
               : r.value != a->way->old && r.value != fresh && r.value != fresh + 1
                   ? "a restart takes neither the old nor the new"
               : r.rc == 0 && r.value < fresh ? "it had succeeded, and a restart takes the old"
                                              : NULL;
    }
    if (code != 0) {
        return code == 128 + SIGALRM ? "it hangs" : "it fails without a fault, too";
    }
    if (!a->way->writes) {
        return r.value != a->way->old ? "other values than those on the disk" : NULL;
    }
    return looked != 0            ? "a restart fails"
           : r.value != fresh + 1 ? "a restart takes the old"
                                  : NULL;
}

static unsigned disk_tried, disk_wrongs;

/* Runs one case on a copy of the prepared directory. */
static inline unsigned disk_try_case(
    const struct disk_way *way, const char *from, struct disk_trial t) {
    static const char *const after[DISK_FAULTS] = {
        [DISK_CUT_OLD] = "o", [DISK_CUT_NEW] = "n", [DISK_CUT_GONE] = "g"};
    CO_AUTOFREE char *dir = co_xasprintf("%s.case", from);
    struct disk_attempt a = {way, t};
    struct disk_look look = {way, dir};
    a.trial.dir = dir;
    disk_shell(co_xasprintf("rm -rf '%s' && cp -a '%s' '%s'", dir, from, dir));
    *disk_report = (struct disk_report){.rc = 1, .again = 1, .value = -2};
    int code = disk_layer_child(disk_run_try, &a, DISK_HANGS_S);
    if (way->writes) {
        disk_report->value = -2;
    }
    int looked = way->writes ? disk_layer_child(disk_run_look, &look, DISK_HANGS_S) : 0;
    const char *wrong = disk_judge(&a, code, looked);
    disk_tried++;
    if (wrong) {
        disk_wrongs++;
        print_error(
            "DISK_CASE=%s/%s/%u%s%s: %s: it returned %d '%s', again %d, value %d, child %d\n",
            way->name, disk_fault_names[t.fault], t.n, t.all ? "+" : "",
            after[t.cut] ? after[t.cut] : "", wrong, disk_report->rc, disk_report->why,
            disk_report->again, disk_report->value, code);
    }
    return disk_report->calls;
}

/* ---- which cases ---- */

static inline unsigned disk_dice(unsigned sides) {
    disk_seed = disk_seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(disk_seed >> 33) % sides;
}

/* The n-th call fails, or it and all after it; then the power is cut, or not. */
static inline void disk_try_fault(const struct disk_way *way, const char *from, enum disk_fault f) {
    static const enum disk_fault then[] = {DISK_NONE, DISK_CUT_OLD, DISK_CUT_NEW, DISK_CUT_GONE};
    unsigned calls = disk_try_case(way, from, (struct disk_trial){.fault = f, .n = DISK_LAST});
    unsigned most = getenv("DISK_ALL")           ? calls
                    : getenv("PADDLE_SANITIZED") ? DISK_SAMPLE_SLOW
                                                 : DISK_SAMPLE;
    most = most < calls ? most : calls;
    for (unsigned i = 0; i < most; i++) {
        struct disk_trial t = {.fault = f, .n = most < calls ? disk_dice(calls) : i};
        for (size_t k = 0; k < CO_ARRAY_LEN(then); k++) {
            bool all = !disk_is_cut(f) && f != DISK_SHORT;
            if ((then[k] && (!way->writes || disk_is_cut(f))) ||
                (!getenv("DISK_ALL") && way->writes && disk_dice(4) > 0)) {
                continue;
            }
            t.cut = then[k];
            t.all = false;
            (void)disk_try_case(way, from, t);
            t.all = all && (i % 2 == 0);
            if (t.all) {
                (void)disk_try_case(way, from, t);
            }
        }
    }
}

/* Without a fault; and the power is cut once the call has returned. */
static inline void disk_try_without(const struct disk_way *way, const char *from) {
    (void)disk_try_case(way, from, (struct disk_trial){.fault = DISK_NONE});
    for (enum disk_fault cut = DISK_CUT_OLD; way->writes && cut < DISK_FAULTS; cut++) {
        (void)disk_try_case(way, from, (struct disk_trial){.fault = DISK_NONE, .cut = cut});
    }
}

/* DISK_CASE=way: only that one; =way/fault/n: that case, with "+": all calls from there on; with o,
 * n or g: then a cut. */
static inline bool disk_try_asked(const struct disk_way *way, const char *from) {
    const char *asked = getenv("DISK_CASE");
    char name[32], fault[32], more[8] = "";
    unsigned n;
    if (!asked) {
        return false;
    }
    int words = sscanf(asked, "%31[^/]/%31[^/]/%u%7s", name, fault, &n, more);
    if (words == 1) {
        return strcmp(name, way->name) != 0;
    }
    assert_true(words >= 3);
    for (int f = 0; f < DISK_FAULTS && strcmp(name, way->name) == 0; f++) {
        if (strcmp(fault, disk_fault_names[f]) == 0) {
            (void)disk_try_case(way, from,
                (struct disk_trial){.fault = (enum disk_fault)f,
                    .n = n,
                    .all = strchr(more, '+'),
                    .cut = strchr(more, 'o')   ? DISK_CUT_OLD
                           : strchr(more, 'n') ? DISK_CUT_NEW
                           : strchr(more, 'g') ? DISK_CUT_GONE
                                               : DISK_NONE});
        }
    }
    return true;
}

static inline void disk_way_try(const struct disk_way *way) {
    char base[] = "/tmp/disk_test_XXXXXX";
    disk_wrongs = 0;
    assert_non_null(mkdtemp(base));
    CO_AUTOFREE char *dir = co_xasprintf("%s/points", base);
    struct disk_look look = {way, dir};
    disk_shell(co_xasprintf("mkdir '%s'", dir));
    assert_int_equal(0, disk_layer_child(disk_run_prepare, &look, DISK_HANGS_S));
    if (!disk_try_asked(way, dir)) {
        for (int f = DISK_NONE; f < DISK_FAULTS; f++) {
            if (f == DISK_NONE) {
                disk_try_without(way, dir);
            } else if (way->writes || !disk_is_cut((enum disk_fault)f)) {
                disk_try_fault(way, dir, (enum disk_fault)f);
            }
        }
    }
    disk_shell(co_xasprintf("rm -rf '%s'", base));
    free(co_steal_ptr(dir)); /* before the test may end here */
    assert_int_equal(0, disk_wrongs);
}
