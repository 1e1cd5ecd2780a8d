#include "examples/wide_and_deep/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "examples/wide_and_deep/criteo.h"
#include "examples/wide_and_deep/gen.h"

enum { BUFFER_SIZE = 1 << 20, FILES_MAX = 100000 };

struct generated {
    struct wd_gen gen;
    uint64_t begin, lines;
};

struct wd_reader {
    uint64_t vocabulary;
    struct wd_share share;
    bool by_line;      /* else by file: all lines of `files` are this worker's */
    uint64_t position; /* lines seen of the whole, this worker's or not */
    uint64_t bad_lines;
    bool again; /* not the first pass: malformed lines are known */
    char last_bad[PATH_MAX + 32 + WD_CRITEO_REASON_MAX];
    char description[96];

    bool generates;
    struct generated generated;
    char generated_line[WD_GEN_LINE_MAX];

    char **files; /* owned */
    size_t n_files, file;
    int fd;        /* of files[file]; -1: not open */
    uint64_t line; /* in that file, from 1 */
    char *buffer;  /* BUFFER_SIZE */
    size_t used, at;
    bool ended; /* nothing more can be read from fd */
};

void wd_reader_free(struct wd_reader *r) {
    if (!r) {
        return;
    }
    for (size_t i = 0; i < r->n_files; i++) {
        free(r->files[i]);
    }
    free(r->files);
    free(r->buffer);
    if (r->fd >= 0) {
        co_close(r->fd);
    }
    free(r);
}

static int arguments_check(const struct wd_config *c, struct wd_share share, struct co_err *err) {
    if (c->slots != WD_CRITEO_SLOTS || c->dense != WD_CRITEO_DENSE || c->vocabulary == 0) {
        return co_err_set(err, CO_INVALID,
            "Criteo data has %d slots and %d numbers, the model %zu and %zu", WD_CRITEO_SLOTS,
            WD_CRITEO_DENSE, c->slots, c->dense);
    }
    if (share.index >= share.count) {
        return co_err_set(
            err, CO_INVALID, "worker %" PRIu32 " of %" PRIu32, share.index, share.count);
    }
    return 0;
}

static struct wd_reader *reader_new(const struct wd_config *c, struct wd_share share) {
    struct wd_reader *r = co_xcalloc(1, sizeof(*r));

    r->vocabulary = c->vocabulary;
    r->share = share;
    r->fd = -1;
    return r;
}

int wd_reader_open_generated(uint64_t seed, uint64_t begin, uint64_t lines,
    const struct wd_config *c, struct wd_share share, struct wd_reader **ret_r,
    struct co_err *err) {
    int rc = arguments_check(c, share, err);

    if (rc < 0) {
        return rc;
    }
    struct wd_reader *r = reader_new(c, share);
    r->generates = r->by_line = true;
    wd_gen_init(&r->generated.gen, seed);
    r->generated.begin = begin;
    r->generated.lines = lines;
    (void)snprintf(r->description, sizeof(r->description),
        "1/%" PRIu32 " of %" PRIu64 " generated lines", share.count, lines);
    *ret_r = r;
    return 0;
}

/* ---- which files ---------------------------------------------------------------------------- */

static int is_data(const struct dirent *entry) {
    return entry->d_name[0] != '.' && entry->d_name[0] != '_';
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Keeps path when it is a regular file. */
static void file_add(struct wd_reader *r, char *path_own) {
    struct stat st;

    if (stat(path_own, &st) < 0 || !S_ISREG(st.st_mode)) {
        free(path_own);
        return;
    }
    r->files[r->n_files++] = path_own;
}

static int directory_list(struct wd_reader *r, const char *path, struct co_err *err) {
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_data, by_name), rc = 0;

    if (n < 0) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    if (n > FILES_MAX) {
        rc =
            co_err_set(err, CO_NORESOURCE, "\"%s\" holds %d files, at most %d", path, n, FILES_MAX);
    } else {
        r->files = co_xcalloc((size_t)n + 1, sizeof(*r->files));
    }
    for (int i = 0; i < n; i++) {
        if (rc == 0) {
            file_add(r, co_xasprintf("%s/%s", path, entries[i]->d_name));
        }
        free(entries[i]);
    }
    free(entries);
    if (rc == 0 && r->n_files == 0) {
        rc = co_err_set(err, CO_NOTFOUND, "\"%s\" holds no data file", path);
    }
    return rc;
}

/* Contiguous files, the first (files mod workers) workers one more. */
static void files_share(struct wd_reader *r) {
    /* arguments_check: count > index >= 0. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    size_t base = r->n_files / r->share.count, more = r->n_files % r->share.count;
    size_t index = r->share.index, first = index * base + (index < more ? index : more);
    size_t kept = base + (index < more), all = r->n_files;

    for (size_t i = 0; i < all; i++) {
        if (i < first || i >= first + kept) {
            free(r->files[i]);
        } else {
            r->files[i - first] = r->files[i];
        }
    }
    r->n_files = kept;
    (void)snprintf(r->description, sizeof(r->description), "%zu of %zu files, from number %zu",
        kept, all, first);
}

int wd_reader_open(const char *path, const struct wd_config *c, struct wd_share share,
    struct wd_reader **ret_r, struct co_err *err) {
    struct stat st;
    int rc = arguments_check(c, share, err);

    if (rc < 0) {
        return rc;
    }
    if (stat(path, &st) < 0) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    CO_CLEANUP(wd_reader_freep) struct wd_reader *r = reader_new(c, share);
    if (S_ISDIR(st.st_mode)) {
        rc = directory_list(r, path, err);
    } else {
        r->files = co_xcalloc(1, sizeof(*r->files));
        r->files[r->n_files++] = co_xstrdup(path);
    }
    if (rc < 0) {
        return rc;
    }
    r->by_line = r->n_files < share.count;
    if (r->by_line) {
        (void)snprintf(r->description, sizeof(r->description),
            "1/%" PRIu32 " of the lines of %zu %s", share.count, r->n_files,
            r->n_files == 1 ? "file" : "files");
    } else {
        files_share(r);
    }
    r->buffer = co_xmalloc(BUFFER_SIZE);
    *ret_r = co_steal_ptr(r);
    return 0;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static void bad_line(struct wd_reader *r, const char *reason) {
    if (r->generates) {
        (void)snprintf(
            r->last_bad, sizeof(r->last_bad), "generated:%" PRIu64 ": %s", r->line, reason);
    } else {
        (void)snprintf(r->last_bad, sizeof(r->last_bad), "%.*s:%" PRIu64 ": %s", PATH_MAX,
            r->files[r->file], r->line, reason);
    }
    if (r->bad_lines++ < WD_BAD_LINES_SHOWN && !r->again) {
        co_log_warn("malformed line skipped", CO_S("line", r->last_bad));
    }
}

static int file_open(struct wd_reader *r, struct co_err *err) {
    r->fd = open(r->files[r->file], O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) {
        return co_err_errno(err, errno, "\"%s\"", r->files[r->file]);
    }
    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    r->line = 0;
    r->used = r->at = 0;
    r->ended = false;
    return 0;
}

static void file_close(struct wd_reader *r) {
    co_close(r->fd);
    r->fd = -1;
}

/* Moves the unread rest to the front and reads behind it. */
static int buffer_fill(struct wd_reader *r, struct co_err *err) {
    ssize_t n;

    memmove(r->buffer, r->buffer + r->at, r->used - r->at);
    r->used -= r->at;
    r->at = 0;
    do {
        n = read(r->fd, r->buffer + r->used, BUFFER_SIZE - r->used);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return co_err_errno(err, errno, "\"%s\"", r->files[r->file]);
    }
    r->ended = n == 0;
    r->used += (size_t)n;
    return 0;
}

/* The next line of the open file without its newline, however long; a piece of one only when it
 * does not fit into the buffer (*ret_whole false).  *ret_line NULL at the end of the file. */
static int piece_next(struct wd_reader *r, const char **ret_line, size_t *ret_len, bool *ret_whole,
    struct co_err *err) {
    for (;;) {
        const char *start = r->buffer + r->at;
        size_t rest = r->used - r->at;
        const char *end = memchr(start, '\n', rest);

        if (end || (r->ended && rest) || rest == BUFFER_SIZE) {
            size_t len = end ? (size_t)(end - start) : rest;

            *ret_line = start;
            *ret_len = len;
            *ret_whole = end || r->ended;
            r->at += len + (end != NULL);
            return 0;
        }
        if (r->ended) {
            *ret_line = NULL;
            return 0;
        }
        int rc = buffer_fill(r, err);
        if (rc < 0) {
            return rc;
        }
    }
}

/* The next line of the open file; one above WD_LINE_MAX is cut to that length plus one. */
static int line_next(
    struct wd_reader *r, const char **ret_line, size_t *ret_len, struct co_err *err) {
    const char *rest;
    size_t len;
    bool whole;
    int rc = piece_next(r, ret_line, ret_len, &whole, err);

    if (rc < 0 || !*ret_line) {
        return rc;
    }
    r->line++;
    if (*ret_len > WD_LINE_MAX) {
        *ret_len = WD_LINE_MAX + 1;
    }
    while (!whole) {
        rc = piece_next(r, &rest, &len, &whole, err);
        if (rc < 0) {
            return rc;
        }
        whole = whole || !rest;
    }
    return 0;
}

/* The next line of all files. */
static int file_line_next(
    struct wd_reader *r, const char **ret_line, size_t *ret_len, struct co_err *err) {
    *ret_line = NULL;
    while (r->file < r->n_files) {
        int rc = r->fd < 0 ? file_open(r, err) : 0;

        if (rc == 0) {
            rc = line_next(r, ret_line, ret_len, err);
        }
        if (rc < 0 || *ret_line) {
            return rc;
        }
        file_close(r);
        r->file++;
    }
    return 0;
}

static void generated_line_next(struct wd_reader *r, const char **ret_line, size_t *ret_len) {
    *ret_line = NULL;
    if (r->position < r->generated.lines) {
        *ret_line = r->generated_line;
        *ret_len =
            wd_gen_line(&r->generated.gen, r->generated.begin + r->position, r->generated_line);
        r->line = r->position + 1;
    }
}

/* This worker's next line. */
static int own_line_next(
    struct wd_reader *r, const char **ret_line, size_t *ret_len, struct co_err *err) {
    for (;;) {
        if (r->generates) {
            /* Others' lines need not be made. */
            while (r->position % r->share.count != r->share.index) {
                r->position++;
            }
            generated_line_next(r, ret_line, ret_len);
        } else {
            int rc = file_line_next(r, ret_line, ret_len, err);
            if (rc < 0) {
                return rc;
            }
        }
        if (!*ret_line) {
            return 0;
        }
        if (!r->by_line || r->position++ % r->share.count == r->share.index) {
            return 0;
        }
    }
}

/* Parses a line into place b->n; false when it is malformed. */
static bool sample_parse(struct wd_reader *r, const char *line, size_t len, struct wd_batch *b) {
    char reason[WD_CRITEO_REASON_MAX] = "";

    if (len > WD_LINE_MAX) {
        (void)snprintf(reason, sizeof(reason), "line longer than %d bytes", WD_LINE_MAX);
    } else if (wd_criteo_parse(line, len, r->vocabulary, b->ids + b->n * WD_CRITEO_SLOTS,
                   b->dense + b->n * WD_CRITEO_DENSE, b->label + b->n, reason) == 0) {
        return true;
    }
    bad_line(r, reason);
    return false;
}

int wd_reader_next(struct wd_reader *r, struct wd_batch *b, struct co_err *err) {
    b->n = 0;
    while (b->n < b->max) {
        const char *line = NULL;
        size_t len = 0;
        int rc = own_line_next(r, &line, &len, err);

        if (rc < 0) {
            return rc;
        }
        if (!line) {
            break;
        }
        b->n += sample_parse(r, line, len, b);
    }
    if (b->n == 0 && r->bad_lines > WD_BAD_LINES_SHOWN && !r->again) {
        co_log_warn(
            "malformed lines skipped", CO_I("lines", r->bad_lines), CO_S("last", r->last_bad));
    }
    return 0;
}

void wd_reader_rewind(struct wd_reader *r) {
    if (r->fd >= 0) {
        file_close(r);
    }
    r->file = 0;
    r->position = 0;
    r->bad_lines = 0;
    r->again = true;
}

const char *wd_reader_describe(const struct wd_reader *r) {
    return r->description;
}

uint64_t wd_reader_bad_lines(const struct wd_reader *r) {
    return r->bad_lines;
}

const char *wd_reader_last_bad(const struct wd_reader *r) {
    return r->last_bad;
}
