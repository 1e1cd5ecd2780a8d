/* Asks each library for its version.  See libraries.h. */
#include "runtime/selfcheck/libraries.h"

#include <stddef.h>
#include <stdio.h>

#include "common/library.h"
#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/nccl/nccl.h"
#include "runtime/train/rpc/rpc.h"
#include "runtime/train/table/rocks.h"

/* What dnnl_version returns; oneDNN only adds to its end.  Its headers belong to the models. */
struct dnnl_release {
    int major, minor, patch;
};

struct dnnl_calls {
    const struct dnnl_release *(*version)(void);
};

static void print_failure(const char *name, const char *for_what, const struct co_err *err) {
    (void)printf("%s\tnot here (%s): %s\n", name, for_what, co_err_text(err));
}

static void print_dnnl(void) {
    static const char *const files[] = {"libdnnl.so.2", "libdnnl.so.3"};
    static const struct co_symbol symbols[] = {
        {"dnnl_version", offsetof(struct dnnl_calls, version), false}};
    struct co_err err = {0};
    struct dnnl_calls calls;
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        if (co_library_open(NULL, files[i], symbols, CO_ARRAY_LEN(symbols), &calls, &err) == 0) {
            const struct dnnl_release *v = calls.version();
            (void)printf("oneDNN\t%d.%d.%d\n", v->major, v->minor, v->patch);
            return;
        }
    }
    print_failure("oneDNN", "for the models of examples/", &err);
}

static void print_rocks(void) {
    struct co_err err = {0};
    const char *file = NULL;
    if (table_rocks_find(&file, &err) < 0) {
        print_failure("RocksDB", "for rows on disk", &err);
    } else {
        (void)printf("RocksDB\t%s can be loaded\n", file);
    }
}

static void print_nccl(void) {
    struct co_err err = {0};
    struct nccl *n = NULL;
    if (nccl_open(&n, &err) < 0) {
        print_failure("NCCL", "for collectives on GPUs", &err);
        return;
    }
    const uint32_t v = nccl_version(n);
    (void)printf("NCCL\t%u.%u.%u can be loaded\n", v / 10000, v / 100 % 100, v % 100);
    nccl_close(n);
}

static void print_gpus(void) {
    struct co_err err = {0};
    uint32_t n = 0;
    if (rt_gpu_count(&n, &err) < 0) {
        print_failure("GPUs", "for collectives on GPUs", &err);
    } else {
        (void)printf("GPUs\t%u\n", n);
    }
}

int selfcheck_libraries(const struct part *unused) {
    (void)unused;
    (void)printf("gRPC core\t%s\n", rpc_grpc_version());
    print_rocks();
    print_dnnl();
    print_nccl();
    print_gpus();
    return 0;
}
