/* Reads limits of memory and processors from the cgroup files of this process and all above
 * it. */
#include "common/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

enum { LINE = 4096 };

/* The first that is said stays. */
static void say_unread(struct co_err *unread, const char *path, const char *why) {
    if (unread && !unread->code) {
        (void)!co_err_set(unread, CO_UNAVAILABLE, "%s: %s", path, why);
    }
}

static bool is_absent(int error) {
    return error == ENOENT || error == ENOTDIR;
}

/* The first line of a file; false: there is none. */
static bool read_line(const char *path, char text[LINE], struct co_err *unread) {
    errno = 0;
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(text, LINE, f);
    if (!ok && (f || !is_absent(errno))) {
        say_unread(unread, path, errno ? strerror(errno) : "it is empty");
    }
    if (f) {
        (void)fclose(f);
    }
    return ok;
}

/* The numbers of the file's line, as many as are wanted; false: there is no limit, as "max" and
 * "-1" say. */
static bool read_numbers(
    const char *dir, const char *file, int n, uint64_t ret[2], struct co_err *unread) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, file);
    char text[LINE];
    if (!read_line(path, text, unread) || text[0] == '-' || strncmp(text, "max", 3) == 0) {
        return false;
    }
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &ret[0], &ret[1]) < n) {
        text[strcspn(text, "\n")] = '\0';
        CO_AUTOFREE char *why =
            co_xasprintf("\"%.40s\", expected %s or max", text, n > 1 ? "two numbers" : "a number");
        say_unread(unread, path, why);
        return false;
    }
    return true;
}

static uint64_t memory_v2(const char *dir, struct co_err *unread) {
    uint64_t n[2];
    return read_numbers(dir, "memory.max", 1, n, unread) ? n[0] : 0;
}

static uint64_t memory_v1(const char *dir, struct co_err *unread) {
    uint64_t n[2];
    return read_numbers(dir, "memory.limit_in_bytes", 1, n, unread) ? n[0] : 0;
}

static uint64_t count_cpus(uint64_t quota, uint64_t period) {
    return quota > 0 && period > 0 ? (quota - 1) / period + 1 : 0;
}

static uint64_t cpus_v2(const char *dir, struct co_err *unread) {
    uint64_t n[2];
    return read_numbers(dir, "cpu.max", 2, n, unread) ? count_cpus(n[0], n[1]) : 0;
}

static uint64_t cpus_v1(const char *dir, struct co_err *unread) {
    uint64_t quota[2], period[2];
    return read_numbers(dir, "cpu.cfs_quota_us", 1, quota, unread) &&
                   read_numbers(dir, "cpu.cfs_period_us", 1, period, unread)
               ? count_cpus(quota[0], period[0])
               : 0;
}

/* One row a controller and version; read gives 0 when the directory sets no limit. */
struct controller {
    const char *name; /* in /proc/self/cgroup; "": version 2 */
    const char *mount;
    uint64_t (*read)(const char *dir, struct co_err *unread);
};

static const struct controller memory[] = {
    {"", "/sys/fs/cgroup", memory_v2}, {"memory", "/sys/fs/cgroup/memory", memory_v1}};
static const struct controller cpus[] = {
    {"", "/sys/fs/cgroup", cpus_v2}, {"cpu", "/sys/fs/cgroup/cpu", cpus_v1}};

/* In "4:cpu,cpuacct:/path" the path, when the controller is named; else NULL. */
static char *match_line(char *line, const char *name) {
    line[strcspn(line, "\n")] = '\0';
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) {
        return NULL;
    }
    *path = '\0';
    if (!*name) {
        return list[1] ? NULL : path + 1;
    }
    char *save = NULL;
    for (char *word = strtok_r(list + 1, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        if (strcmp(word, name) == 0) {
            return path + 1;
        }
    }
    return NULL;
}

/* In a container the path may be the host's: directories that are not there say nothing, and the
 * mount itself is the container's. */
static uint64_t least(const char *root, const struct controller *k, char *path, uint64_t best,
    struct co_err *unread) {
    for (;;) {
        CO_AUTOFREE char *dir = co_xasprintf("%s%s%s", root, k->mount, path);
        uint64_t n = k->read(dir, unread);
        best = n > 0 && n < best ? n : best;
        char *up = strrchr(path, '/');
        if (!up) {
            return best;
        }
        *up = '\0';
    }
}

static uint64_t find_limit(
    const char *root, const struct controller *k, uint64_t best, struct co_err *unread) {
    CO_AUTOFREE char *name = co_xasprintf("%s/proc/self/cgroup", root);
    char line[LINE];
    FILE *f = fopen(name, "re");
    if (!f && !is_absent(errno)) {
        say_unread(unread, name, strerror(errno));
    }
    while (f && fgets(line, sizeof(line), f)) {
        char *path = match_line(line, k->name);
        best = path ? least(root, k, path, best, unread) : best;
    }
    if (f) {
        (void)fclose(f);
    }
    return best;
}

uint64_t co_limit_memory(const char *root, struct co_err *ret_unread) {
    uint64_t n = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < CO_ARRAY_LEN(memory); i++) {
        n = find_limit(root, &memory[i], n, ret_unread);
    }
    return n;
}

uint32_t co_limit_cpus(const char *root, struct co_err *ret_unread) {
    cpu_set_t may;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = sched_getaffinity(0, sizeof(may), &may) == 0 ? (uint64_t)CPU_COUNT(&may)
                 : online > 0                                 ? (uint64_t)online
                                                              : 1;
    for (size_t i = 0; i < CO_ARRAY_LEN(cpus); i++) {
        n = find_limit(root, &cpus[i], n, ret_unread);
    }
    return (uint32_t)n;
}
