/* oneDNN matrix products, with a cache of primitives by shape. */
#include "examples/nn/engine.h"

#include <dlfcn.h>
#include <string.h>

#include <dnnl.h>

#include "common/contract.h"
#include "common/parse.h"

enum { PRODUCTS_MAX = 64 };

struct product {
    struct nn_product shape;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, bias, c;
};

struct nn_engine {
    dnnl_engine_t cpu;
    dnnl_stream_t stream;
    struct product products[PRODUCTS_MAX];
    size_t n_products;
    size_t made;
};

static const char *status_name(dnnl_status_t status) {
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "unimplemented";
    default:
        return "failed";
    }
}

static int product_error(
    const struct nn_product *p, dnnl_status_t status, const char *doing, struct co_err *err) {
    return co_err_set(err, status == dnnl_out_of_memory ? CO_NOMEMORY : CO_INTERNAL,
        "oneDNN: %s of matrix product (%zu, %zu) x (%zu, %zu): %s", doing, p->m, p->k, p->k, p->n,
        status_name(status));
}

static void product_done(struct product *p) {
    (void)dnnl_primitive_destroy(p->primitive);
    (void)dnnl_memory_destroy(p->a);
    (void)dnnl_memory_destroy(p->b);
    (void)dnnl_memory_destroy(p->bias);
    (void)dnnl_memory_destroy(p->c);
    memset(p, 0, sizeof(*p));
}

static bool same_shape(const struct nn_product *x, const struct nn_product *y) {
    return x->m == y->m && x->n == y->n && x->k == y->k && x->a_transposed == y->a_transposed &&
           x->b_transposed == y->b_transposed && x->bias == y->bias && x->relu == y->relu;
}

/* Describes a matrix that is (rows, cols) for oneDNN and may be stored transposed.  Its memory
 * object is bound to data at each call. */
static dnnl_status_t matrix_describe(dnnl_engine_t cpu, size_t rows, size_t cols, bool transposed,
    dnnl_memory_desc_t *ret_desc, dnnl_memory_t *ret_memory) {
    const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)cols};
    dnnl_status_t status =
        dnnl_memory_desc_init_by_tag(ret_desc, 2, dims, dnnl_f32, transposed ? dnnl_ba : dnnl_ab);

    if (status == dnnl_success) {
        status = dnnl_memory_create(ret_memory, ret_desc, cpu, DNNL_MEMORY_NONE);
    }
    return status;
}

static dnnl_status_t relu_attach(dnnl_primitive_attr_t attr) {
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&ops);

    if (status == dnnl_success) {
        status = dnnl_post_ops_append_eltwise(ops, 1.0F, dnnl_eltwise_relu, 0.0F, 0.0F);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    }
    (void)dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t primitive_make(
    dnnl_engine_t cpu, const dnnl_matmul_desc_t *desc, bool relu, dnnl_primitive_t *ret_primitive) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t chosen = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);

    if (status == dnnl_success && relu) {
        status = relu_attach(attr);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_desc_create(&chosen, desc, attr, cpu, NULL);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_create(ret_primitive, chosen);
    }
    (void)dnnl_primitive_desc_destroy(chosen);
    (void)dnnl_primitive_attr_destroy(attr);
    return status;
}

static dnnl_status_t product_make(
    dnnl_engine_t cpu, const struct nn_product *shape, struct product *ret_p) {
    dnnl_memory_desc_t a, b, bias, c;
    dnnl_matmul_desc_t desc;
    struct product p = {.shape = *shape};
    dnnl_status_t status = matrix_describe(cpu, shape->m, shape->k, shape->a_transposed, &a, &p.a);

    if (status == dnnl_success) {
        status = matrix_describe(cpu, shape->k, shape->n, shape->b_transposed, &b, &p.b);
    }
    if (status == dnnl_success) {
        status = matrix_describe(cpu, shape->m, shape->n, false, &c, &p.c);
    }
    if (status == dnnl_success && shape->bias) {
        status = matrix_describe(cpu, 1, shape->n, false, &bias, &p.bias);
    }
    if (status == dnnl_success) {
        status = dnnl_matmul_desc_init(&desc, &a, &b, shape->bias ? &bias : NULL, &c);
    }
    if (status == dnnl_success) {
        status = primitive_make(cpu, &desc, shape->relu, &p.primitive);
    }
    if (status != dnnl_success) {
        product_done(&p);
        return status;
    }
    *ret_p = p;
    return dnnl_success;
}

static int product_get(struct nn_engine *e, const struct nn_product *shape, struct product **ret_p,
    struct co_err *err) {
    struct product fresh;

    for (size_t i = 0; i < e->n_products; i++) {
        if (same_shape(&e->products[i].shape, shape)) {
            *ret_p = &e->products[i];
            return 0;
        }
    }
    dnnl_status_t status = product_make(e->cpu, shape, &fresh);
    if (status != dnnl_success) {
        return product_error(shape, status, "making", err);
    }
    /* Round robin: the made-th product replaces the one made PRODUCTS_MAX before it. */
    struct product *slot = &e->products[e->made++ % PRODUCTS_MAX];
    if (e->n_products < PRODUCTS_MAX) {
        e->n_products++;
    } else {
        product_done(slot);
    }
    *slot = fresh;
    *ret_p = slot;
    return 0;
}

/* By default oneDNN would use all cores, which slows down small products and other processes of the
 * job.  Its OpenMP library reads the environment before main, so it is too late for a variable:
 * this calls omp_set_num_threads, looked up at run time, as only oneDNN links that library. */
static void threads_set_default(void) {
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void (*set)(int);

    if (symbol && !getenv("OMP_NUM_THREADS")) {
        const size_t wanted = nn_engine_threads();
        memcpy(&set, &symbol, sizeof(set)); /* ISO C has no such cast */
        set(wanted ? (int)wanted : 1);
    }
}

size_t nn_engine_threads(void) {
    const char *text = co_contract_getenv(CO_VAR_INIT_TRAINER_COUNT);
    int64_t n = 0;

    return text && co_parse_i64(
                       "", text, 1, co_contract[CO_VAR_INIT_TRAINER_COUNT].max, &n, NULL) == 0
               ? (size_t)n
               : 0;
}

int nn_engine_new(struct nn_engine **ret_e, struct co_err *err) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = co_xcalloc(1, sizeof(*e));

    threads_set_default();
    dnnl_status_t status = dnnl_engine_create(&e->cpu, dnnl_cpu, 0);

    if (status == dnnl_success) {
        status = dnnl_stream_create(&e->stream, e->cpu, dnnl_stream_default_flags);
    }
    if (status != dnnl_success) {
        return co_err_set(err, CO_INTERNAL, "oneDNN: no CPU engine: %s", status_name(status));
    }
    *ret_e = co_steal_ptr(e);
    return 0;
}

void nn_engine_free(struct nn_engine *e) {
    if (!e) {
        return;
    }
    for (size_t i = 0; i < e->n_products; i++) {
        product_done(&e->products[i]);
    }
    (void)dnnl_stream_destroy(e->stream);
    (void)dnnl_engine_destroy(e->cpu);
    free(e);
}

static dnnl_status_t product_run(dnnl_stream_t stream, const struct product *p) {
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, p->a},
        {DNNL_ARG_WEIGHTS, p->b},
        {DNNL_ARG_DST, p->c},
        {DNNL_ARG_BIAS, p->bias},
    };
    dnnl_status_t status =
        dnnl_primitive_execute(p->primitive, stream, p->shape.bias ? 4 : 3, args);

    return status == dnnl_success ? dnnl_stream_wait(stream) : status;
}

/* oneDNN takes non-const pointers even for inputs, which it does not write. */
static dnnl_status_t bind_data(dnnl_memory_t memory, const float *data) {
    return dnnl_memory_set_data_handle(memory, (void *)data);
}

int nn_engine_multiply(struct nn_engine *e, const struct nn_product *shape, const float *a,
    const float *b, const float *bias, float *c, struct co_err *err) {
    struct product *p = NULL;
    int rc = product_get(e, shape, &p, err);

    if (rc < 0 || !p) {
        return rc;
    }
    dnnl_status_t status = bind_data(p->a, a);
    if (status == dnnl_success) {
        status = bind_data(p->b, b);
    }
    if (status == dnnl_success) {
        status = bind_data(p->c, c);
    }
    if (status == dnnl_success && shape->bias) {
        status = bind_data(p->bias, bias);
    }
    if (status == dnnl_success) {
        status = product_run(e->stream, p);
    }
    return status == dnnl_success ? 0 : product_error(shape, status, "running", err);
}

size_t nn_engine_made(const struct nn_engine *e) {
    return e->made;
}
