/* Which instructions our own loops may use.  Loops that are compiled for several instruction sets
 * ask here and nowhere else, so that one variable, PADDLERT_MAX_CPU_ISA, limits all of them, and
 * tests can run each form.  Any thread. */
#pragma once

#include "common/err.h"

/* Each has all that is in those before it. */
enum co_isa {
    CO_ISA_PLAIN,  /* what every processor of the architecture has */
    CO_ISA_AVX2,   /* AVX2, FMA, F16C */
    CO_ISA_AVX512, /* AVX-512 F, BW, DQ, VL */
};

/* The best that the processor has, the variable allows, and co_isa_limit allows. */
enum co_isa co_isa(void);

/* As in the variable: "plain", "avx2", "avx512". */
const char *co_isa_name(enum co_isa isa);

/* CO_INVALID: the variable is none of these words. */
CO_MUST_CHECK int co_isa_check(struct co_err *err);

/* For tests: from now on co_isa says this or less.  CO_ISA_AVX512 takes the limit away. */
void co_isa_limit(enum co_isa most);
