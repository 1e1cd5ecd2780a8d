/* Reads limits of memory and processors from the cgroup files of this process and all above
 * it. */
#include "common/limits.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

enum { LINE = 4096 };

/* The first line of a file; false: there is none. */
static bool read_line(const char *path, char text[LINE]) {
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(text, LINE, f);
    if (f) {
        (void)fclose(f);
    }
    return ok;
}

/* A number of the file's line; 0: none, as in "max" and "-1". */
static uint64_t read_number(const char *dir, const char *file) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, file);
    char text[LINE];
    uint64_t n = 0;
    return read_line(path, text) && text[0] != '-' && sscanf(text, "%" SCNu64, &n) == 1 ? n : 0;
}

static uint64_t memory_v2(const char *dir) {
    return read_number(dir, "memory.max");
}

static uint64_t memory_v1(const char *dir) {
    return read_number(dir, "memory.limit_in_bytes");
}

static uint64_t count_cpus(uint64_t quota, uint64_t period) {
    return quota > 0 && period > 0 ? (quota - 1) / period + 1 : 0;
}

static uint64_t cpus_v2(const char *dir) {
    CO_AUTOFREE char *path = co_xasprintf("%s/cpu.max", dir);
    char text[LINE];
    uint64_t quota = 0, period = 0;
    bool ok = read_line(path, text) && sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2;
    return ok ? count_cpus(quota, period) : 0;
}

static uint64_t cpus_v1(const char *dir) {
    return count_cpus(read_number(dir, "cpu.cfs_quota_us"), read_number(dir, "cpu.cfs_period_us"));
}

/* One row a controller and version; read gives 0 when the directory sets no limit. */
struct controller {
    const char *name; /* in /proc/self/cgroup; "": version 2 */
    const char *mount;
    uint64_t (*read)(const char *dir);
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
static uint64_t least(const char *root, const struct controller *k, char *path, uint64_t best) {
    for (;;) {
        CO_AUTOFREE char *dir = co_xasprintf("%s%s%s", root, k->mount, path);
        uint64_t n = k->read(dir);
        best = n > 0 && n < best ? n : best;
        char *up = strrchr(path, '/');
        if (!up) {
            return best;
        }
        *up = '\0';
    }
}

static uint64_t find_limit(const char *root, const struct controller *k, uint64_t best) {
    CO_AUTOFREE char *name = co_xasprintf("%s/proc/self/cgroup", root);
    char line[LINE];
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof(line), f)) {
        char *path = match_line(line, k->name);
        best = path ? least(root, k, path, best) : best;
    }
    if (f) {
        (void)fclose(f);
    }
    return best;
}

uint64_t co_limit_memory(const char *root) {
    uint64_t n = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < CO_ARRAY_LEN(memory); i++) {
        n = find_limit(root, &memory[i], n);
    }
    return n;
}

uint32_t co_limit_cpus(const char *root) {
    cpu_set_t may;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = sched_getaffinity(0, sizeof(may), &may) == 0 ? (uint64_t)CPU_COUNT(&may)
                 : online > 0                                 ? (uint64_t)online
                                                              : 1;
    for (size_t i = 0; i < CO_ARRAY_LEN(cpus); i++) {
        n = find_limit(root, &cpus[i], n);
    }
    return (uint32_t)n;
}
