/* What the processor has, asked once: cpuid is slow in virtual machines. */
#include "common/isa.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/contract.h"

static const char *name_of(size_t isa) {
    return co_contract[CO_VAR_MAX_CPU_ISA].words[isa];
}

const char *co_isa_name(enum co_isa isa) {
    return name_of(isa);
}

/* NULL: not set, or empty. */
static const char *variable(void) {
    const char *text = co_contract_getenv(CO_VAR_MAX_CPU_ISA);

    return text && *text ? text : NULL;
}

int co_isa_check(struct co_err *err) {
    const char *text = variable();

    return text ? co_contract_check(CO_VAR_MAX_CPU_ISA, text, err) : 0;
}

#if defined(__x86_64__)
/* Clang's __builtin_cpu_supports has no name for F16C.  The operating system saves its registers if
 * it saves those of AVX2. */
static bool has_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static enum co_isa of_processor(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
        return CO_ISA_PLAIN;
    }
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? CO_ISA_AVX512 : CO_ISA_AVX2;
}
#else
static enum co_isa of_processor(void) {
    return CO_ISA_PLAIN;
}
#endif

/* A word that co_isa_check refuses limits nothing. */
static enum co_isa allowed(void) {
    const char *text = variable();

    for (size_t i = 0; text && name_of(i); i++) {
        if (strcmp(text, name_of(i)) == 0) {
            return (enum co_isa)i;
        }
    }
    return CO_ISA_AVX512;
}

static enum co_isa least(enum co_isa a, enum co_isa b) {
    return a < b ? a : b;
}

static atomic_int known = -1; /* -1: not asked yet */
static atomic_int limit = CO_ISA_AVX512;

enum co_isa co_isa(void) {
    int isa = atomic_load_explicit(&known, memory_order_relaxed);

    if (isa < 0) {
        isa = (int)least(of_processor(), allowed());
        atomic_store_explicit(&known, isa, memory_order_relaxed);
    }
    return least((enum co_isa)isa, (enum co_isa)atomic_load_explicit(&limit, memory_order_relaxed));
}

void co_isa_limit(enum co_isa most) {
    atomic_store_explicit(&limit, (int)most, memory_order_relaxed);
}
