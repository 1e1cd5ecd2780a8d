#include "common/manual.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static const char *text;
static bool on;
static const struct co_flag flags[] = {
    {"text", CO_FLAG_STR, &text, "one", "it's [one]: a\\b", .metavar = "one|two"},
    {"on", CO_FLAG_BOOL, &on, "false", ".a line that begins with a dot"},
    {"unseen", CO_FLAG_STR, &text, NULL, "nobody is told", .hidden = true},
};
static const char usage[] =
    "prog do [flags] FILE\n\nDoes it-\nwell:\n    prog do x\n\nEnds with 1.";

/* What a printer makes of a program with a command, a command of that, and another name. */
static char *print(void (*printer)(FILE *out, const struct co_manual *of)) {
    CO_CLEANUP(co_manual_done)
    struct co_manual m = {.program = "a-prog",
        .summary = "tries",
        .section = 1,
        .also = "doer",
        .description = "For a try."};
    (void)co_manual_add(&m, "", NULL, "the commands");
    co_flags_read(co_manual_flags, co_manual_add(&m, "do", "doer", "does it"));
    co_flags_help(stdout, usage, flags, CO_ARRAY_LEN(flags));
    co_flags_read(NULL, NULL);
    (void)co_manual_add(&m, "do it", NULL, "what's: this");
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    assert_non_null(f);
    printer(f, &m);
    (void)fclose(f);
    return out;
}

static void manual_pages_print_what_help_prints(void **state) {
    (void)state;
    static const struct {
        void (*printer)(FILE *out, const struct co_manual *of);
        const char *texts[12];
    } rows[] = {
        {co_manual_man, {".TH A-PROG 1", "a\\-prog \\- tries", "For a try.", ".SS a\\-prog do\n",
                            "does it; another name: doer", ".B prog do [flags] FILE\n",
                            "Does it\\-\nwell:\n", ".nf\nprog do x\n.fi\n.RE\n.PP\nEnds with 1.",
                            "\\fB\\-\\-text\\fR \\fIone|two\\fR\nit's [one]: a\\eb (default one)\n",
                            "\\fB\\-\\-on\\fR\n\\&.a line", ".SS a\\-prog do it\n"}},
        {co_manual_bash,
            {"'')", "commands='do'", "'do' | doer)", "flags='--help --text --on'",
                "switches='--help --on'", "commands='it'", "--text) values='one two' ;;",
                "'do it')", "!= doer ]] || command=doer",
                "complete -o default -F _a_prog a-prog doer"}},
        {co_manual_zsh,
            {"#compdef a-prog doer\n", "_a_prog() {", "$service == doer", "'do:does it'",
                "do | doer) ((CURRENT--)); shift words; _a_prog_do;", "'it:what'\\''s\\: this'",
                "'(--text)--text=[it'\\''s \\[one\\]\\: a\\\\b]:value:(one two)'",
                "'(--on)--on[.a line that begins with a dot]'", "_a_prog \"$@\"\n"}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *out = print(rows[i].printer);
        const char *at = out;
        if (!out) {
            fail_msg("row %zu printed nothing", i);
            return;
        }
        for (size_t t = 0; at && rows[i].texts[t]; t++) {
            at = strstr(at, rows[i].texts[t]);
            if (!at) {
                fail_msg("row %zu lacks \"%s\", or has it earlier: %s", i, rows[i].texts[t], out);
            }
        }
        assert_null(strstr(out, "unseen"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(manual_pages_print_what_help_prints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
