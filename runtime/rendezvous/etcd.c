#include "runtime/rendezvous/internal.h"
static int etcd_start(struct rt_rdzv *m, void **ret, struct co_err *err) {
    (void)m;
    (void)ret;
    return co_err_set(err, CO_UNSUPPORTED, "etcd://");
}
const struct rt_rdzv_way rt_rdzv_etcd = {.start = etcd_start};
