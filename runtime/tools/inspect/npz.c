/* Layout of an archive: for each array a local header, the .npy header, the data; then the central
 * directory.  PKWARE's APPNOTE 6.3.9: 4.3.7 local header, 4.3.12 directory, 4.3.14 and 4.3.15 its
 * 64-bit end, 4.3.16 its end, 4.5.3 the 64-bit extra field.  .npy: NumPy's format 1.0. */
#include "runtime/tools/inspect/npz.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/crc.h"
#include "common/size.h"
#include "runtime/train/ckpt/disk.h"

enum {
    LOCAL = 30,
    LOCAL_EXTRA = 20,
    CENTRAL = 46,
    CENTRAL_EXTRA = 28,
    END64 = 56,
    LOCATOR = 20,
    END = 22,
    VERSION = 45,  /* that has 64-bit sizes */
    DATE = 0x0021, /* 1 January 1980: the same arrays make the same file */
    ALIGN = 64,
    NPY_MAX = 512,
    COPY = 1 << 16,
};

struct array {
    char name[INSPECT_NPZ_NAME_MAX]; /* with ".npy" */
    uint64_t local, begin, data, end;
};

struct inspect_npz {
    int fd;
    char *path, *aside;
    bool single, done;
    uint64_t end;
    uint32_t n;
    struct array arrays[INSPECT_NPZ_ARRAYS_MAX];
};

static int put(
    struct inspect_npz *z, uint64_t at, const void *data, size_t len, struct co_err *err) {
    for (const char *p = data; len > 0;) {
        ssize_t n = pwrite(z->fd, p, len, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return co_err_errno(err, errno, "cannot write \"%s\"", z->aside);
        }
        size_t k = n > 0 ? (size_t)n : 0;
        p += k;
        at += k;
        len -= k;
    }
    return 0;
}

int inspect_npz_create(
    const char *path, bool single, struct inspect_npz **ret, struct co_err *err) {
    CO_CLEANUP(inspect_npz_closep) struct inspect_npz *z = co_xcalloc(1, sizeof(*z));
    z->single = single;
    z->fd = -1;
    CO_TRY(co_file_target(path, &z->path, err));
    CO_TRY(co_file_aside(z->path, 0666, &z->fd, &z->aside, err));
    *ret = co_steal_ptr(z);
    return 0;
}

/* The header with its padding; bytes, 0: too long. */
static size_t npy_header(char to[NPY_MAX], const char *descr, uint64_t rows, uint64_t columns) {
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    char shape[64];
    (void)snprintf(
        shape, sizeof(shape), columns ? "%" PRIu64 ", %" PRIu64 : "%" PRIu64 ",", rows, columns);
    int text = snprintf(to + 10, NPY_MAX - 10,
        "{'descr': %s, 'fortran_order': False, 'shape': (%s), }", descr, shape);
    size_t len = (10 + (size_t)text + 1 + ALIGN - 1) / ALIGN * ALIGN;
    if (text < 0 || len > NPY_MAX) {
        return 0;
    }
    memset(to + 10 + text, ' ', len - 10 - (size_t)text);
    memcpy(to, magic, sizeof(magic));
    co_put_u16((unsigned char *)to + 8, (uint16_t)(len - 10));
    to[len - 1] = '\n';
    return len;
}

int inspect_npz_add(struct inspect_npz *z, const char *name, const char *descr, uint64_t rows,
    uint64_t columns, uint64_t item_bytes, uint32_t *ret_index, struct co_err *err) {
    struct array *a = &z->arrays[z->n];
    char header[NPY_MAX];
    size_t len = npy_header(header, descr, rows, columns);
    if (z->n == (z->single ? 1 : INSPECT_NPZ_ARRAYS_MAX) || len == 0 ||
        snprintf(a->name, sizeof(a->name), "%s.npy", name) >= (int)sizeof(a->name)) {
        return co_err_set(err, CO_INVALID, "\"%s\": no room for the array \"%s\"", z->path, name);
    }
    for (uint32_t i = 0; i < z->n; i++) { /* names of tables may have dots */
        if (co_streq(z->arrays[i].name, a->name)) {
            return co_err_set(err, CO_INVALID,
                "\"%s\": two tables both make the array \"%s\", expected one: export them one by "
                "one, "
                "by --table=NAME",
                z->path, name);
        }
    }
    uint64_t bytes = co_size_mul(co_size_mul(rows, item_bytes), columns ? columns : 1);
    if (bytes > INT64_MAX / 2 || z->end > INT64_MAX / 2) {
        return co_err_set(err, CO_INVALID, "\"%s\": the array \"%s\" is too large", z->path, name);
    }
    a->local = z->end;
    a->begin = z->end + (z->single ? 0 : LOCAL + strlen(a->name) + LOCAL_EXTRA);
    a->data = a->begin + len;
    z->end = a->end = a->data + bytes;
    *ret_index = z->n++;
    return put(z, a->begin, header, len, err);
}

int inspect_npz_write(struct inspect_npz *z, uint32_t index, uint64_t at, const void *data,
    size_t len, struct co_err *err) {
    const struct array *a = &z->arrays[index];
    if (at > a->end - a->data || len > a->end - a->data - at) {
        return co_err_set(err, CO_INTERNAL, "\"%s\": more than \"%s\" has", z->path, a->name);
    }
    return put(z, a->data + at, data, len, err);
}

/* ---- the archive ---- */

static int checksum(
    const struct inspect_npz *z, const struct array *a, uint32_t *ret, struct co_err *err) {
    unsigned char piece[COPY];
    *ret = 0;
    for (uint64_t at = a->begin; at < a->end;) {
        size_t want = a->end - at < COPY ? (size_t)(a->end - at) : COPY;
        ssize_t n = pread(z->fd, piece, want, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return co_err_errno(err, errno, "cannot read \"%s\"", z->aside);
        }
        size_t got = n > 0 ? (size_t)n : 0;
        if (n == 0) { /* behind the last byte that was written: zeros */
            memset(piece, 0, want);
            got = want;
        }
        *ret = co_crc(CO_CRC32, *ret, piece, got);
        at += got;
    }
    return 0;
}

/* What both headers of an array have in common: from the version to the lengths. */
static void put_common(unsigned char *to, const struct array *a, uint32_t crc, unsigned extra) {
    co_put_u16(to, VERSION);
    co_put_u16(to + 2, 0); /* flags */
    co_put_u16(to + 4, 0); /* stored */
    co_put_u16(to + 6, 0); /* time */
    co_put_u16(to + 8, DATE);
    co_put_u32(to + 10, crc);
    co_put_u32(to + 14, UINT32_MAX); /* sizes: in the extra field */
    co_put_u32(to + 18, UINT32_MAX);
    co_put_u16(to + 22, (uint16_t)strlen(a->name));
    co_put_u16(to + 24, (uint16_t)extra);
}

static void put_extra(unsigned char *to, const struct array *a, unsigned extra) {
    co_put_u16(to, 1);
    co_put_u16(to + 2, (uint16_t)(extra - 4));
    co_put_u64(to + 4, a->end - a->begin);
    co_put_u64(to + 12, a->end - a->begin);
    if (extra == CENTRAL_EXTRA) {
        co_put_u64(to + 20, a->local);
    }
}

static int finish_array(
    struct inspect_npz *z, const struct array *a, uint64_t *directory, struct co_err *err) {
    unsigned char b[CENTRAL + INSPECT_NPZ_NAME_MAX + CENTRAL_EXTRA] = {0};
    size_t name = strlen(a->name);
    uint32_t crc;
    CO_TRY(checksum(z, a, &crc, err));
    co_put_u32(b, 0x04034b50);
    put_common(b + 4, a, crc, LOCAL_EXTRA);
    memcpy(b + LOCAL, a->name, name);
    put_extra(b + LOCAL + name, a, LOCAL_EXTRA);
    CO_TRY(put(z, a->local, b, LOCAL + name + LOCAL_EXTRA, err));
    memset(b, 0, sizeof(b));
    co_put_u32(b, 0x02014b50);
    co_put_u16(b + 4, VERSION);
    put_common(b + 6, a, crc, CENTRAL_EXTRA);
    co_put_u32(b + 42, UINT32_MAX);
    memcpy(b + CENTRAL, a->name, name);
    put_extra(b + CENTRAL + name, a, CENTRAL_EXTRA);
    size_t len = CENTRAL + name + CENTRAL_EXTRA;
    CO_TRY(put(z, *directory, b, len, err));
    *directory += len;
    return 0;
}

static int finish_archive(struct inspect_npz *z, struct co_err *err) {
    uint64_t end = z->end;
    for (uint32_t i = 0; i < z->n; i++) {
        CO_TRY(finish_array(z, &z->arrays[i], &end, err));
    }
    unsigned char b[END64 + LOCATOR + END] = {0};
    co_put_u32(b, 0x06064b50);
    co_put_u64(b + 4, END64 - 12);
    co_put_u16(b + 12, VERSION);
    co_put_u16(b + 14, VERSION);
    co_put_u64(b + 24, z->n);
    co_put_u64(b + 32, z->n);
    co_put_u64(b + 40, end - z->end);
    co_put_u64(b + 48, z->end);
    unsigned char *locator = b + END64, *last = locator + LOCATOR;
    co_put_u32(locator, 0x07064b50);
    co_put_u64(locator + 8, end);
    co_put_u32(locator + 16, 1);
    co_put_u32(last, 0x06054b50);
    co_put_u16(last + 8, (uint16_t)z->n);
    co_put_u16(last + 10, (uint16_t)z->n);
    co_put_u32(last + 12, (uint32_t)(end - z->end));
    co_put_u32(last + 16, UINT32_MAX);
    return put(z, end, b, sizeof(b), err);
}

int inspect_npz_finish(struct inspect_npz *z, struct co_err *err) {
    if (!z->single) {
        CO_TRY(finish_archive(z, err));
    } else if (ftruncate(z->fd, (off_t)z->end) < 0) {
        return co_err_errno(err, errno, "cannot write \"%s\"", z->aside);
    }
    CO_TRY(ckpt_disk_sync(z->fd, z->aside, err));
    CO_TRY(ckpt_disk_rename(z->aside, z->path, err));
    z->done = true;
    return 0;
}

void inspect_npz_close(struct inspect_npz *z) {
    if (z) {
        if (z->fd >= 0) {
            co_close(z->fd);
            if (!z->done) {
                (void)unlink(z->aside);
            }
        }
        free(z->path);
        free(z->aside);
        free(z);
    }
}
