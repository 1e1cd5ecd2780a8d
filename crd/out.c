/* Writes indented YAML; long texts are folded at 100 columns. */
#include "crd/out.h"

#include <stdarg.h>
#include <string.h>

enum { LINE_MAX_LENGTH = 100, LINE_MIN_TEXT = 40 };

void crd_out_line(const struct crd_out *out, const char *format, ...) {
    va_list args;

    va_start(args, format);
    fprintf(out->file, "%*s", out->depth * 2, "");
    vfprintf(out->file, format, args);
    va_end(args);
    fputc('\n', out->file);
}

/* Length of the first words of text that fit in room, at least one word. */
static size_t fitting_length(const char *text, size_t room) {
    size_t used = strcspn(text, " ");

    while (text[used] != '\0') {
        size_t next = used + 1 + strcspn(text + used + 1, " ");

        if (next > room) {
            break;
        }
        used = next;
    }
    return used;
}

void crd_out_text(const struct crd_out *out, const char *key, const char *text) {
    struct crd_out body = {.file = out->file, .depth = out->depth + 1};
    size_t margin = (size_t)body.depth * 2;
    size_t room = LINE_MIN_TEXT;

    if (margin + LINE_MIN_TEXT < LINE_MAX_LENGTH) {
        room = LINE_MAX_LENGTH - margin;
    }
    crd_out_line(out, "%s: >-", key);
    while (*text != '\0') {
        size_t length = fitting_length(text, room);

        crd_out_line(&body, "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}
