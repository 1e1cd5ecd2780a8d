/* The owner of a directory of checkpoints. */
#include "runtime/train/ckpt/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/interrupt.h"
#include "common/loop.h"
#include "common/thread.h"
#include "runtime/train/ckpt/disk.h"

enum { OWNER_MAX = 4096, LOOK_MS = 200, DROP_MS = 2000, ZOMBIE = -1 };

void (*_Atomic ckpt_claim_looks)(void);

static const char name[] = "OWNER";

/* What the file says; texts are cut to fit. */
struct claim_owner {
    char job[256], endpoint[300], host[256];
    char machine[160]; /* its boot and its processes' namespace: where pid means something */
    char socket[500];  /* boot, network namespace, and what it listens on: one process has it */
    char life[20];     /* of the claim: no two are alike */
    int64_t pid, started, since;
};

struct ckpt_claim {
    pthread_mutex_t m; /* guards what follows, but for what never changes: dir and own */
    pthread_cond_t changed;
    bool dropped, done;
    int users; /* the caller and the thread: the last one frees it */
    char *dir;
    struct claim_owner own;
};

/* ---- the file's text ---- */

/* A line "key value" each, in this order. */
#define TEXTS(X) X(job) X(endpoint) X(host) X(machine) X(socket) X(life)

static void print_owner(const struct claim_owner *o, struct co_buf *to) {
#define X(key) (void)!co_buf_addf(to, NULL, #key " %s\n", o->key);
    TEXTS(X)
#undef X
    (void)!co_buf_addf(to, NULL, "process %" PRId64 " %" PRId64 "\nsince %" PRId64 "\n", o->pid,
        o->started, o->since);
}

static void take_text(const char *line, size_t len, const char *key, char *to, size_t room) {
    size_t k = strlen(key);
    if (len > k && strncmp(line, key, k) == 0 && line[k] == ' ') {
        (void)snprintf(to, room, "%.*s", (int)(len - k - 1), line + k + 1);
    }
}

/* What cannot be read stays empty: then the owner has no name, but its file still has a time. */
static struct claim_owner parse_owner(const char *text) {
    struct claim_owner o = {0};
    while (*text) {
        size_t len = strcspn(text, "\n");
#define X(key) take_text(text, len, #key, o.key, sizeof(o.key));
        TEXTS(X)
#undef X
        (void)sscanf(text, "process %" SCNd64 " %" SCNd64, &o.pid, &o.started);
        (void)sscanf(text, "since %" SCNd64, &o.since);
        text += len + (text[len] == '\n');
    }
    return o;
}

/* ---- this process ---- */

static void read_line(const char *path, char *to, size_t room) {
    FILE *f = fopen(path, "re");
    if (!f || !fgets(to, (int)room, f)) {
        *to = '\0';
    }
    if (f) {
        (void)fclose(f);
    }
    to[strcspn(to, "\n")] = '\0';
}

/* When a process began, in ticks since its machine did; 0: not seen, ZOMBIE: it has ended. */
static int64_t process_start(int64_t pid) {
    char path[64], line[1024];
    long long start = 0;
    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    read_line(path, line, sizeof(line));
    char state = '?';
    const char *at = strrchr(line, ')'); /* a program's name may have blanks */
    (void)!(at && sscanf(at,
                      ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                      "%*d %lld",
                      &state, &start));
    return state == 'Z' ? ZOMBIE : start;
}

/* A name may have anything; a line of the file, and of a message, has no control characters. */
static void make_plain(char *text) {
    for (; *text; text++) {
        *text = (char)((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
    }
}

static struct claim_owner make_owner(const struct ckpt_claim_who *who) {
    struct claim_owner o = {
        .pid = getpid(), .started = process_start(getpid()), .since = time(NULL)};
    uint64_t life = 0;
    char boot[64], space[64] = "", network[64] = "";
    (void)snprintf(o.job, sizeof(o.job), "%s", who->job);
    (void)snprintf(o.endpoint, sizeof(o.endpoint), "%s", who->endpoint);
    make_plain(o.job);
    make_plain(o.endpoint);
    (void)gethostname(o.host, sizeof(o.host) - 1);
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    (void)!readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
    (void)snprintf(o.machine, sizeof(o.machine), "%s/%s", boot, space);
    if (who->listens && *who->listens && *boot &&
        readlink("/proc/self/ns/net", network, sizeof(network) - 1) > 0) {
        (void)snprintf(o.socket, sizeof(o.socket), "%s/%s/%s", boot, network, who->listens);
    }
    (void)!getrandom(&life, sizeof(life), 0);
    (void)snprintf(o.life, sizeof(o.life), "%016" PRIx64, life);
    return o;
}

/* ---- who has it ---- */

static int64_t wall_of(const struct stat *st) {
    return st->st_mtim.tv_sec * INT64_C(1000) + st->st_mtim.tv_nsec / 1000000;
}

/* CO_NOTFOUND: nobody.  Opening it makes network file systems ask their server. */
static int read_owner(
    const char *dir, struct claim_owner *ret, struct stat *ret_st, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOBUF struct co_buf text = CO_BUF(OWNER_MAX);
    void (*looks)(void) = ckpt_claim_looks;
    if (looks) {
        looks();
    }
    CO_AUTOCLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO never waits */
    if (fd < 0 && ckpt_disk_is_missing(errno, path)) {
        return CO_NOTFOUND;
    }
    if (fd < 0 || fstat(fd, ret_st) < 0) {
        return ckpt_disk_unread(err, errno, path);
    }
    int rc = S_ISREG(ret_st->st_mode) ? co_fd_read(fd, path, OWNER_MAX, &text, NULL) : CO_INVALID;
    *ret = parse_owner(rc == 0 && text.data ? text.data : "");
    return 0;
}

static int in_use(
    const char *dir, const struct claim_owner *o, const char *how, struct co_err *err) {
    char since[40] = "?";
    time_t t = (time_t)o->since;
    struct tm tm;
    if (t > 0 && gmtime_r(&t, &tm)) {
        (void)strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S UTC", &tm);
    }
    CO_AUTOFREE char *job =
        *o->job ? co_xasprintf("job \"%s\"", o->job) : co_xstrdup("another job");
    return co_err_set(err, CO_EXISTS,
        "\"%s\" is where %s writes its checkpoints (server %s on host %s, process %" PRId64
        ", since %s, %s): two jobs would remove each other's; name another directory, or end that "
        "job first",
        dir, job, *o->endpoint ? o->endpoint : "?", *o->host ? o->host : "?", o->pid, since, how);
}

enum life { DEAD, ALIVE, UNKNOWN };

static bool same_server(const struct claim_owner *a, const struct claim_owner *b) {
    return strcmp(a->job, b->job) == 0 && strcmp(a->endpoint, b->endpoint) == 0;
}

static enum life life_of(const struct claim_owner *o, const struct claim_owner *own) {
    if (*o->machine && strcmp(o->machine, own->machine) == 0) {
        int64_t start = process_start(o->pid);
        bool hidden = start == 0 && (kill((pid_t)o->pid, 0) == 0 || errno == EPERM);
        return hidden ? UNKNOWN : start > 0 && start == o->started ? ALIVE : DEAD;
    }
    return *o->socket && strcmp(o->socket, own->socket) == 0 ? DEAD : UNKNOWN;
}

static bool is_same_owner(const struct claim_owner *o, const struct claim_owner *own) {
    return strcmp(o->machine, own->machine) == 0 && o->pid == own->pid &&
           o->started == own->started && same_server(o, own);
}

/* The file system's own time. */
static int now_of(
    const char *dir, const struct claim_owner *own, int64_t *ret, struct co_err *err) {
    CO_AUTOFREE char *aside = co_xasprintf("%s.%s", name, own->life);
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, aside);
    CO_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat st = {0};
    if (fd < 0 || fstat(fd, &st) < 0) {
        return co_err_errno(err, errno, "cannot make \"%s\"", path);
    }
    *ret = wall_of(&st);
    return ckpt_disk_remove(dir, aside, err);
}

/* Whether the owner lives is seen by its file's time.  0: it has stood still. */
static int watch_owner(const struct ckpt_claim *c, const struct ckpt_claim_who *who,
    const struct claim_owner *o, const struct stat *was, struct co_err *err) {
    const char *dir = c->dir;
    int64_t now = 0, seen_ms = who->seen_ms ? who->seen_ms : CKPT_CLAIM_SEEN_MS;
    CO_TRY(now_of(dir, &c->own, &now, err));
    int64_t age = now - wall_of(was);
    int64_t most = age < 0 ? seen_ms : seen_ms - age, ask_ms = co_interrupt_next();
    for (int64_t end = co_now_ms() + most; co_now_ms() < end;) {
        struct claim_owner is = {0};
        struct stat st = {0};
        if (who->stop && atomic_load(who->stop)) {
            return co_err_set(err, CO_CANCELED, "the server ends");
        }
        int64_t look_ms = LOOK_MS < most ? LOOK_MS : most;
        (void)co_interrupt_poll(NULL, 0, co_now_ms() + look_ms, &ask_ms);
        if (co_interrupted(&ask_ms)) {
            return co_interrupt_error(dir, err);
        }
        int got = read_owner(dir, &is, &st, err);
        if (got == CO_NOTFOUND) {
            return 0;
        }
        CO_TRY(got);
        if (wall_of(&st) != wall_of(was) || strcmp(is.life, o->life) != 0) {
            return in_use(dir, &is, "seen just now", err);
        }
    }
    return 0;
}

/* ---- taking it ---- */

/* 1: somebody was faster. */
static int write_owner(const struct ckpt_claim *c, bool replaces, struct co_err *err) {
    CO_AUTOFREE char *aside = co_xasprintf("%s.%s", name, c->own.life);
    CO_AUTOFREE char *from = co_xasprintf("%s/%s", c->dir, aside);
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", c->dir, name);
    CO_AUTOBUF struct co_buf text = CO_BUF(OWNER_MAX);
    print_owner(&c->own, &text);
    CO_AUTOCLOSE int fd =
        open(replaces ? from : path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return !replaces && errno == EEXIST ? 1
                                            : co_err_errno(err, errno, "cannot make \"%s\"", path);
    }
    if (write(fd, text.data, text.len) != (ssize_t)text.len ||
        (replaces && rename(from, path) < 0)) {
        int rc = co_err_errno(err, errno, "cannot write \"%s\"", path);
        (void)unlink(replaces ? from : path);
        return rc;
    }
    return 0;
}

static int take(struct ckpt_claim *c, const struct ckpt_claim_who *who, struct co_err *err) {
    CO_TRY(ckpt_disk_mkdir(c->dir, err));
    for (int tries = 0; tries < 3; tries++) {
        struct claim_owner o = {0};
        struct stat st = {0};
        struct co_err why = {0};
        int rc = read_owner(c->dir, &o, &st, &why);
        if (rc == CO_NOTFOUND) {
            rc = write_owner(c, false, err);
            if (rc <= 0) {
                return rc;
            }
            continue;
        }
        if (rc < 0) {
            return co_err_set(err, rc, "%s", why.msg);
        }
        if (is_same_owner(&o, &c->own)) { /* of this process, by another path */
            memcpy(c->own.life, o.life, sizeof(o.life));
            return 0;
        }
        enum life life = life_of(&o, &c->own);
        if (life == ALIVE) {
            return in_use(c->dir, &o, "and running", err);
        }
        if (life == UNKNOWN) {
            CO_TRY(watch_owner(c, who, &o, &st, err));
        }
        return write_owner(c, true, err);
    }
    return co_err_set(err, CO_EXISTS,
        "other jobs take and leave \"%s\" all the time: name another directory", c->dir);
}

/* ---- keeping it ---- */

static void unref(struct ckpt_claim *c) { /* the lock is held, and released */
    bool last = --c->users == 0;
    pthread_mutex_unlock(&c->m);
    if (last) {
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->m);
        free(c->dir);
        free(c);
    }
}

static bool is_ours(const struct ckpt_claim *c) {
    struct claim_owner o = {0};
    struct stat st = {0};
    return read_owner(c->dir, &o, &st, NULL) == 0 && strcmp(o.life, c->own.life) == 0;
}

/* A thread of its own: file systems may hang, and nobody waits for it then. */
static void *keep(void *arg) {
    struct ckpt_claim *c = arg;
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", c->dir, name);
    pthread_mutex_lock(&c->m);
    while (!c->dropped) {
        int64_t end = co_now_ms() + CKPT_CLAIM_RENEW_MS;
        if (!co_cond_wait_until(&c->changed, &c->m, end) && !c->dropped) {
            pthread_mutex_unlock(&c->m);
            if (is_ours(c)) {
                (void)utimensat(AT_FDCWD, path, NULL, 0);
            }
            pthread_mutex_lock(&c->m);
        }
    }
    pthread_mutex_unlock(&c->m);
    if (is_ours(c)) {
        (void)unlink(path);
    }
    pthread_mutex_lock(&c->m);
    c->done = true;
    pthread_cond_broadcast(&c->changed);
    unref(c);
    return NULL;
}

static int start(struct ckpt_claim *c, struct co_err *err) {
    pthread_t thread;
    c->users = 2;
    int e = co_thread_start(&thread, keep, c);
    if (e) {
        c->users = 1;
        return co_err_errno(err, e, "cannot start a thread");
    }
    pthread_detach(thread);
    return 0;
}

int ckpt_claim_take(const char *dir, const struct ckpt_claim_who *who, struct ckpt_claim **ret,
    struct co_err *err) {
    struct ckpt_claim *c = co_xcalloc(1, sizeof(*c));
    pthread_mutex_init(&c->m, NULL);
    co_cond_init(&c->changed);
    c->dir = co_xstrdup(dir);
    for (size_t len = strlen(dir); len > 1 && dir[len - 1] == '/';) {
        c->dir[--len] = '\0';
    }
    c->own = make_owner(who);
    c->users = 1;
    int rc = take(c, who, err);
    if (rc == 0) {
        rc = start(c, err);
        if (rc < 0) {
            (void)!ckpt_disk_remove(dir, name, NULL);
        }
    }
    if (rc < 0) {
        pthread_mutex_lock(&c->m);
        unref(c);
        return rc;
    }
    *ret = c;
    return 0;
}

const char *ckpt_claim_dir(const struct ckpt_claim *c) {
    return c->dir;
}

int ckpt_claim_check(struct ckpt_claim *c, struct co_err *err) {
    struct claim_owner o = {0};
    struct stat st = {0};
    struct co_err why = {0};
    int rc = read_owner(c->dir, &o, &st, &why);
    if (rc == CO_NOTFOUND) {
        rc = write_owner(c, false, &why);
        rc = rc == 1 ? read_owner(c->dir, &o, &st, &why) : rc == 0 ? 1 : rc;
    }
    if (rc != 0) { /* 1: ours again */
        return rc < 0 ? co_err_set(err, rc, "%s", why.msg) : 0;
    }
    return strcmp(o.life, c->own.life) == 0 ? 0 : in_use(c->dir, &o, "taken from this job", err);
}

void ckpt_claim_drop(struct ckpt_claim *c) {
    if (!c) {
        return;
    }
    int64_t end = co_now_ms() + DROP_MS;
    pthread_mutex_lock(&c->m);
    c->dropped = true;
    pthread_cond_broadcast(&c->changed);
    while (!c->done && co_cond_wait_until(&c->changed, &c->m, end)) {
    }
    unref(c);
}
