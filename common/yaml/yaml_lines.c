/* The tree of line numbers, in one array. */
#include "common/yaml/yaml_lines.h"

#include <stdio.h>
#include <string.h>

struct co_yaml_spot {
    unsigned first, next; /* first child and next sibling; 0: none, as the root is neither */
    int line;
    int item;    /* position in a list, or -1 */
    size_t name; /* offset of the key in names, when item is -1 */
};

void co_yaml_lines_clear(struct co_yaml_lines *t) {
    co_buf_clear(&t->names);
    t->n = 0;
}

void co_yaml_lines_done(struct co_yaml_lines *t) {
    co_buf_done(&t->names);
    free(t->spots);
    *t = (struct co_yaml_lines){.names = CO_BUF(t->names.max)};
}

static unsigned add_spot(struct co_yaml_lines *t, const struct co_yaml_spot *s) {
    t->spots = co_xgrow(t->spots, t->n, sizeof(*t->spots));
    t->spots[t->n] = *s;
    return t->n++;
}

static void add_child(
    struct co_yaml_lines *t, unsigned parent, unsigned *last, const struct co_yaml_spot *s) {
    unsigned child = add_spot(t, s);
    if (*last) {
        t->spots[*last].next = child;
    } else {
        t->spots[parent].first = child;
    }
    *last = child;
}

unsigned co_yaml_lines_root(struct co_yaml_lines *t, int line) {
    return add_spot(t, &(struct co_yaml_spot){.line = line, .item = -1});
}

void co_yaml_lines_item(
    struct co_yaml_lines *t, unsigned parent, unsigned *last, int index, int line) {
    add_child(t, parent, last, &(struct co_yaml_spot){.line = line, .item = index});
}

int co_yaml_lines_member(struct co_yaml_lines *t, unsigned parent, unsigned *last, const char *key,
    int line, struct co_err *err) {
    struct co_yaml_spot s = {.line = line, .item = -1, .name = t->names.len};
    CO_TRY(co_buf_add(&t->names, key, strlen(key) + 1, err));
    add_child(t, parent, last, &s);
    return 0;
}

int co_yaml_lines_child(const struct co_yaml_lines *t, unsigned parent, const char *key) {
    for (unsigned c = t->spots[parent].first; c; c = t->spots[c].next) {
        if (t->spots[c].item < 0 && strcmp(t->names.data + t->spots[c].name, key) == 0) {
            return t->spots[c].line;
        }
    }
    return 0;
}

/* Length of the spot's name when path begins with it as a whole step, else -1. */
static int match_step(
    const struct co_yaml_lines *t, const struct co_yaml_spot *s, const char *path) {
    char number[24];
    const char *name = number;
    if (s->item >= 0) {
        (void)snprintf(number, sizeof(number), *path == '[' ? "[%d]" : "%d", s->item);
    } else {
        name = t->names.data + s->name;
    }
    size_t len = strlen(name);
    if (strncmp(path, name, len) != 0 || (path[len] && path[len] != '.' && path[len] != '[')) {
        return -1;
    }
    return (int)len;
}

int co_yaml_lines_find(const struct co_yaml_lines *t, const char *path) {
    if (t->n == 0) {
        return 0;
    }
    unsigned at = 0;
    while (*path) {
        unsigned best = 0;
        int length = -1; /* keys may contain dots, so the longest match wins */
        for (unsigned c = t->spots[at].first; c; c = t->spots[c].next) {
            int n = match_step(t, &t->spots[c], path);
            if (n > length) {
                best = c;
                length = n;
            }
        }
        if (!best) {
            break;
        }
        at = best;
        path += length;
        path += *path == '.';
    }
    return t->spots[at].line;
}
