/* Parses a strategy file and the FLAGS_communicator_* variables into client options.  One table has
 * all keys and variables, so a new one is a row. */
#include "runtime/train/ps/client/strategy.h"

#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/json/json.h"
#include "common/mem.h"
#include "common/near.h"
#include "common/parse.h"
#include "common/yaml/yaml.h"
#include "runtime/train/ps/glog.h"

/* ---- the rows ---- */

enum group { TOP, CONFIGS };

/* What a value does to the options.  POLLS: a time in units of POLL_MS.  SGD: merged gradients are
 * summed (1) or averaged (0).  UNUSED: it is accepted, and has no meaning here. */
enum use { NUMBER, POLLS, SGD, MODE, STEPS, UNUSED };

struct row {
    enum group group;
    const char *key; /* fleet's name; NULL: only the variable */
    int var;         /* -1: only the key */
    enum use use;
    size_t offset; /* NUMBER, STEPS: of a uint32_t in rt_client_options */
    int64_t min, max;
};

enum { NO_VAR = -1, COUNT_MAX = 1 << 16, POLL_MS = 10 };

#define AT(field) offsetof(struct rt_client_options, field)

static const struct row rows[] = {
    {TOP, "a_sync", NO_VAR, MODE, 0, 0, 1},
    {TOP, "a_sync_configs", NO_VAR, UNUSED, 0, 0, 0}, /* the group */
    {TOP, "backup", NO_VAR, NUMBER, AT(backup), 0, COUNT_MAX},
    {TOP, "staleness", NO_VAR, NUMBER, AT(staleness), 0, COUNT_MAX},
    {CONFIGS, "k_steps", NO_VAR, STEPS, AT(k_steps), -1, INT32_MAX},
    {CONFIGS, "max_merge_var_num", CO_VAR_COMM_MERGE, NUMBER, AT(merge_max), 1, COUNT_MAX},
    {CONFIGS, "send_queue_size", CO_VAR_COMM_QUEUE, NUMBER, AT(queue_max), 1, COUNT_MAX},
    {CONFIGS, "min_send_grad_num_before_recv", CO_VAR_COMM_MIN_SEND, NUMBER, AT(recv_after), 1,
        COUNT_MAX},
    {CONFIGS, "thread_pool_size", CO_VAR_COMM_THREADS, NUMBER, AT(send_threads), 1, 256},
    {CONFIGS, "send_wait_times", CO_VAR_COMM_WAIT, POLLS, 0, 0, COUNT_MAX},
    {CONFIGS, NULL, CO_VAR_COMM_SGD, SGD, 0, 0, 1},
    /* New values come with the answers to gradients, so no thread is needed for them. */
    {CONFIGS, "independent_recv_thread", CO_VAR_COMM_RECV, UNUSED, 0, 0, 1},
    {CONFIGS, "runtime_split_send_recv", NO_VAR, UNUSED, 0, 0, 0},
    {CONFIGS, "launch_barrier", NO_VAR, UNUSED, 0, 0, 0},
    {CONFIGS, "heter_worker_device_guard", NO_VAR, UNUSED, 0, 0, 0},
    {CONFIGS, "lr_decay_steps", NO_VAR, UNUSED, 0, 0, 0},
    {CONFIGS, "use_ps_gpu", NO_VAR, UNUSED, 0, 0, 0},
    {CONFIGS, "use_gpu_graph", NO_VAR, UNUSED, 0, 0, 0},
};

static void set_number(struct rt_client_options *o, const struct row *r, int64_t value) {
    uint32_t n = (uint32_t)value;
    memcpy((char *)o + r->offset, &n, sizeof(n));
}

/* Applies the value of a row other than a_sync. */
static void apply(struct rt_client_options *o, const struct row *r, int64_t value) {
    switch (r->use) {
    case NUMBER:
        set_number(o, r, value);
        break;
    case STEPS:
        set_number(o, r, value > 0 ? value : 0);
        break;
    case POLLS:
        o->send_wait_ms = value * POLL_MS;
        break;
    case SGD:
        o->merge_mean = value == 0;
        break;
    case MODE:
    case UNUSED:
        break;
    }
}

/* ---- the file ---- */

struct reading {
    const char *name;
    const struct co_yaml *yaml;
    struct psc_strategy *to;
    bool async;
};

static int line_of(const struct reading *r, enum group group, const char *key) {
    CO_AUTOFREE char *path =
        group == TOP ? co_xstrdup(key) : co_xasprintf("a_sync_configs.%s", key);
    return co_yaml_line(r->yaml, path);
}

static int refuse_key(
    const struct reading *r, enum group group, const char *key, struct co_err *err) {
    const char *nearest = NULL;
    struct co_near near = co_near_begin(key, strlen(key));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (rows[i].group == group && rows[i].key && co_near_try(&near, rows[i].key)) {
            nearest = rows[i].key;
        }
    }
    return co_err_set(err, CO_INVALID, "%s:%d: unknown key \"%.100s\"%s%s%s%s", r->name,
        line_of(r, group, key), key, group == CONFIGS ? " in a_sync_configs" : "",
        nearest ? ": did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static const struct row *find_row(enum group group, const char *key) {
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (rows[i].group == group && rows[i].key && strcmp(rows[i].key, key) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* A boolean may also be 0 or 1, as in fleet's own messages. */
static int read_value(const struct reading *r, const struct row *row, const json_t *v, int64_t *ret,
    struct co_err *err) {
    int64_t n = json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
    bool boolean = row->use == MODE || row->use == SGD;
    bool fits = boolean ? json_is_boolean(v) || json_is_integer(v) : json_is_integer(v);
    if (!fits || n < row->min || n > row->max) {
        CO_AUTOFREE char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        const char *shown = text ? text : "?";
        int line = line_of(r, row->group, row->key);
        if (boolean) {
            return co_err_set(err, CO_INVALID, "%s:%d: %s is %.60s, expected true or false",
                r->name, line, row->key, shown);
        }
        return co_err_set(err, CO_INVALID, "%s:%d: %s is %.60s, expected %lld to %lld", r->name,
            line, row->key, shown, (long long)row->min, (long long)row->max);
    }
    *ret = n;
    return 0;
}

static int read_key(
    struct reading *r, enum group group, const char *key, const json_t *v, struct co_err *err) {
    const struct row *row = find_row(group, key);
    if (!row) {
        return refuse_key(r, group, key, err);
    }
    if (row->use == UNUSED) {
        return co_buf_addf(&r->to->unused, err, "%s%s", r->to->unused.len > 0 ? ", " : "", key);
    }
    int64_t value = 0;
    int rc = read_value(r, row, v, &value, err);
    if (rc == 0 && row->use == MODE) {
        r->async = value != 0;
    } else if (rc == 0) {
        apply(&r->to->options, row, value);
    }
    return rc;
}

static int read_group(struct reading *r, enum group group, json_t *o, struct co_err *err) {
    const char *key;
    json_t *v;
    if (!json_is_object(o)) {
        return co_err_set(err, CO_INVALID, "%s: expected keys and values%s", r->name,
            group == CONFIGS ? " in a_sync_configs" : "");
    }
    json_object_foreach(o, key, v) {
        CO_TRY(group == TOP && strcmp(key, "a_sync_configs") == 0
                   ? read_group(r, CONFIGS, v, err)
                   : read_key(r, group, key, v, err));
    }
    return 0;
}

static int choose_mode(const struct reading *r, struct co_err *err) {
    struct rt_client_options *o = &r->to->options;
    if (!r->async && o->k_steps > 0) {
        return co_err_set(err, CO_INVALID,
            "%s:%d: k_steps is %u, which is geo mode and needs a_sync: true", r->name,
            line_of(r, CONFIGS, "k_steps"), o->k_steps);
    }
    o->mode = !r->async ? RT_SYNC : o->k_steps > 0 ? RT_GEO : RT_ASYNC;
    return 0;
}

int psc_strategy_parse(
    const char *name, const char *text, size_t len, struct psc_strategy *ret, struct co_err *err) {
    *ret = (struct psc_strategy){.unused = CO_BUF(4096)};
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    CO_AUTOJSON json_t *values = NULL;
    CO_TRY(co_yaml_open(name, text, len, &y, err));
    int rc = co_yaml_next(y, &values, err);
    if (rc == CO_NOTFOUND) {
        return co_err_set(err, CO_INVALID, "%s is empty, expected a_sync", name);
    }
    CO_TRY(rc);
    struct reading r = {.name = name, .yaml = y, .to = ret, .async = true};
    CO_TRY(read_group(&r, TOP, values, err));
    return choose_mode(&r, err);
}

void psc_strategy_done(struct psc_strategy *s) {
    co_buf_done(&s->unused);
}

/* ---- the environment and the file ---- */

static int read_environment(struct rt_client_options *o, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        const char *name = r->var == NO_VAR ? NULL : co_contract[r->var].name;
        const char *text = name ? co_contract_getenv((enum co_var)r->var) : NULL;
        int64_t value = 0;
        if (!text || !*text) {
            continue;
        }
        bool yes = false;
        CO_TRY(co_contract[r->var].type == CO_TYPE_BOOL
                   ? co_parse_bool(name, text, &yes, err)
                   : co_parse_i64(name, text, r->min, r->max, &value, err));
        apply(o, r, co_contract[r->var].type == CO_TYPE_BOOL ? yes : value);
    }
    return 0;
}

/* Adds what `from` says and `to` does not. */
static void add_options(struct rt_client_options *to, const struct rt_client_options *from) {
    to->mode = to->mode ? to->mode : from->mode;
    to->send_wait_ms = to->send_wait_ms ? to->send_wait_ms : from->send_wait_ms;
    to->merge_mean = to->merge_mean || from->merge_mean;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        uint32_t have, more;
        if (rows[i].use != NUMBER && rows[i].use != STEPS) {
            continue;
        }
        memcpy(&have, (const char *)to + rows[i].offset, sizeof(have));
        memcpy(&more, (const char *)from + rows[i].offset, sizeof(more));
        set_number(to, &rows[i], have ? have : more);
    }
}

static int read_file(const char *path, struct rt_client_options *o, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(PSC_STRATEGY_BYTES_MAX);
    int rc = co_file_read(path, PSC_STRATEGY_BYTES_MAX, &text, err);
    if (rc < 0) {
        return co_err_wrap(err, "%s", co_contract[CO_VAR_PS_STRATEGY].name);
    }
    struct psc_strategy s;
    rc = psc_strategy_parse(path, text.data ? text.data : "", text.len, &s, err);
    if (rc == 0) {
        add_options(o, &s.options);
    }
    if (rc == 0 && s.unused.len > 0) {
        ps_log_info("%s: %s: has no effect here", path, s.unused.data);
    }
    psc_strategy_done(&s);
    return rc;
}

int psc_strategy_fill(struct rt_client_options *o, struct co_err *err) {
    const char *path = co_contract_getenv(CO_VAR_PS_STRATEGY);
    struct rt_client_options env = {0};
    CO_TRY(read_environment(&env, err));
    add_options(o, &env);
    return path && *path ? read_file(path, o, err) : 0;
}
