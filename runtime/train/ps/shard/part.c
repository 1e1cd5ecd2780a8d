/* What dense and sparse tables share: reading floats from frames, and reporting NaN and Inf. */
#include "runtime/train/ps/shard/part.h"

#include "common/bytes.h"
#include "runtime/train/ps/glog.h"

float *shard_floats(const struct rpc_frame *f, size_t offset) {
    float *p = (float *)(void *)(f->payload + offset);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    co_copy_f32(p, p, (f->head.bytes - offset) / sizeof(float));
#endif
    return p;
}

static bool is_load(const struct shard_tables *t) {
    return t->kind == RPC_FRAME_RESTORE_DENSE || t->kind == RPC_FRAME_RESTORE_SPARSE;
}

/* How the current frame brought the bad values: the verb of the message. */
static const char *deed(const struct shard_tables *t) {
    return t->kind == RPC_FRAME_PUT_DENSE ? "gave NaN or Inf as first values"
           : is_load(t)                   ? "loaded NaN or Inf"
                                          : "pushed NaN or Inf";
}

bool shard_takes_nonfinite(const struct shard_tables *t) {
    return t->config.nonfinite == RT_NONFINITE_ALLOW ||
           (is_load(t) && t->config.nonfinite != RT_NONFINITE_SKIP);
}

int shard_note_nonfinite(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const char *what, uint64_t which, struct co_err *err) {
    struct co_err e = {0};
    int rc = co_err_set(&e, CO_INVALID, "trainer %u %s to table \"%s\", %s %llu", trainer, deed(t),
        st->table->name, what, (unsigned long long)which);
    st->nonfinite++;
    if (!st->warned[trainer]) {
        st->warned[trainer] = true;
        ps_log_warn("%s: %s; more of it is only counted", e.msg,
            t->config.nonfinite == RT_NONFINITE_SKIP ? "left out" : "refused");
    }
    if (t->config.nonfinite == RT_NONFINITE_SKIP) {
        return 0;
    }
    return co_err_set(
        err, rc, "%s; refused (servers with PADDLE_PS_NONFINITE=skip leave it out)", e.msg);
}

void shard_note_overflow(struct shard_table *st, const char *what, uint64_t which, uint64_t n) {
    st->nonfinite += n;
    if (!st->overflowed) {
        st->overflowed = true;
        ps_log_warn("table \"%s\", %s %llu: an update with a large gradient overflowed, and %s; "
                    "clip_value or clip_norm of the optimizer bound gradients; more of it is only "
                    "counted",
            st->table->name, what, (unsigned long long)which,
            st->mode == RT_GEO ? "was left out"
                               : "its values or its optimizer state are infinite or NaN now");
    }
}
