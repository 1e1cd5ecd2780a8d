/* The table of formats. */
#include "examples/ctr/format.h"

#include <stdio.h>
#include <string.h>

const struct ctr_format ctr_formats[CTR_FORMATS] = {
    {.name = "auto",
        .what = "each line says which it is, `criteo` or `slots`",
        .example = "",
        .line = CTR_ANY_LINE},
    {.name = "criteo",
        .what = "Criteo's train.txt: label, 13 numbers, 26 categories, tabs between; its test.txt "
                "lacks the label",
        .example = "0\\t1\\t1\\t5\\t…\\t68fd1e64\\t80e26c9b\\t…",
        .line = CTR_CRITEO_LINE},
    {.name = "slots",
        .what = "PaddleRec's slots, one value each",
        .example = "click:0 dense_feature:0.05 … 1:737395 … 26:64724",
        .line = CTR_SLOTS_LINE},
    {.name = "slots-sum",
        .what = "slots with several values: the sum of their rows",
        .example = "click:1 1:737395 2:17 2:99 2:18446744073709551615",
        .line = CTR_SLOTS_LINE,
        .several = true},
    {.name = "slots-mean",
        .what = "the same: the mean of their rows",
        .example = "click:1 1:737395 2:17 2:99 2:18446744073709551615",
        .line = CTR_SLOTS_LINE,
        .several = true,
        .mean = true},
    {.name = "csv",
        .what = "CSV with a header: columns label, I1 to I13, C1 to C26, or those of "
                "`--csv-label`, `--csv-numbers`, `--csv-categories`",
        .example = "1,0.5,\"a, b\",,68fd1e64",
        .line = CTR_CSV_LINE,
        .header = true},
};

int ctr_format_find(const char *name, const struct ctr_format **ret_format, struct co_err *err) {
    char names[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < CTR_FORMATS; i++) {
        if (name[0] == '\0' || strcmp(ctr_formats[i].name, name) == 0) {
            *ret_format = &ctr_formats[i];
            return 0;
        }
        used += (size_t)snprintf(
            names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", ctr_formats[i].name);
    }
    return co_err_set(err, CO_INVALID, "--format is \"%s\", expected one of %s", name, names);
}
