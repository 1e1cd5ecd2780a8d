/* Files and directories by inode.  An inode that is removed may be given to another file, which is
 * another node then.
 *
 *     node of a directory --> names --> nodes          as of its last sync
 *     node of a file      --> bytes, or none           likewise
 */
#include "tests/disk/shadow.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct node;

struct name {
    char text[NAME_MAX + 1];
    struct node *node;
    bool removed; /* since the sync */
};

struct node {
    struct node *next;
    ino_t ino;
    bool live; /* the inode still is this node's */
    bool dir;
    char *data; /* NULL: never synced */
    size_t len;
    struct name *names; /* [n] */
    size_t n;
};

static struct node *nodes;

static void *need(void *p) {
    if (!p) {
        abort();
    }
    return p;
}

static struct node *node_of(const struct stat *st) {
    for (struct node *k = nodes; k; k = k->next) {
        if (k->live && k->ino == st->st_ino) {
            return k;
        }
    }
    struct node *k = need(calloc(1, sizeof(*k)));
    *k = (struct node){.next = nodes, .ino = st->st_ino, .live = true, .dir = S_ISDIR(st->st_mode)};
    nodes = k;
    return k;
}

static void join(char to[PATH_MAX], const char *dir, const char *name) {
    if (snprintf(to, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX) {
        abort();
    }
}

/* ---- what is synced ---- */

static void note_file(struct node *k, const char *path, size_t len) {
    FILE *f = need(fopen(path, "re"));
    free(k->data);
    k->data = need(malloc(len + 1));
    k->len = fread(k->data, 1, len, f);
    (void)fclose(f);
}

static void note_dir(struct node *k, const char *path) {
    DIR *d = need(opendir(path));
    k->n = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        k->names = need(realloc(k->names, (k->n + 1) * sizeof(*k->names)));
        struct name *to = &k->names[k->n++];
        *to = (struct name){.node = node_of(&st)};
        (void)snprintf(to->text, sizeof(to->text), "%s", e->d_name);
    }
    (void)closedir(d);
}

static void note(const char *path, const struct stat *st) {
    struct node *k = node_of(st);
    if (k->dir) {
        note_dir(k, path);
    } else {
        note_file(k, path, (size_t)st->st_size);
    }
}

static void note_all(const char *path) {
    struct stat st;
    if (lstat(path, &st) < 0) {
        abort();
    }
    note(path, &st);
    const struct node *k = node_of(&st);
    for (size_t i = 0; k->dir && i < k->n; i++) {
        char sub[PATH_MAX];
        join(sub, path, k->names[i].text);
        note_all(sub);
    }
}

void shadow_begin(const char *root) {
    note_all(root);
}

void shadow_synced(int fd) {
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) < 0) {
        abort();
    }
    note(path, &st);
}

void shadow_replaces(const char *path) {
    struct stat st;
    if (lstat(path, &st) == 0) {
        node_of(&st)->live = st.st_nlink > 1 && !S_ISDIR(st.st_mode);
    }
}

void shadow_removes(const char *path) {
    char parent[PATH_MAX];
    struct stat up;
    (void)snprintf(parent, sizeof(parent), "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash) {
        return;
    }
    *slash = '\0';
    struct node *dir = lstat(parent, &up) == 0 ? node_of(&up) : NULL;
    for (size_t i = 0; dir && i < dir->n; i++) {
        if (strcmp(dir->names[i].text, slash + 1) == 0) {
            dir->names[i].removed = true;
        }
    }
    shadow_replaces(path);
}

/* ---- after the cut ---- */

static void write_file(const struct node *k, const char *path) {
    FILE *f = need(fopen(path, "we"));
    if (k->data && fwrite(k->data, 1, k->len, f) != k->len) {
        abort();
    }
    (void)fclose(f);
}

static void write_dir(const struct node *k, const char *path, bool removed) {
    for (size_t i = 0; i < k->n; i++) {
        char sub[PATH_MAX];
        join(sub, path, k->names[i].text);
        if (removed && k->names[i].removed) {
            continue;
        }
        if (k->names[i].node->dir) {
            (void)mkdir(sub, 0777);
            write_dir(k->names[i].node, sub, removed);
        } else {
            write_file(k->names[i].node, sub);
        }
    }
}

/* All that is below the directory: is removed, or gets its last synced bytes. */
static void clear(const char *path, bool remove) {
    DIR *d = need(opendir(path));
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char sub[PATH_MAX];
        struct stat st;
        join(sub, path, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || lstat(sub, &st) < 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            clear(sub, remove);
            if (remove) {
                (void)rmdir(sub);
            }
        } else if (remove) {
            (void)unlink(sub);
        } else {
            write_file(node_of(&st), sub);
        }
    }
    (void)closedir(d);
}

void shadow_write(const char *root, enum shadow_way way) {
    struct stat st;
    if (stat(root, &st) < 0) {
        abort();
    }
    const struct node *k = node_of(&st);
    clear(root, way != SHADOW_NEW);
    if (way != SHADOW_NEW) {
        write_dir(k, root, way == SHADOW_GONE);
    }
}
