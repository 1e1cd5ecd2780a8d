/* For tests of loops that are compiled for several instruction sets: one test a form. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/isa.h"

/* Whether the kernel counts all of the words, joined by blanks, among the processor's features. */
static inline bool co_test_cpu_has(const char *words) {
    char line[8192] = "", *copy = strdup(words), *rest = copy, *word;
    FILE *f = fopen("/proc/cpuinfo", "r");
    bool all = true;

    while (f && fgets(line, sizeof(line) - 1, f) && strncmp(line, "flags", 5) != 0) {
        line[0] = '\0';
    }
    if (f) {
        (void)fclose(f);
    }
    line[strcspn(line, "\n")] = ' ';
    while ((word = strsep(&rest, " "))) {
        char padded[64];

        (void)snprintf(padded, sizeof(padded), " %s ", word);
        all = all && strstr(line, padded);
    }
    free(copy);
    return all;
}

/* The kernel's words for what each promises. */
static inline bool co_test_isa_there(enum co_isa isa) {
    static const char *const words[] = {[CO_ISA_AVX2] = "avx2 fma f16c",
        [CO_ISA_AVX512] = "avx2 fma f16c avx512f avx512bw avx512dq avx512vl"};

    return isa == CO_ISA_PLAIN || co_test_cpu_has(words[isa]);
}

/* With the variable, a lesser machine is being tried: by its word, or by an emulator (tests/run
 * qemu), of which /proc/cpuinfo knows nothing. */
static inline bool co_test_cpu_is_lesser(void) {
    return getenv(co_contract[CO_VAR_MAX_CPU_ISA].name);
}

/* Limits loops to this form; false: this processor has none, and the test is to be skipped.  Ends
 * the program if there should be one, or a form could go untested without anybody noticing. */
static inline bool co_test_isa(enum co_isa isa) {
    co_isa_limit(isa);
    if (co_isa() == isa) {
        return true;
    }
    if (co_test_isa_there(isa) && !co_test_cpu_is_lesser()) {
        (void)fprintf(
            stderr, "this processor has %s, and co_isa does not say so\n", co_isa_name(isa));
        abort();
    }
    return false;
}
