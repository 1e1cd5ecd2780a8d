/* Step, flush, barrier, finish, figures: where trainers wait for each other. */
#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/rpc/bytes.h"

/* ---- step ---- */

/* One empty frame to every shard of every server. */
static int to_all_shards(struct rt_client *c, const char *what, uint8_t kind, uint32_t table,
    uint64_t aux, struct rt_call **ret, struct co_err *err) {
    struct rt_call *call = rt_call_new(c, what, NULL, c->base[c->n_links]);
    for (uint32_t s = 0; s < c->n_links; s++) {
        for (uint32_t g = c->base[s]; g < c->base[s + 1]; g++) {
            struct rt_frame *f = NULL;
            int rc = rt_frame_new(kind, 0, &f, err);
            if (rc < 0) {
                rt_call_free(call);
                return rc;
            }
            f->head.table = (uint16_t)table;
            f->head.shard = g - c->base[s];
            f->head.aux = aux;
            rt_call_frame(call, g, s, f, 0);
        }
    }
    *ret = call;
    return 0;
}

static int read_failure(struct rt_client *c, struct co_err *err) {
    pthread_mutex_lock(&c->m);
    struct co_err failed = c->failed;
    pthread_mutex_unlock(&c->m);
    return failed.code ? co_err_set(err, failed.code, "%s", failed.msg) : 0;
}

int rt_step(struct rt_client *c, struct co_err *err) {
    if (c->options.mode == RT_ASYNC) {
        return read_failure(c, err);
    }
    struct rt_call *call = NULL;
    int rc = to_all_shards(c, "step", RT_FRAME_STEP, 0, ++c->steps, &call, err);
    if (rc < 0) {
        return rc;
    }
    rt_call_start(call);
    rc = rt_call_wait(call, c->options.barrier_timeout_ms, err);
    for (uint32_t i = 0; i < c->n_tables && rc == 0; i++) {
        float *w = co_steal_ptr(c->exchanges[i].w);
        rc = w ? rt_pull_dense(c, i, w, err) : 0;
    }
    return rc;
}

/* ---- flush, barrier, finish ---- */

static bool anything_under_way(const struct rt_client *c) {
    bool any = c->detached > 0;
    for (uint32_t i = 0; i < c->n_tables; i++) {
        any = any || c->exchanges[i].busy;
    }
    return any;
}

int rt_flush(struct rt_client *c, struct co_err *err) {
    int64_t begin = net_now();
    bool in_time = true;
    pthread_mutex_lock(&c->m);
    while (anything_under_way(c) && !c->failed.code && in_time) {
        in_time = rt_client_wait_moved(c, begin, &c->moved_ms, c->options.call_timeout_ms);
    }
    pthread_mutex_unlock(&c->m);
    if (!in_time) {
        return co_err_set(err, CO_TIMEOUT, "flush: pushes were not answered within %lld ms",
            (long long)c->options.call_timeout_ms);
    }
    return read_failure(c, err);
}

/* The same control message to the first n servers. */
static int send_control(struct rt_client *c, const char *what, const Rt__Control *m, uint32_t n,
    int64_t timeout_ms, struct co_err *err) {
    struct rt_call *call = rt_call_new(c, what, NULL, n);
    for (uint32_t i = 0; i < n; i++) {
        struct rt_frame *f = NULL;
        int rc = rt_control_pack(m, NULL, &f, err);
        if (rc < 0) {
            rt_call_free(call);
            return rc;
        }
        rt_call_frame(call, i, i, f, 0);
    }
    rt_call_start(call);
    return rt_call_wait(call, timeout_ms, err);
}

bool rt_client_behind(struct rt_client *c) {
    return c->barriers < c->barriers_done;
}

int rt_barrier(struct rt_client *c, struct co_err *err) {
    int rc = rt_flush(c, err);
    if (rc < 0) {
        return rc;
    }
    if (rt_client_behind(c)) {
        c->barriers++;
        return 0;
    }
    Rt__Barrier b = RT__BARRIER__INIT;
    b.number = ++c->barriers;
    Rt__Control m = RT__CONTROL__INIT;
    m.body_case = RT__CONTROL__BODY_BARRIER;
    m.barrier = &b;
    return send_control(c, "barrier", &m, 1, c->options.barrier_timeout_ms, err);
}

int rt_finish(struct rt_client *c, struct co_err *err) {
    int rc = rt_flush(c, err);
    if (rc == 0) {
        /* From now on servers may end when they like. */
        pthread_mutex_lock(&c->m);
        c->leaving = true;
        pthread_mutex_unlock(&c->m);
        Rt__Finish f = RT__FINISH__INIT;
        Rt__Control m = RT__CONTROL__INIT;
        m.body_case = RT__CONTROL__BODY_FINISH;
        m.finish = &f;
        rc = send_control(c, "finish", &m, c->n_links, c->options.call_timeout_ms, err);
        c->finished = rc == 0;
    }
    rt_client_close(c);
    return rc;
}

/* ---- figures ---- */

static int take_stat(
    struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err) {
    (void)p;
    struct rt_table_stat *st = call->arg;
    uint64_t *const numbers[RT_FRAME_STAT_NUMBERS] = {
        &st->rows, &st->bytes, &st->pulls, &st->pushes, &st->nonfinite};
    if (a->head.bytes != 8 * RT_FRAME_STAT_NUMBERS) {
        return co_err_set(
            err, CO_INVALID, "%u bytes for %d numbers", a->head.bytes, RT_FRAME_STAT_NUMBERS);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(numbers); i++) {
        *numbers[i] += co_get_u64(a->payload + 8 * i);
    }
    return 0;
}

int rt_stat(struct rt_client *c, uint32_t table, struct rt_table_stat *ret, struct co_err *err) {
    if (table >= c->n_tables) {
        return co_err_set(err, CO_INVALID, "there is no table %u", table);
    }
    struct rt_call *call = NULL;
    int rc = to_all_shards(c, "stat", RT_FRAME_STAT, table, 0, &call, err);
    if (rc < 0) {
        return rc;
    }
    struct rt_table_stat sum = {0};
    call->arg = &sum;
    call->take = take_stat;
    rt_call_start(call);
    rc = rt_call_wait(call, c->options.call_timeout_ms, err);
    if (rc == 0) {
        sum.rows = c->tables[table].spec.kind == RT_DENSE ? 1 : sum.rows;
        *ret = sum;
    }
    return rc;
}
