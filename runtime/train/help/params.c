/* Named parameters as parts of one vector.
 *
 *     values      | w ........ | b | fc1_w ...... |      one allocation
 *     gradients   | w ........ | b | fc1_w ...... |      another one, with the same offsets
 */
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/optim/init.h"

enum { NAME_MAX_LEN = 63, ALIGNMENT = 64 };
#define FLOATS_MAX ((size_t)1 << 32)

struct named_param {
    char *name; /* owned */
    size_t offset, n;
};

struct rt_params {
    struct named_param *parts;
    size_t n_parts, size;
    float *values, *gradients; /* [size] */
};

static int name_check(const struct rt_params *p, const char *name, struct co_err *err) {
    size_t len = name ? strlen(name) : 0;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i])) {
            len = 0;
        }
    }
    if (len == 0 || len > NAME_MAX_LEN) {
        return co_err_set(err, CO_INVALID, "parameter %zu is called \"%s\", expected 1 to %d of %s",
            p->n_parts, name ? name : "", NAME_MAX_LEN, "[A-Za-z0-9_.-]");
    }
    for (size_t i = 0; i < p->n_parts; i++) {
        if (strcmp(p->parts[i].name, name) == 0) {
            return co_err_set(err, CO_INVALID, "parameters %zu and %zu are both called \"%s\"", i,
                p->n_parts, name);
        }
    }
    return 0;
}

static int part_add(struct rt_params *p, const struct rt_param *param, struct co_err *err) {
    CO_TRY(name_check(p, param->name, err));
    if (param->n == 0) {
        return co_err_set(err, CO_INVALID, "parameter \"%s\" has no floats", param->name);
    }
    if (param->n > FLOATS_MAX - p->size) {
        return co_err_set(err, CO_NORESOURCE, "parameters up to \"%s\": more than %zu floats",
            param->name, FLOATS_MAX);
    }
    p->parts[p->n_parts++] =
        (struct named_param){.name = co_xstrdup(param->name), .offset = p->size, .n = param->n};
    p->size += param->n;
    return 0;
}

static int floats_alloc(size_t n, float **ret, struct co_err *err) {
    void *memory = NULL;
    if (posix_memalign(&memory, ALIGNMENT, n * sizeof(float)) != 0) {
        return co_err_set(err, CO_NOMEMORY, "no memory for %zu parameters", n);
    }
    memset(memory, 0, n * sizeof(float));
    *ret = memory;
    return 0;
}

/* Each parameter is initialized like a row of its own. */
static int values_init(
    struct rt_params *p, const struct rt_param *list, uint64_t seed, struct co_err *err) {
    for (size_t i = 0; i < p->n_parts; i++) {
        struct optim_initializer in;
        int rc = optim_initializer_parse(list[i].init, seed, &in, err);
        if (rc < 0) {
            return co_err_wrap(err, "parameter \"%s\"", list[i].name);
        }
        optim_initializer_row(&in, i, p->parts[i].n, rt_params_value(p, i));
    }
    return 0;
}

CO_DEFINE_CLEANUP(struct rt_params *, rt_params_free)

int rt_params_new(const struct rt_param *list, size_t n, uint64_t seed,
    struct rt_params **ret_params, struct co_err *err) {
    if (n == 0) {
        return co_err_set(err, CO_INVALID, "no parameters");
    }
    CO_CLEANUP(rt_params_freep) struct rt_params *p = co_xcalloc(1, sizeof(*p));
    p->parts = co_xcalloc(n, sizeof(*p->parts));
    for (size_t i = 0; i < n; i++) {
        CO_TRY(part_add(p, &list[i], err));
    }
    CO_TRY(floats_alloc(p->size, &p->values, err));
    CO_TRY(floats_alloc(p->size, &p->gradients, err));
    CO_TRY(values_init(p, list, seed, err));
    *ret_params = co_steal_ptr(p);
    return 0;
}

void rt_params_free(struct rt_params *p) {
    if (!p) {
        return;
    }
    for (size_t i = 0; i < p->n_parts; i++) {
        free(p->parts[i].name);
    }
    free(p->parts);
    free(p->values);
    free(p->gradients);
    free(p);
}

size_t rt_params_size(const struct rt_params *p) {
    return p->size;
}

float *rt_params_values(struct rt_params *p) {
    return p->values;
}

float *rt_params_gradients(struct rt_params *p) {
    return p->gradients;
}

float *rt_params_value(struct rt_params *p, size_t i) {
    return p->values + p->parts[i].offset;
}

float *rt_params_gradient(struct rt_params *p, size_t i) {
    return p->gradients + p->parts[i].offset;
}

int rt_params_find(const struct rt_params *p, const char *name, size_t *ret_offset, size_t *ret_n,
    struct co_err *err) {
    for (size_t i = 0; i < p->n_parts; i++) {
        if (strcmp(p->parts[i].name, name) == 0) {
            *ret_offset = p->parts[i].offset;
            *ret_n = p->parts[i].n;
            return 0;
        }
    }
    return co_err_set(err, CO_NOTFOUND, "there is no parameter \"%s\"", name);
}
