/* Creates and maps the memory that a machine's ranks share, and waits for flags in it. */
#include "runtime/train/coll/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/limits.h"
#include "runtime/train/coll/coll.h"

enum {
    PAGE = 4096,
    HUGE_PAGE = 2 << 20,
    SPINS = 10000,         /* some 100 us: longer than most waits if each rank has a core */
    SPINS_FEW = 30,        /* with more ranks than cores: the other rank may need this core */
    YIELDS = 400,          /* sched_yields, each after SPINS_FEW; then this rank sleeps */
    YIELD_NS = 500 * 1000, /* a yield that took longer than this did not pay */
    SLEEP_NS = 500 * 1000, /* the first sleep; later ones add a sixteenth of the wait so far */
    SLEEP_MAX_NS = 5 * 1000 * 1000, /* a sleeping rank does not notice that the group failed */
    ADDRESSES_SHARE = 4, /* arenas take so much, 1 / 4, of the addresses that a process may have */
};

/* Of all arenas of a group.  A process has 128 TiB of addresses on x86-64, for all its groups. */
static const uint64_t ARENAS_MAX = (uint64_t)1 << 40;

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

/* Are there more ranks than cores?  Ranks in several containers count as if all shared this one's
 * CPU quota.  They yield too early then, which costs less than a quota spent on spinning.  Ranks of
 * other groups do not count, as nothing is known of them. */
static bool crowded(uint32_t n) {
    return n > co_limit_cpus("", NULL);
}

/* rc: what getrlimit returned with l. */
static uint64_t limit_of(int rc, const struct rlimit *l) {
    return rc < 0 || l->rlim_cur == RLIM_INFINITY ? UINT64_MAX : l->rlim_cur;
}

/* An arena is addresses until it is used, and part of a file: both may be limited.  head: bytes of
 * the file before the arenas. */
static uint64_t arenas_most(size_t head) {
    struct rlimit size, room;
    uint64_t file = limit_of(getrlimit(RLIMIT_FSIZE, &size), &size);
    uint64_t addresses = limit_of(getrlimit(RLIMIT_AS, &room), &room) / ADDRESSES_SHARE;
    file = file > head ? file - head : 0;
    return file < addresses ? file : addresses;
}

size_t coll_shm_arena_bytes(uint64_t memory, uint64_t limit, uint32_t n) {
    uint64_t most = (limit < ARENAS_MAX ? limit : ARENAS_MAX) / n;
    return (memory < most ? memory : most) / HUGE_PAGE * HUGE_PAGE;
}

void coll_shm_plan(struct coll_shm *s, uint32_t n, uint32_t me) {
    /* At any time n * n slices are in use; 16 MiB of them stay in a last-level cache. */
    size_t slice = ((size_t)16 << 20) / n / n / PAGE * PAGE;
    slice = slice > COLL_SHM_SLICE_MAX ? COLL_SHM_SLICE_MAX : slice;
    s->slice = slice < COLL_SHM_SLICE_MIN ? COLL_SHM_SLICE_MIN : slice;
    s->n = n;
    s->me = me;
    s->spins = crowded(n) ? SPINS_FEW : SPINS;
    s->yields = crowded(n) ? YIELDS : 0;
    s->idle = true;
    s->stride = round_up(sizeof(struct coll_shm_rank) + (n + 1) * s->slice, PAGE) + PAGE;
    s->pipes = PAGE + n * s->stride;
    s->arenas = round_up(s->pipes + (size_t)n * n * sizeof(struct coll_shm_pipe), HUGE_PAGE);
    s->arena =
        coll_shm_arena_bytes((uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE, arenas_most(s->arenas), n);
    s->bytes = s->arenas + n * s->arena;
}

int coll_shm_create(const struct coll_shm *s, int *ret_fd, struct co_err *err) {
    struct rlimit size;
    uint64_t limit = limit_of(getrlimit(RLIMIT_FSIZE, &size), &size);
    if (s->bytes > limit) { /* ftruncate would end this process by SIGXFSZ */
        return co_err_set(err, CO_NORESOURCE,
            "shared memory of %zu bytes: files of this process may have %llu (ulimit -f); "
            "transport tcp needs none",
            s->bytes, (unsigned long long)limit);
    }
    int fd = memfd_create("paddle-collective", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)s->bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int e = errno;
        if (fd >= 0) {
            co_close(fd);
        }
        return co_err_errno(err, e, "shared memory of %zu bytes", s->bytes);
    }
    *ret_fd = fd;
    return 0;
}

/* The memory must be sealed against shrinking: if another process cut it off, this one would die of
 * SIGBUS. */
int coll_shm_map(struct coll_shm *s, int fd, struct co_err *err) {
    off_t size = lseek(fd, 0, SEEK_END);
    int seals = fcntl(fd, F_GET_SEALS);
    uint64_t arenas = size < (off_t)s->arenas ? UINT64_MAX : (uint64_t)size - s->arenas;
    if (arenas > ARENAS_MAX || arenas % ((uint64_t)s->n * HUGE_PAGE) != 0 || seals < 0 ||
        !(seals & F_SEAL_SHRINK)) {
        return co_err_set(err, CO_INVALID,
            "the shared memory has %lld bytes and seals %d, expected %zu and no shrinking",
            (long long)size, seals, s->bytes);
    }
    s->arena = arenas / s->n; /* as the first rank's limits are */
    s->bytes = (size_t)size;
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) {
        return co_err_errno(err, errno, "map %zu bytes of shared memory", s->bytes);
    }
    s->base = p;
    s->sleepers = (_Atomic uint32_t *)s->base;
    (void)madvise(s->base + s->arenas, s->n * s->arena, MADV_HUGEPAGE);
    (void)madvise(s->base + s->arenas, s->n * s->arena, MADV_DONTDUMP);
    (void)madvise(coll_shm_of(s, s->me), s->stride, MADV_POPULATE_WRITE);
    return 0;
}

void coll_shm_unmap(struct coll_shm *s) {
    if (s->base) {
        (void)munmap(s->base, s->bytes);
        s->base = NULL;
    }
}

/* ---- waiting ---- */

void coll_flag_wake(_Atomic uint32_t *flag) {
    (void)syscall(SYS_futex, flag, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Sleeps until the word is no longer `seen`, but only for a short time, as coll_flag_raise may miss
 * a rank that is going to sleep.  The time grows with the wait so far: the delay counts less then,
 * and each wake-up takes a moment of a core on which others compute. */
static void word_sleep(_Atomic uint32_t *word, uint32_t seen, int64_t waited_ms) {
    int64_t ns = SLEEP_NS + waited_ms * (1000 * 1000 / 16);
    struct timespec t = {.tv_nsec = ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

static void flag_sleep(
    const struct coll_shm *s, _Atomic uint32_t *flag, uint32_t value, int64_t waited_ms) {
    atomic_fetch_add(s->sleepers, 1);
    uint32_t seen = atomic_load(flag);
    if ((int32_t)(seen - value) < 0) {
        word_sleep(flag, seen, waited_ms);
    }
    atomic_fetch_sub(s->sleepers, 1);
}

void coll_bell_ring_slow(const struct coll_shm *s, uint32_t local) {
    _Atomic uint32_t *bell = &coll_shm_of(s, local)->bell;
    atomic_fetch_add(bell, 1);
    coll_flag_wake(bell);
}

uint32_t coll_bell_begin(const struct coll_shm *s) {
    atomic_fetch_add(s->sleepers, 1);
    return atomic_load(&coll_shm_of(s, s->me)->bell);
}

void coll_bell_end(const struct coll_shm *s, uint32_t seen, bool ready, int64_t waited_ms) {
    if (!ready) {
        word_sleep(&coll_shm_of(s, s->me)->bell, seen, waited_ms);
    }
    atomic_fetch_sub(s->sleepers, 1);
}

/* ---- yielding ---- */

bool coll_yields_pay(struct coll_yields *y, int64_t now_ms) {
    if (y->slept == 0) {
        return true;
    }
    if (y->slept < COLL_YIELD_AGAIN_WAITS || now_ms < y->after_ms) {
        y->slept += y->slept < COLL_YIELD_AGAIN_WAITS;
        return false;
    }
    y->slept = 0;
    return true;
}

void coll_yields_took(struct coll_yields *y, int64_t took_ns, int64_t now_ms) {
    if (took_ns >= YIELD_NS) {
        *y = (struct coll_yields){.slept = 1, .after_ms = now_ms + COLL_YIELD_AGAIN_MS};
    }
}

bool coll_yield(struct coll_yields *y) {
    int64_t begin = co_now_ns();
    if (!coll_yields_pay(y, begin / 1000000)) {
        return false;
    }
    (void)sched_yield();
    int64_t end = co_now_ns();
    coll_yields_took(y, end - begin, end / 1000000);
    return true;
}

/* Linux tends to wake a process on the core of the process that wakes it.  Two ranks that wait for
 * each other may so end up taking turns on one core while others are idle.  The one with the
 * higher index moves: it forbids itself this core for a moment. */
static void spread(const struct coll_shm *s, uint32_t local) {
    int core = sched_getcpu();
    cpu_set_t may, others;
    atomic_store_explicit(
        &coll_shm_of(s, s->me)->phase.core, (uint32_t)core + 1, memory_order_relaxed);
    uint32_t there = atomic_load_explicit(&coll_shm_of(s, local)->phase.core, memory_order_relaxed);
    if (s->yields > 0 || local >= s->me || core < 0 || there != (uint32_t)core + 1 ||
        sched_getaffinity(0, sizeof(may), &may) < 0) {
        return;
    }
    others = may;
    CPU_CLR((size_t)core, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0) {
        (void)sched_setaffinity(0, sizeof(may), &may);
    }
}

int coll_flag_wait_long(
    struct rt_group *g, _Atomic uint32_t *flag, uint32_t value, uint32_t local) {
    int64_t begun_ms = co_now_ms();
    for (uint32_t i = 0;; i++) {
        if (coll_flag_is(flag, value)) {
            return 0;
        }
        CO_TRY(coll_patience_check(g, &g->patience, g->locals[local], co_now_ms()));
        spread(&g->shm, local);
        if (i >= g->shm.yields || !coll_yield(&g->shm.giving)) {
            flag_sleep(&g->shm, flag, value, co_now_ms() - begun_ms);
        }
        for (uint32_t k = 0; k < SPINS_FEW && !coll_flag_is(flag, value); k++) {
            coll_relax();
        }
    }
}
