#include "runtime/train/ps/spec.h"

#include <stdio.h>
#include <string.h>

static int check_name(const char *name, struct co_err *err) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t len = name ? strlen(name) : 0;
    if (len < 1 || len >= RT_TABLE_NAME_MAX || strspn(name, allowed) != len || name[0] == '.') {
        return co_err_set(err, CO_INVALID,
            "table name '%.80s' is not 1 to %d of letters, digits, '_', '-' and (not first) '.'",
            name ? name : "", RT_TABLE_NAME_MAX - 1);
    }
    return 0;
}

static int check_shape(const struct rt_table_spec *s, struct co_err *err) {
    if (s->kind == RT_DENSE && (s->size < 1 || s->size > RT_DENSE_SIZE_MAX)) {
        return co_err_set(err, CO_INVALID, "size %llu is not 1 to %llu",
            (unsigned long long)s->size, RT_DENSE_SIZE_MAX);
    }
    if (s->kind == RT_SPARSE && (s->dim < 1 || s->dim > RT_DIM_MAX)) {
        return co_err_set(err, CO_INVALID, "dim %u is not 1 to %d", s->dim, RT_DIM_MAX);
    }
    if (s->kind != RT_DENSE && s->kind != RT_SPARSE) {
        return co_err_set(err, CO_INVALID, "kind %d is neither dense nor sparse", (int)s->kind);
    }
    return 0;
}

static void point_spec(struct rt_table *t) {
    t->spec.name = t->name;
    t->spec.optimizer = t->optimizer;
    t->spec.init = t->init;
}

int rt_table_make(const struct rt_table_spec *spec, struct rt_table *ret, struct co_err *err) {
    int rc = check_name(spec->name, err);
    if (rc < 0) {
        return rc;
    }
    struct rt_table t = {.spec = *spec};
    rc = check_shape(spec, err);
    rc = rc < 0 ? rc : rt_optim_parse(spec->optimizer ? spec->optimizer : "sgd", &t.optim, err);
    rc = rc < 0 ? rc : rt_optim_format(&t.optim, t.optimizer, sizeof(t.optimizer), err);
    rc = rc < 0 ? rc : rt_initializer_parse(spec->init, spec->seed, &t.initializer, err);
    if (rc < 0) {
        return co_err_wrap(err, "table '%s'", spec->name);
    }
    if (spec->init && strlen(spec->init) >= sizeof(t.init)) {
        return co_err_set(err, CO_INVALID, "table '%s': initializer too long", spec->name);
    }
    /* What the kind does not use is not compared either. */
    t.spec.size = spec->kind == RT_DENSE ? spec->size : 0;
    t.spec.dim = spec->kind == RT_SPARSE ? spec->dim : 0;
    (void)snprintf(t.name, sizeof(t.name), "%s", spec->name);
    (void)snprintf(t.init, sizeof(t.init), "%s", spec->init && *spec->init ? spec->init : "zero");
    *ret = t;
    point_spec(ret);
    return 0;
}

void rt_table_copy(struct rt_table *to, const struct rt_table *from) {
    *to = *from;
    point_spec(to);
}

const char *rt_table_differs(const struct rt_table *a, const struct rt_table *b) {
    return strcmp(a->name, b->name) != 0             ? "name"
           : a->spec.kind != b->spec.kind            ? "kind"
           : a->spec.size != b->spec.size            ? "size"
           : a->spec.dim != b->spec.dim              ? "dim"
           : strcmp(a->optimizer, b->optimizer) != 0 ? "optimizer"
           : strcmp(a->init, b->init) != 0           ? "init"
           : a->spec.seed != b->spec.seed            ? "seed"
                                                     : NULL;
}

size_t rt_table_state(const struct rt_table *t, size_t n) {
    return rt_optim_state_floats(&t->optim, n);
}

struct rt_range rt_dense_part(struct rt_range whole, uint32_t parts, uint32_t i) {
    uint64_t per = (whole.n + parts - 1) / parts;
    per = (per + 15) / 16 * 16; /* cache lines are not shared */
    uint64_t begin = per * i < whole.n ? per * i : whole.n;
    uint64_t left = whole.n - begin;
    return (struct rt_range){whole.begin + begin, left < per ? left : per};
}

uint32_t rt_dense_chunks(uint64_t n) {
    return (uint32_t)((n + RT_DENSE_CHUNK - 1) / RT_DENSE_CHUNK);
}

struct rt_range rt_dense_chunk(struct rt_range shard, uint32_t chunk) {
    uint64_t at = (uint64_t)chunk * RT_DENSE_CHUNK;
    uint64_t left = at < shard.n ? shard.n - at : 0;
    return (struct rt_range){shard.begin + at, left < RT_DENSE_CHUNK ? left : RT_DENSE_CHUNK};
}

uint32_t rt_sparse_server(uint64_t id, uint32_t servers) {
    return (uint32_t)((rt_mix64(id) >> 32) * servers >> 32);
}

uint32_t rt_sparse_shard(uint64_t id, uint32_t shards) {
    return (uint32_t)((rt_mix64(id) & 0xffffffffU) * shards >> 32);
}

int rt_table_init_row(
    const struct rt_table_spec *spec, uint64_t id, float *ret_row, struct co_err *err) {
    struct rt_initializer in;
    int rc = rt_initializer_parse(spec->init, spec->seed, &in, err);
    if (rc == 0) {
        rt_initializer_row(&in, id, spec->dim, ret_row);
    }
    return rc;
}
