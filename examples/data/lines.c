/* Passes over blank lines. */
#include "examples/data/lines.h"

int da_line_next(struct rt_input *input, struct da_text *ret_line, struct co_err *err) {
    struct da_text line = {NULL, 0};
    int rc;

    do {
        rc = rt_input_next(input, &line.at, &line.len, err);
        line = rc == 0 && line.at ? da_trim(line) : line;
    } while (rc == 0 && line.at && line.len == 0);
    *ret_line = line;
    return rc;
}
