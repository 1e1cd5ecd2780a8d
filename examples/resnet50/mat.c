/* Reads and writes MATLAB files.  Files are not trusted: every length is checked before its use. */
#include "examples/resnet50/mat.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/mem.h"

/* Data types of elements. */
enum {
    INT8 = 1,
    UINT8 = 2,
    INT16 = 3,
    UINT16 = 4,
    INT32 = 5,
    UINT32 = 6,
    SINGLE = 7,
    DOUBLE = 9,
    INT64 = 12,
    UINT64 = 13,
    MATRIX = 14,
    COMPRESSED = 15,
};
enum { HEADER = 128, TAG = 8, VERSION = 0x0100, LITTLE = 0x4d49 /* "IM" */, CLASS_DOUBLE = 6 };

/* The bytes that are still to be read; start serves error messages. */
struct cursor {
    const unsigned char *start, *at, *end;
};

struct element {
    uint32_t type;
    struct cursor data;
};

static int fault(const struct cursor *c, const char *what, struct co_err *err) {
    return co_err_set(err, CO_INVALID, "byte %zu: %s", (size_t)(c->at - c->start), what);
}

/* Reads the next element: a tag of eight bytes and data padded to eight bytes.  An element with up
 * to four bytes of data may have tag and data in eight bytes together. */
static int element_next(struct cursor *c, struct element *ret, struct co_err *err) {
    size_t left = (size_t)(c->end - c->at), head = TAG;

    if (left < TAG) {
        return fault(c, "the file ends within a tag", err);
    }
    uint32_t type = co_get_u32(c->at), size = co_get_u32(c->at + 4);
    bool small = type >> 16 != 0;
    if (small) {
        size = type >> 16;
        type &= 0xffffU;
        head = 4;
    }
    if (small ? size > 4 : size > left - TAG) {
        return fault(c, "an element is longer than what is left", err);
    }
    ret->type = type;
    ret->data = (struct cursor){c->start, c->at + head, c->at + head + size};
    size_t whole = small ? TAG : TAG + (type == COMPRESSED ? size : ((size_t)size + 7) / 8 * 8);
    c->at += whole < left ? whole : left;
    return 0;
}

static size_t type_size(uint32_t type) {
    switch (type) {
    case INT8:
    case UINT8:
        return 1;
    case INT16:
    case UINT16:
        return 2;
    case INT32:
    case UINT32:
    case SINGLE:
        return 4;
    case DOUBLE:
    case INT64:
    case UINT64:
        return 8;
    default:
        return 0;
    }
}

static double value_at(const unsigned char *p, uint32_t type) {
    uint64_t u64;
    uint32_t u32;
    double d;
    float f;

    switch (type) {
    case INT8:
        return (double)(int8_t)*p;
    case UINT8:
        return (double)*p;
    case INT16:
        return (double)(int16_t)co_get_u16(p);
    case UINT16:
        return (double)co_get_u16(p);
    case INT32:
        return (double)(int32_t)co_get_u32(p);
    case UINT32:
        return (double)co_get_u32(p);
    case SINGLE:
        u32 = co_get_u32(p);
        memcpy(&f, &u32, sizeof(f));
        return (double)f;
    case INT64:
        return (double)(int64_t)co_get_u64(p);
    case UINT64:
        return (double)co_get_u64(p);
    default:
        u64 = co_get_u64(p);
        memcpy(&d, &u64, sizeof(d));
        return d;
    }
}

static int values_take(
    const struct element *e, uint32_t **ret_values, size_t *ret_n, struct co_err *err) {
    size_t size = type_size(e->type), bytes = (size_t)(e->data.end - e->data.at);
    CO_AUTOFREE uint32_t *values = NULL;

    if (size == 0 || bytes % size || bytes / size > RN_MAT_VALUES_MAX) {
        return fault(&e->data, "no array of numbers, or too many", err);
    }
    values = co_xcalloc(bytes / size + 1, sizeof(*values));
    for (size_t i = 0; i < bytes / size; i++) {
        double value = value_at(e->data.at + i * size, e->type);

        if (!(value >= 0.0 && value <= (double)UINT32_MAX) || value != floor(value)) {
            return fault(&e->data, "a value is not a whole number from 0 to 2^32 - 1", err);
        }
        values[i] = (uint32_t)value;
    }
    *ret_values = co_steal_ptr(values);
    *ret_n = bytes / size;
    return 0;
}

/* Reads a matrix: flags, dimensions, name, values.  CO_NOTFOUND: it has another name. */
static int matrix_take(
    struct cursor c, const char *name, uint32_t **ret_values, size_t *ret_n, struct co_err *err) {
    struct element flags = {0}, dims = {0}, title = {0}, values = {0};

    CO_TRY(element_next(&c, &flags, err));
    CO_TRY(element_next(&c, &dims, err));
    CO_TRY(element_next(&c, &title, err));
    size_t length = (size_t)(title.data.end - title.data.at);
    if (title.type != INT8 || length != strlen(name) || memcmp(title.data.at, name, length) != 0) {
        return CO_NOTFOUND;
    }
    CO_TRY(element_next(&c, &values, err));
    return values_take(&values, ret_values, ret_n, err);
}

/* Inflates a whole zlib stream; the caller frees the result. */
static int inflate_all(const struct cursor *c, struct co_buf *ret, struct co_err *err) {
    z_stream z = {.next_in = (unsigned char *)c->at, .avail_in = (unsigned)(c->end - c->at)};
    int status = inflateInit(&z), rc = status == Z_OK ? 0 : CO_NOMEMORY;

    while (rc == 0 && status == Z_OK) {
        rc = co_buf_reserve(ret, 1 << 16, err);
        if (rc == 0) {
            z.next_out = (unsigned char *)ret->data + ret->len;
            z.avail_out = 1 << 16;
            status = inflate(&z, Z_NO_FLUSH);
            ret->len += (1 << 16) - z.avail_out;
        }
    }
    (void)inflateEnd(&z);
    return rc < 0 || status == Z_STREAM_END ? rc : fault(c, "a compressed element is corrupt", err);
}

static int compressed_take(const struct cursor *packed, const char *name, uint32_t **ret_values,
    size_t *ret_n, struct co_err *err) {
    CO_AUTOBUF struct co_buf plain = CO_BUF(RN_MAT_BYTES_MAX);
    struct element e = {0};
    CO_TRY(inflate_all(packed, &plain, err));
    const unsigned char *data = (const unsigned char *)plain.data;
    struct cursor c = {data, data, data + plain.len};
    CO_TRY(element_next(&c, &e, err));
    if (e.type != MATRIX) {
        return CO_NOTFOUND;
    }
    return matrix_take(e.data, name, ret_values, ret_n, err);
}

int rn_mat_parse(const unsigned char *data, size_t size, const char *name, uint32_t **ret_values,
    size_t *ret_n, struct co_err *err) {
    struct cursor c = {data, data, data + size};
    struct element e = {0};

    if (size < HEADER || co_get_u16(data + HEADER - 4) != VERSION ||
        co_get_u16(data + HEADER - 2) != LITTLE) {
        return co_err_set(err, CO_INVALID, "no little-endian MATLAB file of level 5");
    }
    c.at += HEADER;
    while (c.at < c.end) {
        int rc = element_next(&c, &e, err);

        if (rc == 0 && e.type == MATRIX) {
            rc = matrix_take(e.data, name, ret_values, ret_n, err);
        } else if (rc == 0) {
            rc = e.type == COMPRESSED ? compressed_take(&e.data, name, ret_values, ret_n, err)
                                      : CO_NOTFOUND;
        }
        if (rc != CO_NOTFOUND) {
            return rc;
        }
    }
    return co_err_set(err, CO_NOTFOUND, "no array \"%s\"", name);
}

int rn_mat_read(
    const char *path, const char *name, uint32_t **ret_values, size_t *ret_n, struct co_err *err) {
    CO_AUTOBUF struct co_buf file = CO_BUF(RN_MAT_BYTES_MAX);
    int rc = co_file_read(path, RN_MAT_BYTES_MAX, &file, err);

    if (rc < 0) {
        return rc;
    }
    rc = rn_mat_parse((const unsigned char *)file.data, file.len, name, ret_values, ret_n, err);
    return rc < 0 ? co_err_wrap(err, "%s", path) : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void element_begin(unsigned char **at, uint32_t type, uint32_t bytes) {
    co_put_u32(*at, type);
    co_put_u32(*at + 4, bytes);
    *at += TAG;
}

/* The padded size.  Padding needs no writing, as the memory is zeroed. */
static uint32_t padded(size_t bytes) {
    return (uint32_t)((bytes + 7) / 8 * 8);
}

static uint32_t array_bytes(const struct rn_mat_array *a) {
    return 4 * TAG + 8 + 8 + padded(strlen(a->name)) + padded(2 * a->n);
}

static unsigned char *array_put(unsigned char *at, const struct rn_mat_array *a) {
    size_t length = strlen(a->name);

    element_begin(&at, MATRIX, array_bytes(a));
    element_begin(&at, UINT32, 8);
    co_put_u32(at, CLASS_DOUBLE);
    at += 8;
    element_begin(&at, INT32, 8);
    co_put_u32(at, 1);
    co_put_u32(at + 4, (uint32_t)a->n);
    at += 8;
    element_begin(&at, INT8, (uint32_t)length);
    memcpy(at, a->name, length);
    at += padded(length);
    element_begin(&at, UINT16, (uint32_t)(2 * a->n));
    for (size_t i = 0; i < a->n; i++) {
        co_put_u16(at + 2 * i, (uint16_t)a->values[i]);
    }
    return at + padded(2 * a->n);
}

int rn_mat_write(
    const char *path, const struct rn_mat_array *arrays, size_t n, struct co_err *err) {
    CO_AUTOFREE unsigned char *file = NULL;
    size_t size = HEADER;

    for (size_t i = 0; i < n; i++) {
        size += TAG + array_bytes(&arrays[i]);
    }
    file = co_xcalloc(size, 1);
    (void)snprintf(
        (char *)file, HEADER - 12, "MATLAB 5.0 MAT-file, written by resnet50 --generate");
    co_put_u16(file + HEADER - 4, VERSION);
    co_put_u16(file + HEADER - 2, LITTLE);
    unsigned char *at = file + HEADER;
    for (size_t i = 0; i < n; i++) {
        at = array_put(at, &arrays[i]);
    }
    return co_file_write(path, file, size, 0644, err);
}
