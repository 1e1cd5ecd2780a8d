/*
 * What an analyzer cannot see from one file: setting an error gives a negative code.  Without
 * it every output that is written only on success looks as if it were read unwritten.
 * tools/check puts this before the files it looks at; nothing else includes it.
 */
#pragma once
#include "common/err.h"

/* What a call returned, which is below zero.  gcc follows a constant better than a branch. */
#ifdef __clang__
#define ANALYZER_NEGATIVE(call)                                                                    \
    ({                                                                                             \
        int rc_ = (call);                                                                          \
        if (rc_ >= 0) {                                                                            \
            __builtin_unreachable();                                                               \
        }                                                                                          \
        rc_;                                                                                       \
    })
#else
#define ANALYZER_NEGATIVE(call) ((void)(call), -1)
#endif
#define co_err_set(...) ANALYZER_NEGATIVE(co_err_set(__VA_ARGS__))
#define co_err_errno(...) ANALYZER_NEGATIVE(co_err_errno(__VA_ARGS__))
#define co_err_wrap(...) ANALYZER_NEGATIVE(co_err_wrap(__VA_ARGS__))
