/* Reads a worker's lines from its files, in order and in passes, and knows its position. */
#include "runtime/train/help/input.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/mix.h"
#include "common/source.h"
#include "runtime/train/help/files.h"

enum { BUFFER_SIZE = 1 << 20, MARK = 3 };
_Static_assert(BUFFER_SIZE > 2 * RT_LINE_MAX, "a line that is allowed fits");

static const char mark[] = "\xef\xbb\xbf"; /* some editors put it first */

/*     buffer  | behind us | unread ...... |      |
 *             0           at              used   BUFFER_SIZE; one byte more ends a line with a NUL
 */
struct rt_input {
    struct help_files files;
    struct rt_share share;
    struct rt_position next; /* the next line's; its file is open where source is */
    struct co_source *source;
    char *command; /* NULL: files are read as they are */
    int stop;
    char *buffer;
    size_t used, at;
    char between[RT_BETWEEN_MAX + 1]; /* "": newlines end lines wherever they are */
    bool ended;                       /* the source is at its end */
    bool again; /* something was read before: what is opened now may have been read already */
    char where[PATH_MAX + 32];
    uint64_t where_file,
        where_line;  /* position for messages: the line's first, where it has more */
    uint64_t begins; /* the number of its first line in its file */
};

int rt_input_open(const char *path, const struct rt_share *share, struct rt_input **ret_input,
    struct co_err *err) {
    const struct help_input_options o = {.paths = &path, .n_paths = 1, .share = share, .stop = -1};

    return help_input_open(&o, ret_input, err);
}

int help_input_open(
    const struct help_input_options *o, struct rt_input **ret_input, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *l = co_xcalloc(1, sizeof(*l));

    l->share = o->share ? *o->share : (struct rt_share){.workers = 1};
    l->stop = o->stop;
    l->command = o->command ? co_xstrdup(o->command) : NULL;
    l->files.fetched = o->command != NULL;
    CO_TRY(help_files_find(o->paths, o->n_paths, o->share, &l->files, err));
    l->buffer = co_xmalloc(BUFFER_SIZE + 1);
    *ret_input = co_steal_ptr(l);
    return 0;
}

void rt_input_close(struct rt_input *l) {
    if (!l) {
        return;
    }
    co_source_close(l->source);
    help_files_done(&l->files);
    free(l->command);
    free(l->buffer);
    free(l);
}

static int file_open(struct rt_input *l, struct co_err *err) {
    const struct co_source_options o = {.path = l->files.paths[l->next.file],
        .offset = l->next.offset,
        .first = !l->again,
        .command = l->command,
        .stop = l->stop};

    l->used = l->at = 0;
    l->ended = false;
    return co_source_open_with(&o, &l->source, err);
}

static void file_close(struct rt_input *l) {
    co_source_close(co_steal_ptr(l->source));
}

/* Moves the unread bytes to the front and fills the rest of the buffer. */
static int buffer_fill(struct rt_input *l, struct co_err *err) {
    size_t n = 0;

    memmove(l->buffer, l->buffer + l->at, l->used - l->at);
    l->used -= l->at;
    l->at = 0;
    int rc = co_source_read(l->source, l->buffer + l->used, BUFFER_SIZE - l->used, &n, err);
    l->ended = rc == 0 && n == 0;
    l->used += n;
    return rc;
}

/* The first newline of a line that is not between quotes, or NULL.  A quote opens at the beginning
 * of a field only, and two in a row are one of its text.  *ret_open: the text ends between quotes.
 */
static const char *unquoted_find(
    const struct rt_input *l, const char *at, const char *end, bool *ret_open) {
    bool in = false, begins = true;

    for (; at < end && (in || *at != '\n'); at++) {
        if (in && *at == '"' && at + 1 < end && at[1] == '"') {
            at++;
        } else if (*at == '"' && (in || begins)) {
            in = !in;
        }
        begins = !in && (strchr(l->between, *at) || (begins && *at == ' '));
    }
    *ret_open = in;
    return at < end ? at : NULL;
}

/* The newline that ends the line which starts there; NULL: there is none, or what is behind these
 * bytes may say that it is another. */
static const char *end_find(const struct rt_input *l, const char *start, size_t n) {
    const char *end = memchr(start, '\n', n), *from = start;
    size_t near = n < RT_LINE_MAX ? n : RT_LINE_MAX;
    bool open = false;

    if (l->between[0] == '\0' || !end || !memchr(start, '"', (size_t)(end - start))) {
        return end;
    }
    if (l->next.line == 0 && n >= MARK && memcmp(start, mark, MARK) == 0) {
        from += MARK;
    }
    const char *found = unquoted_find(l, from, start + near, &open);
    /* A quote that is never closed costs one line, not all that follow. */
    return !found && (near == RT_LINE_MAX || (l->ended && open)) ? end : found;
}

/* The next bytes of the open file, up to a newline (not included), the end of the file, or as many
 * as fit.  NULL at the end of the file. */
static int piece_next(
    struct rt_input *l, char **ret_piece, size_t *ret_len, bool *ret_ends, struct co_err *err) {
    for (;;) {
        char *start = l->buffer + l->at;
        size_t rest = l->used - l->at;
        const char *end = end_find(l, start, rest);

        if (end || (l->ended && rest > 0) || rest == BUFFER_SIZE) {
            *ret_piece = start;
            *ret_len = end ? (size_t)(end - start) : rest;
            *ret_ends = end || l->ended;
            l->at += *ret_len + (end != NULL);
            l->next.offset += *ret_len + (end != NULL);
            return 0;
        }
        if (l->ended) {
            *ret_piece = NULL;
            return 0;
        }
        CO_TRY(buffer_fill(l, err));
    }
}

/* The next line of the open file, NULL at its end; *ret_len is above RT_LINE_MAX where it was cut.
 */
static int line_next(struct rt_input *l, char **ret_line, size_t *ret_len, struct co_err *err) {
    bool ends = false;
    int rc = piece_next(l, ret_line, ret_len, &ends, err);

    if (rc < 0 || !*ret_line) {
        return rc;
    }
    l->begins = l->next.line + 1;
    for (const char *at = *ret_line, *end = at + *ret_len;
         (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        l->next.line++; /* between quotes */
    }
    while (rc == 0 && !ends) {
        char *rest = NULL;
        size_t len = 0;

        rc = piece_next(l, &rest, &len, &ends, err);
        ends = ends || !rest;
    }
    l->next.line++;
    l->next.seen++;
    return rc;
}

/* The next line of all files; NULL at the end. */
static int any_line_next(struct rt_input *l, char **ret_line, size_t *ret_len, struct co_err *err) {
    *ret_line = NULL;
    while (l->next.file < l->files.n) {
        if (!l->source) {
            CO_TRY(file_open(l, err));
        }

        CO_TRY(line_next(l, ret_line, ret_len, err));
        if (*ret_line) {
            return 0;
        }
        file_close(l);
        l->next.file++;
        l->next.offset = l->next.line = 0;
    }
    return 0;
}

/* Whether line i over all files is of this worker.  The hash has no seed, with which workers could
 * disagree on whose a line is. */
static bool is_own(const struct rt_input *l) {
    uint64_t i = l->next.seen - 1;

    if (l->share.by == RT_SHARE_MIXED) {
        i = co_mix64(co_mix64(l->next.pass + 1) + i);
    }
    return !l->files.by_line || i % l->share.workers == l->share.worker;
}

/* Ends the line with a NUL, without the mark that some editors put first in a file, and without the
 * carriage return that others put last in a line. */
static void line_trim(const struct rt_input *l, char **line, size_t *len) {
    if (l->begins == 1 && *len >= MARK && memcmp(*line, mark, MARK) == 0) {
        *line += MARK;
        *len -= MARK;
    }
    *len -= *len > 0 && (*line)[*len - 1] == '\r';
    (*line)[*len] = '\0';
}

int rt_input_next(struct rt_input *l, const char **ret_line, size_t *ret_len, struct co_err *err) {
    char *line = NULL;
    size_t len = 0;

    do {
        CO_TRY(any_line_next(l, &line, &len, err));
    } while (line && !is_own(l));
    if (!line) {
        *ret_line = NULL;
        *ret_len = 0;
        return 0;
    }
    l->where_file = l->next.file;
    l->where_line = l->begins;
    if (len > RT_LINE_MAX) {
        return co_err_set(
            err, CO_INVALID, "%s: line longer than %d bytes", rt_input_where(l), RT_LINE_MAX);
    }
    line_trim(l, &line, &len);
    if (strlen(line) != len) {
        return co_err_set(err, CO_INVALID, "%s: a NUL at byte %zu, expected text in UTF-8",
            rt_input_where(l), strlen(line) + 1);
    }
    *ret_line = line;
    *ret_len = len;
    return 0;
}

static void go_to(struct rt_input *l, const struct rt_position *at) {
    file_close(l);
    l->again = l->again || l->next.seen > 0 || at->pass > 0 || at->offset > 0;
    l->next = *at;
    l->where_line = 0;
}

void rt_input_quotes(struct rt_input *l, const char *between) {
    (void)snprintf(l->between, sizeof(l->between), "%s", between);
}

void rt_input_rewind(struct rt_input *l) {
    go_to(l, &(struct rt_position){.pass = l->next.pass + 1});
}

uint64_t rt_input_pass(const struct rt_input *l) {
    return l->next.pass;
}

void rt_input_tell(const struct rt_input *l, struct rt_position *ret) {
    *ret = l->next;
}

int rt_input_seek(struct rt_input *l, const struct rt_position *at, struct co_err *err) {
    go_to(l, at);
    if (at->file == l->files.n && at->offset == 0) {
        return 0; /* after the last line */
    }
    if (at->file >= l->files.n) {
        return co_err_set(
            err, CO_INVALID, "a position in file %" PRIu64 " of %zu", at->file + 1, l->files.n);
    }
    return at->offset == 0 ? 0 : file_open(l, err);
}

const char *rt_input_where(struct rt_input *l) {
    if (l->where_line == 0) {
        return "no line";
    }
    (void)snprintf(l->where, sizeof(l->where), "%.*s:%" PRIu64, PATH_MAX,
        l->files.paths[l->where_file], l->where_line);
    return l->where;
}

const char *rt_input_describe(const struct rt_input *l) {
    return l->files.description;
}

size_t help_input_files(const struct rt_input *l) {
    return l->files.n;
}

const char *help_input_path(const struct rt_input *l, size_t file) {
    return l->files.paths[file];
}

bool help_input_by_line(const struct rt_input *l) {
    return l->files.by_line;
}

size_t help_input_file(const struct rt_input *l) {
    return l->where_file;
}

uint64_t help_input_line(const struct rt_input *l) {
    return l->where_line;
}
