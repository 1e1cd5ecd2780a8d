/* Reads a file's bytes, through zlib where it is packed. */
#include "common/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "common/filter.h"

enum {
    RAW_SIZE = 64 << 10,
    HEAD = 6,             /* bytes that show the format */
    RETURNS = 2,          /* carriage returns that a newline may have before it */
    PIPE_MS = 60 * 1000,  /* how long a pipe's writer may be silent */
    GZIP_WINDOW = 16 + 15 /* zlib: the largest window, with gzip's head and checksum */
};

/* The first that fits is it. */
static const struct {
    const char *head;
    size_t len, at;
    const char *what;
} others[] = {
    {"\xff\xfe\0\0", 4, 0, "text in UTF-32"}, {"\0\0\xfe\xff", 4, 0, "text in UTF-32"},
    {"\xff\xfe", 2, 0, "text in UTF-16"}, {"\xfe\xff", 2, 0, "text in UTF-16"},
    {"PK\x03\x04", 4, 0, "a zip archive"}, {"7z\xbc\xaf\x27\x1c", 6, 0, "a 7z archive"},
    {"ustar", 5, 257, "a tar archive"}, {"BZh", 3, 0, "packed by bzip2"},
    {"\xfd\x37zXZ", 5, 0, "packed by xz"}, {"\x5d\0\0", 3, 0, "packed by lzma"},
    {"\x28\xb5\x2f\xfd", 4, 0, "packed by zstd"}, {"\x04\x22\x4d\x18", 4, 0, "packed by lz4"},
    {"\x1f\x9d", 2, 0, "packed by compress"}, {"PAR1", 4, 0, "in Parquet"},
    {"\x1f\x8b\x08", 3, 0, "packed by gzip"}, /* inside gzip data: else it is unpacked */
};

/* NULL: none of them, as far as the first bytes say. */
static const char *other_format(const void *bytes, size_t n) {
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        size_t at = others[i].at, len = others[i].len;

        if (n >= at + len && memcmp((const char *)bytes + at, others[i].head, len) == 0) {
            return others[i].what;
        }
    }
    return NULL;
}

/*     bytes  | behind us | unread ...... |      |
 *            0           at              used   RAW_SIZE */
struct source_window {
    unsigned char *bytes;
    size_t at, used;
};

struct co_source {
    char *path;
    char *command; /* NULL: fd is the file's */
    struct co_filter filter;
    int fd;
    int stop; /* -1: nobody stops us */
    bool pipe, packed;
    bool between; /* gzip: at the end of a member; another may follow */
    bool begun;   /* gzip: something is unpacked, and no other format */
    z_stream z;
    struct source_window raw, text; /* text: gzip, what was unpacked */
};

void co_source_close(struct co_source *s) {
    if (!s) {
        return;
    }
    if (s->packed) {
        (void)inflateEnd(&s->z);
    }
    if (s->command) {
        co_filter_done(&s->filter); /* which has fd */
    } else {
        co_closep(&s->fd);
    }
    free(s->command);
    free(s->text.bytes);
    free(s->raw.bytes);
    free(s->path);
    free(s);
}

/* Waits until a pipe has something, or its end. */
static int pipe_wait(const struct co_source *s, struct co_err *err) {
    struct pollfd both[] = {
        {.fd = s->fd, .events = POLLIN}, {.fd = s->stop, .events = POLLIN}}; /* below 0: none */
    int ready;

    do {
        ready = poll(both, 2, PIPE_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) {
        return co_err_errno(err, errno, "\"%s\"", s->path);
    }
    if (ready == 0) {
        return co_err_set(err, CO_TIMEOUT,
            "\"%s\" is a pipe, and nobody has written to it for %d s", s->path, PIPE_MS / 1000);
    }
    return both[1].revents ? co_err_set(err, CO_CANCELED, "\"%s\" is read no longer", s->path) : 0;
}

/* Reads what is there, at least one byte unless the file ends. */
static int bytes_read(
    struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err) {
    ssize_t n;

    do {
        if (s->pipe) {
            CO_TRY(pipe_wait(s, err));
        }
        n = read(s->fd, ret, room); /* no deadline: a file, or a pipe that has something */
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n < 0) {
        return co_err_errno(err, errno, "\"%s\"", s->path);
    }
    *ret_n = (size_t)n;
    return n == 0 && s->filter.pid > 0
               ? co_filter_end(&s->filter, s->command, s->path, s->stop, err)
               : 0;
}

static size_t unread(const struct source_window *w) {
    return w->used - w->at;
}

/* Adds what `get` gives behind the unread bytes; *ret_more false: nothing follows. */
static int window_fill(struct co_source *s, struct source_window *w,
    int (*get)(struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err),
    bool *ret_more, struct co_err *err) {
    size_t n = 0;

    memmove(w->bytes, w->bytes + w->at, unread(w));
    w->used -= w->at;
    w->at = 0;
    int rc = get(s, w->bytes + w->used, RAW_SIZE - w->used, &n, err);
    w->used += n;
    *ret_more = n > 0;
    return rc;
}

static int raw_fill(struct co_source *s, bool *ret_more, struct co_err *err) {
    return window_fill(s, &s->raw, bytes_read, ret_more, err);
}

/* Has at least n raw bytes ready, or all that there are. */
static int raw_need(struct co_source *s, size_t n, struct co_err *err) {
    bool more = true;

    while (more && unread(&s->raw) < n) {
        CO_TRY(raw_fill(s, &more, err));
    }
    return 0;
}

static bool begins(const struct co_source *s, const char *head, size_t len) {
    return unread(&s->raw) >= len && memcmp(s->raw.bytes + s->raw.at, head, len) == 0;
}

/* ---- gzip: members, one behind the other ---------------------------------------------------- */

static bool is_gzip(const struct co_source *s) {
    return begins(s, "\x1f\x8b\x08", 3);
}

static int damaged(const struct co_source *s, const char *why, struct co_err *err) {
    return co_err_set(err, CO_DAMAGED, "\"%s\": gzip data %s", s->path, why);
}

/* Zeros are what tapes and blocks are filled with. */
static int zeros_skip(struct co_source *s, struct co_err *err) {
    bool more = true;

    while (more) {
        while (unread(&s->raw) > 0 && s->raw.bytes[s->raw.at] == 0) {
            s->raw.at++;
        }
        if (unread(&s->raw) > 0) {
            break;
        }
        CO_TRY(raw_fill(s, &more, err));
    }
    return 0;
}

/* A member follows, or nothing. */
static int member_next(struct co_source *s, bool *ret_ends, struct co_err *err) {
    int rc = zeros_skip(s, err);

    rc = rc == 0 ? raw_need(s, 3, err) : rc;
    *ret_ends = rc == 0 && unread(&s->raw) == 0;
    s->between = *ret_ends;
    if (rc < 0 || *ret_ends) {
        return rc;
    }
    if (!is_gzip(s)) {
        return damaged(
            s, "is followed by other data: expected the end of the file, or more gzip data", err);
    }
    return inflateReset(&s->z) != Z_OK ? damaged(s, "is wrong", err) : 0;
}

static int unsupported(const struct co_source *s, const char *what, struct co_err *err) {
    return co_err_set(err, CO_UNSUPPORTED,
        "\"%s\" is %s%s, expected text in UTF-8, as it is or packed by gzip", s->path, what,
        s->packed ? " inside its gzip data" : "");
}

static int unpack(struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err) {
    bool ends = false;

    *ret_n = 0;
    while (*ret_n == 0) {
        int rc = s->between ? member_next(s, &ends, err) : raw_need(s, 1, err);
        if (rc < 0 || ends) {
            return rc;
        }
        if (unread(&s->raw) == 0) {
            return damaged(s, "ends in the middle: the file was cut", err);
        }
        s->z.next_in = s->raw.bytes + s->raw.at;
        s->z.avail_in = (uInt)unread(&s->raw);
        s->z.next_out = ret;
        s->z.avail_out = (uInt)room;
        int status = inflate(&s->z, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
            return damaged(s, s->z.msg ? s->z.msg : "is wrong", err);
        }
        s->raw.at = s->raw.used - s->z.avail_in;
        s->between = status == Z_STREAM_END;
        *ret_n = room - s->z.avail_out;
    }
    const char *other = s->begun ? NULL : other_format(ret, *ret_n);
    s->begun = true;
    return other ? unsupported(s, other, err) : 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int command_start(struct co_source *s, struct co_err *err) {
    CO_TRY(co_filter_start(s->command, s->path, &s->filter, err));
    s->fd = s->filter.out;
    s->pipe = true;
    return 0;
}

static int file_open(struct co_source *s, bool first, struct co_err *err) {
    struct stat st;

    /* Not blocking: a pipe without a writer must not keep us in open. */
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &st) < 0) {
        return co_err_errno(err, errno, "\"%s\"", s->path);
    }
    s->pipe = S_ISFIFO(st.st_mode);
    if (!s->pipe && !S_ISREG(st.st_mode)) {
        return co_err_set(err, CO_UNSUPPORTED, "\"%s\" is a %s, expected a file", s->path,
            S_ISDIR(st.st_mode) ? "folder" : "device or socket");
    }
    if (s->pipe && !first) {
        return co_err_set(err, CO_UNSUPPORTED,
            "\"%s\" is a pipe, which can be read once: expected a file, as it is needed again",
            s->path);
    }
    (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static int plain_look(const struct co_source *s, struct co_err *err) {
    const char *other = other_format(s->raw.bytes + s->raw.at, unread(&s->raw));

    return other ? unsupported(s, other, err) : 0;
}

static int text_fill(struct co_source *s, bool *ret_more, struct co_err *err) {
    return window_fill(s, &s->text, unpack, ret_more, err);
}

static int packed_look(struct co_source *s, struct co_err *err) {
    bool more = true;

    if (inflateInit2(&s->z, GZIP_WINDOW) != Z_OK) {
        return co_err_set(err, CO_NOMEMORY, "\"%s\": no memory to unpack it", s->path);
    }
    s->packed = true;
    s->text.bytes = co_xmalloc(RAW_SIZE);
    return text_fill(s, &more, err);
}

/* Finds out from the first bytes what it is. */
static int head_read(struct co_source *s, struct co_err *err) {
    CO_TRY(raw_need(s, HEAD, err));

    return is_gzip(s) ? packed_look(s, err) : plain_look(s, err);
}

/* Passes over n bytes.  A plain file is not read for that. */
static int bytes_skip(struct co_source *s, uint64_t n, struct co_err *err) {
    char part[4096];
    struct stat st;
    size_t got = 1;
    uint64_t left = n;
    int rc = 0;

    if (!s->packed && !s->pipe && n > unread(&s->raw) && fstat(s->fd, &st) == 0) {
        off_t here = lseek(s->fd, 0, SEEK_CUR) - (off_t)unread(&s->raw);

        if (here >= 0 && (uint64_t)(st.st_size - here) >= n &&
            lseek(s->fd, here + (off_t)n, SEEK_SET) >= 0) {
            s->raw.at = s->raw.used = 0;
            return 0;
        }
    }
    for (; rc == 0 && left > 0 && got > 0; left -= got) {
        rc = co_source_read(s, part, left < sizeof(part) ? (size_t)left : sizeof(part), &got, err);
    }
    return rc == 0 && left > 0
               ? co_err_set(err, CO_INVALID,
                     "\"%s\" has %" PRIu64 " bytes, and the position is at %" PRIu64, s->path,
                     n - left, n)
               : rc;
}

int co_source_open(const char *path, uint64_t offset, bool first, struct co_source **ret_source,
    struct co_err *err) {
    const struct co_source_options o = {.path = path, .offset = offset, .first = first, .stop = -1};

    return co_source_open_with(&o, ret_source, err);
}

int co_source_open_with(
    const struct co_source_options *o, struct co_source **ret_source, struct co_err *err) {
    CO_CLEANUP(co_source_closep) struct co_source *s = co_xcalloc(1, sizeof(*s));

    s->path = co_xstrdup(o->path);
    s->command = o->command ? co_xstrdup(o->command) : NULL;
    s->raw.bytes = co_xmalloc(RAW_SIZE);
    s->filter = CO_FILTER_NONE;
    s->fd = -1;
    s->stop = o->stop;
    CO_TRY(s->command ? command_start(s, err) : file_open(s, o->first, err));
    CO_TRY(head_read(s, err));
    if (o->offset > 0) {
        CO_TRY(bytes_skip(s, o->offset, err));
    }
    *ret_source = co_steal_ptr(s);
    return 0;
}

/* ---- how lines end -------------------------------------------------------------------------- */

/* The carriage returns at the end of the unread bytes of which only what follows says whether they
 * end lines: two at most. */
static size_t undecided(const struct source_window *w) {
    size_t n = 0;

    while (n < RETURNS && n < unread(w) && w->bytes[w->used - 1 - n] == '\r') {
        n++;
    }
    return n;
}

/* Whether the carriage return there belongs to a newline behind it: one of Windows, or two where
 * such a file was written as text once more. */
static bool has_newline(const struct source_window *w, size_t at) {
    for (size_t n = 0; n < RETURNS && at < w->used && w->bytes[at] == '\r'; n++) {
        at++;
    }
    return at < w->used && w->bytes[at] == '\n';
}

/* Makes newlines of the carriage returns among the next n bytes that end lines by themselves. */
static void returns_end(struct source_window *w, size_t n) {
    unsigned char *from = w->bytes + w->at, *end = from + n, *at = from;

    for (; (at = memchr(at, '\r', (size_t)(end - at))); at++) {
        *at = has_newline(w, (size_t)(at - w->bytes)) ? '\r' : '\n';
    }
}

int co_source_read(struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err) {
    struct source_window *w = s->packed ? &s->text : &s->raw;
    bool more = true;

    while (more && unread(w) == undecided(w)) {
        CO_TRY((s->packed ? text_fill : raw_fill)(s, &more, err));
    }
    size_t n = unread(w) - (more ? undecided(w) : 0);
    n = n < room ? n : room;
    returns_end(w, n);
    memcpy(ret, w->bytes + w->at, n);
    w->at += n;
    *ret_n = n;
    return 0;
}
