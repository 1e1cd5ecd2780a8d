/* TFRecord: u64 length, u32 masked CRC-32C of these 8 bytes, data, u32 masked CRC-32C of the data;
 * little-endian.  Data: tensorflow.Event, of which four fields are needed:
 *
 *     Event   1 double wall_time   2 int64 step   3 string file_version   5 Summary
 *     Summary 1 Value;   Value  1 string tag   2 float simple_value */
#include "runtime/train/meter/events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/crc.h"
#include "common/loop.h"

enum { RECORD_MAX = 1024, HEAD = 12, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

struct meter_events {
    int fd;
    char *path;
};

/* ---- protobuf ---- */

static int put_varint(struct co_buf *b, uint64_t v, struct co_err *err) {
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v > 0);
    return co_buf_add(b, bytes, n, err);
}

static int put_key(struct co_buf *b, unsigned field, unsigned type, struct co_err *err) {
    return put_varint(b, field << 3 | type, err);
}

static int put_bytes(
    struct co_buf *b, unsigned field, const void *data, size_t len, struct co_err *err) {
    CO_TRY(put_key(b, field, LENGTH, err));
    CO_TRY(put_varint(b, len, err));
    return co_buf_add(b, data, len, err);
}

static int put_double(struct co_buf *b, unsigned field, double v, struct co_err *err) {
    unsigned char bytes[8];
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    co_put_u64(bytes, bits);
    CO_TRY(put_key(b, field, FIXED64, err));
    return co_buf_add(b, bytes, sizeof(bytes), err);
}

static int put_float(struct co_buf *b, unsigned field, float v, struct co_err *err) {
    unsigned char bytes[4];
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    co_put_u32(bytes, bits);
    CO_TRY(put_key(b, field, FIXED32, err));
    return co_buf_add(b, bytes, sizeof(bytes), err);
}

static int put_summary(struct co_buf *b, const char *name, double value, struct co_err *err) {
    CO_AUTOBUF struct co_buf v = CO_BUF(RECORD_MAX);
    CO_AUTOBUF struct co_buf summary = CO_BUF(RECORD_MAX);
    CO_TRY(put_bytes(&v, 1, name, strlen(name), err));
    CO_TRY(put_float(&v, 2, (float)value, err));
    CO_TRY(put_bytes(&summary, 1, v.data, v.len, err));
    return put_bytes(b, 5, summary.data, summary.len, err);
}

static int put_event(struct co_buf *b, double wall, uint64_t step, const char *name, double value,
    struct co_err *err) {
    static const char version[] = "brain.Event:2";
    CO_TRY(put_double(b, 1, wall, err));
    if (!name) {
        return put_bytes(b, 3, version, sizeof(version) - 1, err);
    }
    CO_TRY(put_key(b, 2, 0, err));
    CO_TRY(put_varint(b, step, err));
    return put_summary(b, name, value, err);
}

/* ---- TFRecord ---- */

static uint32_t masked_crc(const void *data, size_t len) {
    uint32_t crc = co_crc(CO_CRC32C, 0, data, len);
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

int meter_events_record(double wall, uint64_t step, const char *name, double value,
    struct co_buf *ret, struct co_err *err) {
    CO_AUTOBUF struct co_buf event = CO_BUF(RECORD_MAX);
    unsigned char head[HEAD], tail[4];
    CO_TRY(put_event(&event, wall, step, name, value, err));
    co_put_u64(head, event.len);
    co_put_u32(head + 8, masked_crc(head, 8));
    co_put_u32(tail, masked_crc(event.data, event.len));
    CO_TRY(co_buf_add(ret, head, sizeof(head), err));
    CO_TRY(co_buf_add(ret, event.data, event.len, err));
    return co_buf_add(ret, tail, sizeof(tail), err);
}

/* ---- the file ---- */

/* One write per record: readers see whole records only, even if this process is killed.  Readers
 * stop at a torn record, whatever follows it, so what was written of it is taken back. */
static int add_record(
    struct meter_events *e, uint64_t step, const char *name, double value, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(RECORD_MAX * 2);
    CO_TRY(meter_events_record((double)co_wall_ms() / 1e3, step, name, value, &b, err));
    for (size_t at = 0; at < b.len;) {
        ssize_t n = write(e->fd, b.data + at, b.len - at);
        if (n < 0 && errno != EINTR) {
            const int rc = co_err_errno(err, errno, "cannot write \"%s\"", e->path);
            struct stat st;
            if (at > 0 && fstat(e->fd, &st) == 0) {
                (void)!ftruncate(e->fd, st.st_size - (off_t)at);
            }
            return rc;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int make_dirs(char *dir, struct co_err *err) {
    for (char *p = dir + 1;; p++) {
        char was = *p;
        if (was == '/' || was == '\0') {
            *p = '\0';
            if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
                return co_err_errno(err, errno, "cannot make \"%s\"", dir);
            }
            *p = was;
        }
        if (was == '\0') {
            return 0;
        }
    }
}

CO_DEFINE_CLEANUP(struct meter_events *, meter_events_close)

int meter_events_open(const char *dir, struct meter_events **ret, struct co_err *err) {
    CO_AUTOFREE char *made = co_xstrdup(*dir ? dir : ".");
    char host[64] = "";
    CO_TRY(make_dirs(made, err));
    (void)gethostname(host, sizeof(host) - 1);
    CO_CLEANUP(meter_events_closep) struct meter_events *e = co_xcalloc(1, sizeof(*e));
    e->path = co_xasprintf("%s/events.out.tfevents.%lld.%s.%d", made, (long long)co_wall_seconds(),
        host, (int)getpid());
    e->fd = open(e->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (e->fd < 0) {
        return co_err_errno(err, errno, "cannot make \"%s\"", e->path);
    }
    CO_TRY(add_record(e, 0, NULL, 0, err));
    *ret = co_steal_ptr(e);
    return 0;
}

int meter_events_add(
    struct meter_events *e, uint64_t step, const char *name, double value, struct co_err *err) {
    return add_record(e, step, name, value, err);
}

void meter_events_close(struct meter_events *e) {
    if (e) {
        if (e->fd >= 0) {
            co_close(e->fd);
        }
        free(e->path);
        free(e);
    }
}
