/* Counts and describes lines that cannot be used. */
#include "runtime/train/data/tally.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int da_why_set(struct da_why *why, const char *kind, const char *fmt, ...) {
    va_list ap;

    why->kind = kind;
    va_start(ap, fmt);
    (void)vsnprintf(why->text, sizeof(why->text), fmt, ap);
    va_end(ap);
    return -1;
}

static void kind_add(struct da_tally *t, const char *kind, uint64_t n) {
    size_t i = 0;

    while (i < DA_KINDS_MAX - 1 && t->kinds[i].n > 0 && strcmp(t->kinds[i].kind, kind) != 0) {
        i++;
    }
    t->kinds[i].kind = kind;
    t->kinds[i].n += n;
}

void da_tally_add(struct da_tally *t, const char *kind, const char *said) {
    if (t->n++ == 0) {
        (void)snprintf(t->first, sizeof(t->first), "%s", said);
    }
    kind_add(t, kind, 1);
}

void da_tally_join(struct da_tally *t, const struct da_tally *later) {
    if (t->n == 0 && later->n > 0) {
        memcpy(t->first, later->first, sizeof(t->first));
    }
    t->n += later->n;
    t->headed = t->headed || later->headed;
    for (size_t i = 0; i < DA_KINDS_MAX && later->kinds[i].n > 0; i++) {
        kind_add(t, later->kinds[i].kind, later->kinds[i].n);
    }
}

void da_tally_text(const struct da_tally *t, char ret_text[DA_SUMMARY_MAX]) {
    char kinds[160] = "";
    size_t used = 0;

    for (size_t i = 0; i < DA_KINDS_MAX && t->kinds[i].n > 0 && used < sizeof(kinds); i++) {
        used += (size_t)snprintf(kinds + used, sizeof(kinds) - used, "%s%" PRIu64 " %s",
            i > 0 ? ", " : " (", t->kinds[i].n, t->kinds[i].kind);
    }
    bool several = t->kinds[1].n > 0;
    (void)snprintf(ret_text, DA_SUMMARY_MAX, "%" PRIu64 " skipped%s%s%s%.300s", t->n,
        several ? kinds : "", several ? ")" : "", t->n > 0 ? ", first: " : "", t->first);
}

int da_tally_unusable(const struct da_tally *t, const char *path, struct co_err *err) {
    char text[DA_SUMMARY_MAX];

    if (t->n == 0) {
        return co_err_set(err, CO_INVALID, "no usable line in \"%s\": %s", path,
            t->headed ? "it has nothing below its header" : "it is empty, or has only blank lines");
    }
    da_tally_text(t, text);
    return co_err_set(err, CO_INVALID, "no usable line in \"%s\": %s", path, text);
}
