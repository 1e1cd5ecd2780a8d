/* `paddlerun version`: with -v also how the programs were built, what the processor has, and which
 * libraries the training library finds here. */
#include <stdio.h>
#include <string.h>

#include "common/isa.h"
#include "common/mem.h"
#include "common/version.h"
#include "runtime/tools/check/check.h"
#include "runtime/tools/tools.h"

enum { LIBRARIES_MS = 20000 };

static void print_row(const char *name, int name_len, const char *text, int text_len) {
    (void)printf("%-14.*s %.*s\n", name_len, name, text_len, text);
}

static void print_text(const char *name, const char *text) {
    print_row(name, (int)strlen(name), text, (int)strlen(text));
}

/* What loops look at, those of ours and of oneDNN. */
static void print_processor(void) {
    char text[128] = "";
#if defined(__x86_64__)
    const struct {
        const char *name;
        bool has;
    } sets[] = {{"AVX2", __builtin_cpu_supports("avx2")}, {"FMA", __builtin_cpu_supports("fma")},
        {"AVX-512", __builtin_cpu_supports("avx512f")},
        {"AVX-512 VNNI", __builtin_cpu_supports("avx512vnni")},
        {"AVX-512 BF16", __builtin_cpu_supports("avx512bf16")}};
    for (size_t i = 0; i < CO_ARRAY_LEN(sets); i++) {
        const size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, "%s%s%s", len ? ", " : "",
            sets[i].has ? "" : "no ", sets[i].name);
    }
    print_text("processor", text);
#endif
    (void)snprintf(
        text, sizeof(text), "%s (PADDLERT_MAX_CPU_ISA limits it)", co_isa_name(co_isa()));
    print_text("loops", text);
}

/* Lines of a name, a tab and a text. */
static void print_libraries(void) {
    CO_AUTOFREE char *text = NULL;
    struct co_err err = {0};
    if (check_helper_output("libraries", LIBRARIES_MS, &text, &err) < 0) {
        print_text("libraries", co_err_text(&err));
        return;
    }
    for (const char *at = text; *at;) {
        const char *end = strchrnul(at, '\n');
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (tab) {
            print_row(at, (int)(tab - at), tab + 1, (int)(end - tab - 1));
        }
        at = *end ? end + 1 : end;
    }
}

int tool_version(int argc, char **argv) {
    bool verbose = false;
    const struct co_flag flags[] = {{"v", CO_FLAG_BOOL, &verbose,
        .help = "also compiler, flags, what the processor has, and the libraries found here"}};
    int rest = 0, code = 0;
    if (!options_command_words(
            "paddlerun version [flags]", flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    if (rest < argc) {
        (void)fprintf(stderr,
            "paddlerun version: \"%s\" is one word too many, expected flags only\n", argv[rest]);
        return 2;
    }
    (void)printf("paddlerun %s\n", co_version);
    if (verbose) {
        (void)fflush(stdout);
        print_text("compiler", co_compiler);
        print_text("flags", co_build_flags);
        print_processor();
        print_libraries();
    }
    return 0;
}
