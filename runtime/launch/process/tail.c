/* A buffer of the last bytes of a stream.  See tail.h. */
#include "runtime/launch/process/tail.h"

#include <stdio.h>
#include <string.h>

#include "common/cause.h"
#include "common/utf8.h"

void proc_tail_add(struct proc_tail *t, const char *data, size_t len) {
    if (len > PROC_TAIL_MAX) {
        t->cut = 1;
        data += len - PROC_TAIL_MAX;
        len = PROC_TAIL_MAX;
    }
    size_t room = PROC_TAIL_MAX - t->len;
    if (len > room) {
        size_t drop = len - room;
        memmove(t->data, t->data + drop, t->len - drop);
        t->len -= drop;
        t->cut = 1;
    }
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

const char *proc_tail_text(struct proc_tail *t) {
    for (size_t i = 0; i < t->len; i++) {
        unsigned char c = (unsigned char)t->data[i];
        if ((c < ' ' && c != '\n') || c == 0x7f) {
            t->data[i] = ' ';
        }
    }
    while (t->len > 0 && (t->data[t->len - 1] == '\n' || t->data[t->len - 1] == ' ')) {
        t->len--;
    }
    t->data[t->len] = '\0';
    const char *newline = t->cut ? strchr(t->data, '\n') : NULL;
    return newline ? newline + 1 : t->data;
}

size_t proc_tail_copy(const struct proc_tail *t, char *ret, size_t size) {
    struct proc_tail copy = *t;
    const char *text = proc_tail_text(&copy);
    size_t len = strlen(text), n = len < size ? len : size - 1;
    memcpy(ret, text + len - n, n);
    ret[n] = '\0';
    return n;
}

const char *proc_tail_last_line(struct proc_tail *t) {
    const char *text = proc_tail_text(t);
    const char *newline = strrchr(text, '\n');
    return newline ? newline + 1 : text;
}

void proc_tail_cause(struct proc_tail *t, char *ret, size_t size) {
    const char *text = proc_tail_text(t);
    size_t len = 0;
    const char *line = co_cause_line(text, strlen(text), &len);
    (void)snprintf(ret, size, "%.*s", (int)len, line);
    co_utf8_trim(ret);
}
