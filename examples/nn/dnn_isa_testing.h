/* Runs tests once more for each instruction set that oneDNN knows, as primitives differ.  oneDNN
 * reads ONEDNN_MAX_CPU_ISA once, so each runs in a child.  Call before anything else uses oneDNN:
 * it starts threads, which do not outlive a fork. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <dnnl.h>

#include "common/isa_testing.h"
#include "common/mem.h"
#include "common/tsan.h"

struct nn_isa {
    const char *name;  /* of the test */
    const char *limit; /* ONEDNN_MAX_CPU_ISA */
    const char *words; /* what the kernel calls it */
    dnnl_cpu_isa_t isa;
};

static const struct nn_isa nn_isas[] = {
    {"onednn_sse41", "SSE41", "sse4_1", dnnl_cpu_isa_sse41},
    {"onednn_avx", "AVX", "avx", dnnl_cpu_isa_avx},
    {"onednn_avx2", "AVX2", "avx2", dnnl_cpu_isa_avx2},
    {"onednn_avx512_core", "AVX512_CORE", "avx512f avx512bw avx512dq avx512vl",
        dnnl_cpu_isa_avx512_core},
    {"onednn_avx512_core_bf16", "AVX512_CORE_BF16", "avx512_bf16", dnnl_cpu_isa_avx512_core_bf16},
    {"onednn_avx512_core_amx", "AVX512_CORE_AMX", "amx_bf16 amx_int8 avx512_bf16",
        dnnl_cpu_isa_avx512_core_amx},
};

enum { NN_ISA_UNUSED = 77 };

struct nn_isa_run {
    const struct nn_isa *row;
    int (*group)(void);
};

static inline void nn_isa_test(void **state) {
    const struct nn_isa_run *run = *state;
    int status = -1;

    if (!co_test_cpu_has(run->row->words)) {
        skip();
    }
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("ONEDNN_MAX_CPU_ISA", run->row->limit, 1);
        if (dnnl_get_effective_cpu_isa() != run->row->isa) {
            (void)fprintf(stderr, "oneDNN does not use %s\n", run->row->limit);
            _exit(NN_ISA_UNUSED);
        }
        exit(run->group());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NN_ISA_UNUSED && co_test_cpu_is_lesser()) {
        skip();
    }
    assert_int_equal(status, 0);
}

/* A test for each instruction set, in which the group must pass.  It is skipped where the processor
 * has none, and fails if the processor has it and oneDNN does not use it.  Returns how many failed.
 * Not with TSan: no thread does anything else there, and each set takes minutes. */
static inline int nn_isa_tests(int (*group)(void)) {
    struct CMUnitTest tests[CO_ARRAY_LEN(nn_isas)];
    struct nn_isa_run runs[CO_ARRAY_LEN(nn_isas)];

    if (CO_TSAN) {
        return 0;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(nn_isas); i++) {
        runs[i] = (struct nn_isa_run){&nn_isas[i], group};
        tests[i] = (struct CMUnitTest){
            .name = nn_isas[i].name, .test_func = nn_isa_test, .initial_state = &runs[i]};
    }
    return cmocka_run_group_tests_name("instruction sets", tests, NULL, NULL);
}
