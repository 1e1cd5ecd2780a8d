/* Finds the line of a program's output that says why it failed.  One pass over the lines keeps the
 * last candidate of each kind.
 *
 *      Traceback (most recent call last):
 *        File "train.py", line 3, in <module>       frames are indented, and name a file
 *      ValueError: bad batch                           the first line after them: the cause
 *      tcp.cc:12 connection reset by peer              noise
 */
#include "common/cause.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

struct text_line {
    const char *text;
    size_t len;
    bool indented;
};

static bool is_blank(char c) {
    return (unsigned char)c <= ' ';
}

/* Takes the next line off the text, without blanks at its ends. */
static bool take_line(const char **text, const char *end, struct text_line *ret) {
    if (*text >= end) {
        return false;
    }
    const char *stop = *text;
    while (stop < end && *stop != '\n' && *stop != '\r') {
        stop++;
    }
    const char *from = *text, *to = stop;
    while (from < to && is_blank(*from)) {
        from++;
    }
    while (to > from && is_blank(to[-1])) {
        to--;
    }
    *ret = (struct text_line){from, (size_t)(to - from), from > *text};
    *text = stop + 1;
    return true;
}

static bool begins(const struct text_line *l, const char *with) {
    size_t n = strlen(with);
    return l->len >= n && memcmp(l->text, with, n) == 0;
}

/* A frame of a Python traceback.  The header of the traceback may have been cut off, so it is not
 * required. */
static bool is_frame(const struct text_line *l) {
    return l->indented && begins(l, "File \"") && memmem(l->text, l->len, "\", line ", 8);
}

/* Number of letters, digits, dots and underscores that the line begins with. */
static size_t name_length(const struct text_line *l) {
    size_t n = 0;
    while (n < l->len &&
           (isalnum((unsigned char)l->text[n]) || l->text[n] == '.' || l->text[n] == '_')) {
        n++;
    }
    return n;
}

/* "ValueError: ...", "some.module.Exception", "FatalError: ..." */
static bool names_exception(const struct text_line *l) {
    static const char *const ends[] = {"Error", "Exception", "Interrupt", "Exit"};
    size_t n = name_length(l);
    bool whole = n == l->len || l->text[n] == ':';
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t e = strlen(ends[i]);
        if (whole && n >= e && memcmp(l->text + n - e, ends[i], e) == 0) {
            return true;
        }
    }
    return false;
}

/* The word occurs, and not as a part of a longer word. */
static bool has_word(const struct text_line *l, const char *word) {
    size_t n = strlen(word);
    const char *at = l->text, *end = l->text + l->len;
    while ((at = memmem(at, (size_t)(end - at), word, n))) {
        bool left = at == l->text || !isalnum((unsigned char)at[-1]);
        bool right = at + n == end || !isalnum((unsigned char)at[n]);
        if (left && right) {
            return true;
        }
        at += n;
    }
    return false;
}

/* "F0102 15:04:05.678": a line of glog at one of these levels. */
static bool is_glog(const struct text_line *l, const char *levels) {
    size_t n = 1;
    while (n < l->len && n < 6 && isdigit((unsigned char)l->text[n])) {
        n++;
    }
    return l->len > 5 && strchr(levels, *l->text) && n == 5 && l->text[5] == ' ';
}

static bool names_error(const struct text_line *l) {
    static const char *const words[] = {"ERROR", "FATAL", "CRITICAL"};
    bool found = names_exception(l) || is_glog(l, "EF");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !found; i++) {
        found = has_word(l, words[i]);
    }
    return found;
}

/* A report of progress never says why a program failed; it is often the last line of a killed one.
 */
static bool is_progress(const struct text_line *l) {
    return is_glog(l, "I") || has_word(l, "INFO") || has_word(l, "DEBUG") ||
           memmem(l->text, l->len, "level=info", 10) ||
           memmem(l->text, l->len, "level=debug", 11) || begins(l, "TRAIN --->");
}

const char *co_cause_line(const char *text, size_t len, size_t *ret_len) {
    struct text_line l, traced = {0}, error = {0}, said = {0}, last = {0};
    bool in_frames = false;
    const char *end = text + len;
    for (const char *at = text; take_line(&at, end, &l);) {
        if (l.len == 0) {
            continue;
        }
        last = l;
        said = is_progress(&l) ? said : l;
        error = names_error(&l) ? l : error;
        if (in_frames && !l.indented) {
            traced = l;
            in_frames = false;
        }
        in_frames = in_frames || is_frame(&l);
    }
    struct text_line cause = traced.len ? traced : error.len ? error : said;
    if (cause.len && memmem(last.text, last.len, cause.text, cause.len)) {
        cause = last;
    }
    *ret_len = cause.len;
    return cause.len ? cause.text : "";
}
