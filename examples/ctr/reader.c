/* Reads samples line by line and skips malformed ones. */
#include "examples/ctr/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "examples/ctr/gen.h"
#include "examples/ctr/slots.h"
#include "runtime/rt.h"

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

struct generated {
    struct ctr_gen gen;
    uint64_t begin, lines;
    uint64_t next; /* the next line, below `lines` */
    char line[CTR_GEN_LINE_MAX];
};

struct ctr_reader {
    uint64_t vocabulary;
    struct ctr_share share;
    struct rt_input *input; /* NULL: lines are generated */
    struct generated generated;
    uint64_t bad_lines;
    bool again; /* not the first pass: malformed lines are logged already */
    char last_bad[CO_ERR_MAX];
    char description[96];
};

void ctr_reader_free(struct ctr_reader *r) {
    if (r) {
        rt_input_close(r->input);
        free(r);
    }
}

static int arguments_check(const struct ctr_config *c, struct ctr_share share, struct co_err *err) {
    if (c->slots != CTR_CRITEO_SLOTS || c->dense != CTR_CRITEO_DENSE || c->vocabulary == 0) {
        return co_err_set(err, CO_INVALID,
            "Criteo data has %d slots and %d numbers, the model %zu and %zu", CTR_CRITEO_SLOTS,
            CTR_CRITEO_DENSE, c->slots, c->dense);
    }
    if (share.index >= share.count) {
        return co_err_set(
            err, CO_INVALID, "worker %" PRIu32 " of %" PRIu32, share.index, share.count);
    }
    return 0;
}

static struct ctr_reader *reader_new(const struct ctr_config *c, struct ctr_share share) {
    struct ctr_reader *r = co_xcalloc(1, sizeof(*r));

    r->vocabulary = c->vocabulary;
    r->share = share;
    r->generated.next = share.index;
    return r;
}

int ctr_reader_open_generated(uint64_t seed, uint64_t begin, uint64_t lines,
    const struct ctr_config *c, struct ctr_share share, struct ctr_reader **ret_r,
    struct co_err *err) {
    int rc = arguments_check(c, share, err);

    if (rc < 0) {
        return rc;
    }
    struct ctr_reader *r = reader_new(c, share);
    ctr_gen_init(&r->generated.gen, seed);
    r->generated.begin = begin;
    r->generated.lines = lines;
    (void)snprintf(r->description, sizeof(r->description),
        "1/%" PRIu32 " of %" PRIu64 " generated lines", share.count, lines);
    *ret_r = r;
    return 0;
}

int ctr_reader_open(const char *path, const struct ctr_config *c, struct ctr_share share,
    struct ctr_reader **ret_r, struct co_err *err) {
    const struct rt_share by = {
        .worker = share.index, .workers = share.count, .by = RT_SHARE_BLOCKS};
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    int rc = arguments_check(c, share, err);

    if (rc == 0) {
        rc = rt_input_open(path, &by, &input, err);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_r = reader_new(c, share);
    (*ret_r)->input = co_steal_ptr(input);
    return 0;
}

static void bad_line(struct ctr_reader *r, const char *text) {
    (void)snprintf(r->last_bad, sizeof(r->last_bad), "%s", text);
    if (r->bad_lines++ < CTR_BAD_LINES_SHOWN && !r->again) {
        co_log_warn("malformed line skipped", CO_S("line", r->last_bad));
    }
}

/* Gets this worker's next line; NULL at the end. */
static int line_next(
    struct ctr_reader *r, const char **ret_line, size_t *ret_len, struct co_err *err) {
    struct generated *g = &r->generated;
    struct co_err why = {0};
    int rc = 0;

    while (r->input && (rc = rt_input_next(r->input, ret_line, ret_len, &why)) == CO_INVALID) {
        bad_line(r, co_err_text(&why));
    }
    if (r->input) {
        return rc < 0 ? co_err_set(err, rc, "%s", co_err_text(&why)) : 0;
    }
    *ret_line = NULL;
    if (g->next < g->lines) {
        *ret_line = g->line;
        *ret_len = ctr_gen_line(&g->gen, g->begin + g->next, g->line);
        g->next += r->share.count; /* skip the other workers' lines */
    }
    return 0;
}

/* Parses a line into sample b->n; false: it is malformed. */
static bool sample_parse(struct ctr_reader *r, const char *line, size_t len, struct ctr_batch *b) {
    char reason[CTR_CRITEO_REASON_MAX] = "";
    struct co_err text = {0};

    if (ctr_line_parse(line, len, r->vocabulary, b->ids + b->n * CTR_CRITEO_SLOTS,
            b->dense + b->n * CTR_CRITEO_DENSE, b->label + b->n, reason) == 0) {
        return true;
    }
    (void)co_err_set(
        &text, CO_INVALID, "%s: %s", r->input ? rt_input_where(r->input) : "generated", reason);
    bad_line(r, co_err_text(&text));
    return false;
}

int ctr_reader_next(struct ctr_reader *r, struct ctr_batch *b, struct co_err *err) {
    b->n = 0;
    while (b->n < b->max) {
        const char *line = NULL;
        size_t len = 0;
        int rc = line_next(r, &line, &len, err);

        if (rc < 0) {
            return rc;
        }
        if (!line) {
            break;
        }
        b->n += sample_parse(r, line, len, b);
    }
    if (b->n == 0 && r->bad_lines > CTR_BAD_LINES_SHOWN && !r->again) {
        co_log_warn(
            "malformed lines skipped", CO_I("lines", r->bad_lines), CO_S("last", r->last_bad));
    }
    return 0;
}

void ctr_reader_rewind(struct ctr_reader *r) {
    if (r->input) {
        rt_input_rewind(r->input);
    }
    r->generated.next = r->share.index;
    r->bad_lines = 0;
    r->again = true;
}

const char *ctr_reader_describe(const struct ctr_reader *r) {
    return r->input ? rt_input_describe(r->input) : r->description;
}

uint64_t ctr_reader_bad_lines(const struct ctr_reader *r) {
    return r->bad_lines;
}

const char *ctr_reader_last_bad(const struct ctr_reader *r) {
    return r->last_bad;
}
