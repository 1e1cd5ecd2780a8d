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

enum {
    RAW_SIZE = 64 << 10,
    HEAD = 6,             /* bytes that show the format */
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

/*     raw  | behind us | unread ...... |      |
 *          0           at              used   RAW_SIZE */
struct co_source {
    char *path;
    int fd;
    bool pipe, packed;
    bool between; /* gzip: at the end of a member; another may follow */
    bool begun;   /* gzip: something is unpacked, and no other format */
    bool returns; /* carriage returns end lines, as no newline does */
    z_stream z;
    unsigned char *raw, *text; /* text: gzip, what was unpacked to look at it */
    size_t at, used, text_at, text_used;
};

void co_source_close(struct co_source *s) {
    if (!s) {
        return;
    }
    if (s->packed) {
        (void)inflateEnd(&s->z);
    }
    co_closep(&s->fd);
    free(s->text);
    free(s->raw);
    free(s->path);
    free(s);
}

/* Reads what is there, at least one byte unless the file ends. */
static int bytes_read(
    struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err) {
    struct pollfd one = {.fd = s->fd, .events = POLLIN};
    ssize_t n;

    do {
        int ready = s->pipe ? poll(&one, 1, PIPE_MS) : 1;
        if (ready == 0) {
            return co_err_set(err, CO_TIMEOUT,
                "\"%s\" is a pipe, and nobody has written to it for %d s", s->path, PIPE_MS / 1000);
        }
        /* no deadline: a file, or a pipe that has something */
        n = ready < 0 ? ready : read(s->fd, ret, room);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n < 0) {
        return co_err_errno(err, errno, "\"%s\"", s->path);
    }
    *ret_n = (size_t)n;
    return 0;
}

/* Reads behind the raw bytes that are unread; *ret_more false: the file ends. */
static int raw_fill(struct co_source *s, bool *ret_more, struct co_err *err) {
    size_t n = 0;

    memmove(s->raw, s->raw + s->at, s->used - s->at);
    s->used -= s->at;
    s->at = 0;
    int rc = bytes_read(s, s->raw + s->used, RAW_SIZE - s->used, &n, err);
    s->used += n;
    *ret_more = n > 0;
    return rc;
}

/* Has at least n raw bytes ready, or all that there are. */
static int raw_need(struct co_source *s, size_t n, struct co_err *err) {
    bool more = true;

    while (more && s->used - s->at < n) {
        CO_TRY(raw_fill(s, &more, err));
    }
    return 0;
}

static bool begins(const struct co_source *s, const char *head, size_t len) {
    return s->used - s->at >= len && memcmp(s->raw + s->at, head, len) == 0;
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
        while (s->at < s->used && s->raw[s->at] == 0) {
            s->at++;
        }
        if (s->at < s->used) {
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
    *ret_ends = rc == 0 && s->used == s->at;
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
        if (s->used == s->at) {
            return damaged(s, "ends in the middle: the file was cut", err);
        }
        s->z.next_in = s->raw + s->at;
        s->z.avail_in = (uInt)(s->used - s->at);
        s->z.next_out = ret;
        s->z.avail_out = (uInt)room;
        int status = inflate(&s->z, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
            return damaged(s, s->z.msg ? s->z.msg : "is wrong", err);
        }
        s->at = s->used - s->z.avail_in;
        s->between = status == Z_STREAM_END;
        *ret_n = room - s->z.avail_out;
    }
    const char *other = s->begun ? NULL : other_format(ret, *ret_n);
    s->begun = true;
    return other ? unsupported(s, other, err) : 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

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

/* Whether these first bytes have carriage returns and no newline.  One at their end may belong to a
 * newline behind them. */
static bool has_returns(const void *bytes, size_t n) {
    return n > 1 && memchr(bytes, '\r', n - 1) && !memchr(bytes, '\n', n);
}

/* Reads up to the first newline, or as much as there is room for. */
static int plain_look(struct co_source *s, struct co_err *err) {
    const char *other = other_format(s->raw + s->at, s->used - s->at);
    bool more = true;
    if (other) {
        return unsupported(s, other, err);
    }

    while (more && s->used < RAW_SIZE && !memchr(s->raw, '\n', s->used)) {
        CO_TRY(raw_fill(s, &more, err));
    }
    s->returns = has_returns(s->raw, s->used);
    return 0;
}

static int packed_look(struct co_source *s, struct co_err *err) {
    size_t n = 1;
    int rc = 0;

    if (inflateInit2(&s->z, GZIP_WINDOW) != Z_OK) {
        return co_err_set(err, CO_NOMEMORY, "\"%s\": no memory to unpack it", s->path);
    }
    s->packed = true;
    s->text = co_xmalloc(RAW_SIZE);
    while (rc == 0 && n > 0 && s->text_used < RAW_SIZE && !memchr(s->text, '\n', s->text_used)) {
        rc = unpack(s, s->text + s->text_used, RAW_SIZE - s->text_used, &n, err);
        s->text_used += rc == 0 ? n : 0;
    }
    s->returns = has_returns(s->text, s->text_used);
    return rc;
}

/* Finds out from the first bytes what it is, and how its lines end. */
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

    if (!s->packed && n > s->used - s->at && fstat(s->fd, &st) == 0) {
        off_t here = lseek(s->fd, 0, SEEK_CUR) - (off_t)(s->used - s->at);

        if (here >= 0 && (uint64_t)(st.st_size - here) >= n &&
            lseek(s->fd, here + (off_t)n, SEEK_SET) >= 0) {
            s->at = s->used = 0;
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
    CO_CLEANUP(co_source_closep) struct co_source *s = co_xcalloc(1, sizeof(*s));

    s->path = co_xstrdup(path);
    s->raw = co_xmalloc(RAW_SIZE);
    s->fd = -1;
    int rc = file_open(s, first, err);
    rc = rc == 0 ? head_read(s, err) : rc;
    rc = rc == 0 && offset > 0 ? bytes_skip(s, offset, err) : rc;
    if (rc == 0) {
        *ret_source = co_steal_ptr(s);
    }
    return rc;
}

/* Takes up to room bytes of those from *at to used. */
static size_t taken(const unsigned char *from, size_t *at, size_t used, void *ret, size_t room) {
    size_t n = used - *at < room ? used - *at : room;

    memcpy(ret, from + *at, n);
    *at += n;
    return n;
}

int co_source_read(struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err) {
    char *bytes = ret;

    *ret_n = s->packed ? taken(s->text, &s->text_at, s->text_used, ret, room)
                       : taken(s->raw, &s->at, s->used, ret, room);
    if (*ret_n == 0) {
        CO_TRY((s->packed ? unpack : bytes_read)(s, ret, room, ret_n, err));
    }
    for (size_t i = 0; s->returns && i < *ret_n; i++) {
        bytes[i] = (char)(bytes[i] == '\r' ? '\n' : bytes[i]);
    }
    return 0;
}
