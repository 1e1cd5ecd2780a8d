/* A growing array of texts, and Python's way to print one.  See list.h. */
#include "runtime/launch/options/list.h"

#include <stdio.h>
#include <string.h>

#include "common/buf.h"

enum { TEXT_MAX = 1 << 26, DELETE = 0x7f };

void options_list_done(struct options_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i]);
    }
    free(l->item);
    *l = (struct options_list){0};
}

void options_list_add_own(struct options_list *l, char *text) {
    if (l->n + 2 > l->cap) {
        l->cap = l->cap ? l->cap * 2 : 16;
        l->item = co_xrealloc(l->item, l->cap, sizeof(*l->item));
    }
    l->item[l->n++] = text;
    l->item[l->n] = NULL;
}

void options_list_add(struct options_list *l, const char *text) {
    options_list_add_own(l, co_xstrdup(text));
}

void options_list_split(struct options_list *l, const char *text) {
    options_list_split_at(l, text, ',');
}

void options_list_split_at(struct options_list *l, const char *text, char between) {
    const char end[] = {between, '\0'};
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, end), skip = strspn(p, " ");
        size_t from = skip < len ? skip : len, to = len;
        while (to > from && p[to - 1] == ' ') {
            to--;
        }
        if (to > from) {
            options_list_add_own(l, co_xstrndup(p + from, to - from));
        }
        p += len + (p[len] == between);
    }
}

bool options_list_has(const struct options_list *l, const char *text) {
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->item[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* A text that would be longer than TEXT_MAX is cut there. */
static void add_bytes(struct co_buf *b, const char *data, size_t len) {
    (void)!co_buf_add(b, data, len, NULL);
}

char *options_list_join(const struct options_list *l, const char *between) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    for (size_t i = 0; i < l->n; i++) {
        add_bytes(&b, between, i ? strlen(between) : 0);
        add_bytes(&b, l->item[i], strlen(l->item[i]));
    }
    return co_buf_take(&b);
}

static void add_repr(struct co_buf *b, const char *text) {
    const char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    add_bytes(b, &quote, 1);
    for (const char *p = text; *p; p++) {
        static const char from[] = "\n\r\t\\", to[] = "nrt\\";
        const char *at = strchr(from, *p);
        if (at || *p == quote) {
            add_bytes(b, "\\", 1);
            add_bytes(b, at ? to + (at - from) : p, 1);
        } else if ((unsigned char)*p < ' ' || *p == DELETE) {
            char code[8];
            (void)snprintf(code, sizeof(code), "\\x%02x", (unsigned char)*p);
            add_bytes(b, code, strlen(code));
        } else {
            add_bytes(b, p, 1);
        }
    }
    add_bytes(b, &quote, 1);
}

char *options_list_python(char *const *item, size_t n) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    add_bytes(&b, "[", 1);
    for (size_t i = 0; i < n; i++) {
        add_bytes(&b, ", ", i ? 2 : 0);
        add_repr(&b, item[i]);
    }
    add_bytes(&b, "]", 1);
    return co_buf_take(&b);
}
