/* Whether this is a build with ThreadSanitizer: gcc says so by a macro, clang as a feature. */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define CO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CO_TSAN 1
#endif
#endif
#ifndef CO_TSAN
#define CO_TSAN 0
#endif
