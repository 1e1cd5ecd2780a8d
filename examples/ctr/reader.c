/* Reads samples line by line and skips what cannot be used.
 *
 * Lines are parsed by runtime/train/data, but not read by rt_data_...: each line, a bad or blank
 * one too, is a prediction at its place (ctr_reader_keep); the first bad ones are logged as they
 * come; a line of some files is PaddleRec's and the next Criteo's; and generated lines are in no
 * file. */
#include "examples/ctr/reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "examples/ctr/gen.h"
#include "runtime/rt.h"
#include "runtime/train/data/cutter.h"

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

/* A batch with so many values beyond the first of their slots ends, whatever room it has. */
enum { MORE_FULL = 1 << 20 };

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
    char *path;             /* of the input */
    struct generated generated;
    struct ctr_parser *parser;
    uint64_t headed, header_line; /* 1 + the file whose header it has, and where that ends */
    bool keep;                    /* all lines become samples */
    bool again; /* not the first pass, or logged at its end: what is skipped is logged already */
    struct da_tally skipped;
    uint64_t samples;
    uint64_t labels[3]; /* samples with -1, 0 and 1 */
    bool left_said;     /* that lines have slots which the model has not */
    char description[96];
};

void ctr_reader_free(struct ctr_reader *r) {
    if (r) {
        rt_input_close(r->input);
        ctr_parser_free(r->parser);
        free(r->path);
        free(r);
    }
}

static int arguments_check(const struct ctr_config *c, struct ctr_share share, struct co_err *err) {
    if (c->slots != CTR_SLOTS || c->dense != CTR_NUMBERS || c->vocabulary == 0) {
        return co_err_set(err, CO_INVALID,
            "Criteo data has %d slots and %d numbers, the model %zu and %zu", CTR_SLOTS,
            CTR_NUMBERS, c->slots, c->dense);
    }
    if (share.index >= share.count) {
        return co_err_set(
            err, CO_INVALID, "worker %" PRIu32 " of %" PRIu32, share.index, share.count);
    }
    return 0;
}

static int reader_new(const struct ctr_config *c, struct ctr_share share, struct ctr_reader **ret_r,
    struct co_err *err) {
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = co_xcalloc(1, sizeof(*r));

    CO_TRY(arguments_check(c, share, err));
    CO_TRY(ctr_parser_new(&ctr_formats[0], NULL, &r->parser, err));
    r->vocabulary = c->vocabulary;
    r->share = share;
    r->generated.next = share.index;
    *ret_r = co_steal_ptr(r);
    return 0;
}

int ctr_reader_open_generated(uint64_t seed, uint64_t begin, uint64_t lines,
    const struct ctr_config *c, struct ctr_share share, struct ctr_reader **ret_r,
    struct co_err *err) {
    struct ctr_reader *r = NULL;
    CO_TRY(reader_new(c, share, &r, err));
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
    CO_CLEANUP(ctr_reader_freep) struct ctr_reader *r = NULL;

    CO_TRY(reader_new(c, share, &r, err));
    CO_TRY(rt_input_open(path, &by, &r->input, err));
    r->path = co_xstrdup(path);
    *ret_r = co_steal_ptr(r);
    return 0;
}

static const struct ctr_format *format_of(const struct ctr_reader *r) {
    return ctr_parser_format(r->parser);
}

void ctr_reader_parse(struct ctr_reader *r, struct ctr_parser *parser_own) {
    ctr_parser_free(r->parser);
    r->parser = parser_own;
    if (format_of(r)->header) {
        rt_input_quotes(r->input, da_cutter_any);
    }
}

void ctr_reader_keep(struct ctr_reader *r) {
    r->keep = true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static const char *where(struct ctr_reader *r) {
    return r->input ? rt_input_where(r->input) : "generated";
}

/* Whether a line that cannot be used is plainly CSV's, which only --format says. */
static bool is_csv(struct ctr_reader *r, struct da_text line) {
    bool named = strstr(where(r), ".csv:") || strstr(where(r), ".csv.gz:");
    bool commas =
        line.len > 0 && memchr(line.at, ',', line.len) && !memchr(line.at, '\t', line.len);

    return !format_of(r)->header && (named || commas);
}

static void skip(struct ctr_reader *r, struct da_text line, const struct da_why *why) {
    struct co_err said = {0};

    (void)co_err_set(&said, CO_INVALID, "%s: %s%s", where(r), why->text,
        r->skipped.n == 0 && is_csv(r, line) ? "; CSV needs --format=csv" : "");
    da_tally_add(&r->skipped, why->kind, co_err_text(&said));
    if (r->skipped.n <= CTR_BAD_LINES_SHOWN && !r->again && strcmp(why->kind, "blank") != 0) {
        co_log_warn("line skipped", CO_S("line", co_err_text(&said)));
    }
}

/* Gets this worker's next line; NULL at the end.  *why is set where it is no text. */
static int line_next(
    struct ctr_reader *r, struct da_text *ret_line, struct da_why *why, struct co_err *err) {
    struct generated *g = &r->generated;
    struct co_err said = {0};
    int rc = 0;

    *ret_line = (struct da_text){NULL, 0};
    if (r->input) {
        rc = rt_input_next(r->input, &ret_line->at, &ret_line->len, &said);
        if (rc == CO_INVALID) { /* the message begins with the place */
            const char *text = co_err_text(&said) + strlen(where(r));

            *ret_line = (struct da_text){"", 0};
            (void)da_why_set(why, "text", "%s", text + (text[0] != '\0' ? 2 : 0));
            return 0;
        }
        return rc < 0 ? co_err_set(err, rc, "%s", co_err_text(&said)) : 0;
    }
    if (g->next < g->lines) {
        *ret_line = (struct da_text){g->line, ctr_gen_line(&g->gen, g->begin + g->next, g->line)};
        g->next += r->share.count; /* skip the other workers' lines */
    }
    return 0;
}

static bool is_blank(struct da_text line) {
    return da_trim(line).len == 0;
}

/* Takes a header that the input has just read. */
static int header_take(
    struct ctr_reader *r, struct rt_input *input, struct da_text line, struct co_err *err) {
    struct rt_position at;
    CO_TRY(ctr_parser_header(r->parser, rt_input_where(input), line, !r->keep, err));
    rt_input_tell(input, &at);
    r->header_line = at.line;
    rt_input_quotes(r->input, ctr_parser_between(r->parser));
    if (!ctr_parser_labelled(r->parser) && !r->again) {
        co_log_info("no column of labels: nothing is measured", CO_S("header", where(r)));
    }
    return 0;
}

/* Reads the header of the file at path, of which this worker may have other lines only. */
static int header_read(struct ctr_reader *r, const char *path, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    struct da_text line = {NULL, 0};
    int rc = rt_input_open(path, NULL, &input, err);

    if (rc == 0) {
        rt_input_quotes(input, da_cutter_any);
    }
    do {
        rc = rc == 0 ? rt_input_next(input, &line.at, &line.len, err) : rc;
    } while (rc == 0 && line.at && is_blank(line));
    if (rc < 0) {
        return rc;
    }
    return line.at ? header_take(r, input, line, err)
                   : co_err_set(err, CO_INVALID, "\"%s\" has no header", path);
}

/* Makes sure that the header is that of the line's file.  *ret_is: the line is the header, or above
 * it.  why: what is wrong with the line, if anything is. */
static int header_find(struct ctr_reader *r, struct da_text line, const struct da_why *why,
    bool *ret_is, struct co_err *err) {
    struct rt_position at;
    int rc = 0;

    *ret_is = false;
    if (!format_of(r)->header || !r->input) {
        return 0;
    }
    rt_input_tell(r->input, &at);
    if (r->headed != at.file + 1) {
        if (is_blank(line) && !why->kind) {
            *ret_is = true;
            return 0;
        }
        CO_AUTOFREE char *path = co_xstrdup(where(r));
        bool first = r->share.count == 1 || strcmp(strrchr(path, ':'), ":1") == 0;
        if (why->kind) {
            return first ? co_err_set(err, CO_INVALID, "%s: %s", path, why->text) : 0;
        }
        *strrchr(path, ':') = '\0'; /* the number of the line */
        rc = first ? header_take(r, r->input, line, err) : header_read(r, path, err);
        r->headed = at.file + 1;
    }
    *ret_is = rc == 0 && at.line <= r->header_line;
    return rc;
}

/* Counts a label; -1 is 0, as in files for machines that learn from signs. */
static float label_take(struct ctr_reader *r, float label) {
    if (isnan(label)) {
        return label;
    }
    if (r->labels[(int)label + 1]++ == 0 && label < 0.0F && !r->again) {
        co_log_info("label -1 counts as 0", CO_S("line", where(r)));
    }
    return label < 0.0F ? 0.0F : label;
}

/* Says once that the training does without a part of the data. */
static void left_note(struct ctr_reader *r, struct da_text slot) {
    char text[DA_QUOTE_MAX];

    if (slot.at && !r->left_said && !r->again) {
        r->left_said = true;
        co_log_warn("slots that the model does not have are left out", CO_S("line", where(r)),
            CO_S("slot", da_quote(slot, text)), CO_S("expected", "click, dense_feature, 1 to 26"));
    }
}

/* Parses a line into sample b->n; false: it cannot be used, and *why says why. */
static bool sample_parse(
    struct ctr_reader *r, struct da_text line, struct ctr_batch *b, struct da_why *why) {
    struct ctr_sample s = {.vocabulary = r->vocabulary,
        .ids = b->ids + b->n * CTR_SLOTS,
        .dense = b->dense + b->n * CTR_NUMBERS,
        .more = format_of(r)->several ? &b->more : NULL,
        .cell = (uint32_t)(b->n * CTR_SLOTS)};
    size_t more = b->more.n;

    if (is_blank(line)) {
        (void)da_why_set(why, "blank", "a blank line");
        return false;
    }
    int rc = ctr_parser_parse(r->parser, line, &s, why);
    if (rc == 0 && isnan(s.label) && !r->keep) {
        rc = da_why_set(
            why, "label", "no label, expected " DA_LABEL_EXPECTED ": lines without are to predict");
    }
    if (rc == 0) {
        left_note(r, s.left);
    }
    b->label[b->n] = label_take(r, rc == 0 ? s.label : NAN);
    b->more.n = rc == 0 ? b->more.n : more;
    return rc == 0;
}

/* Makes a sample, at n, of a line that is none. */
static void sample_mark(struct ctr_batch *b) {
    memset(b->ids + b->n * CTR_SLOTS, 0, CTR_SLOTS * sizeof(*b->ids));
    memset(b->dense + b->n * CTR_NUMBERS, 0, CTR_NUMBERS * sizeof(*b->dense));
    b->label[b->n] = NAN;
}

/* Adds the next line's sample; *ret_more false: there is no line. */
static int sample_next(
    struct ctr_reader *r, struct ctr_batch *b, bool *ret_more, struct co_err *err) {
    struct da_why why = {.kind = NULL};
    struct da_text line;
    bool header = false;
    int rc = line_next(r, &line, &why, err);

    *ret_more = rc == 0 && line.at;
    if (*ret_more) {
        rc = header_find(r, line, &why, &header, err);
    }
    r->skipped.headed = r->skipped.headed || header;
    if (rc < 0 || !*ret_more || header) {
        return rc;
    }
    b->bad[b->n] = why.kind || !sample_parse(r, line, b, &why);
    r->samples += !b->bad[b->n];
    if (b->bad[b->n]) {
        skip(r, line, &why);
        sample_mark(b);
    }
    b->n += r->keep || !b->bad[b->n];
    return 0;
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Says, at the end of the first pass, what a human should know of the data. */
static void pass_log(const struct ctr_reader *r) {
    const char *data = r->path ? r->path : "generated lines";
    uint64_t no = r->labels[0] + r->labels[1], yes = r->labels[2];

    if (r->skipped.n > 0) {
        char text[DA_SUMMARY_MAX];

        da_tally_text(&r->skipped, text);
        co_log_warn(
            "lines skipped", CO_S("data", data), CO_I("usable", r->samples), CO_S("skipped", text));
    }
    if (r->labels[0] > 0 && r->labels[1] > 0) {
        co_log_warn("labels 0 and -1 both count as 0", CO_S("data", data),
            CO_I("zero", r->labels[1]), CO_I("minus_one", r->labels[0]));
    }
    if ((no > 0) != (yes > 0)) {
        co_log_warn(yes > 0 ? "all labels are 1: there is no second class, and no auc"
                            : "all labels are 0: there is no second class, and no auc",
            CO_S("data", data), CO_S("share", ctr_reader_describe(r)), CO_I("lines", no + yes));
    }
}

int ctr_reader_next(struct ctr_reader *r, struct ctr_batch *b, struct co_err *err) {
    bool more = true;

    b->n = b->more.n = 0;
    b->mean = format_of(r)->mean;
    while (more && b->n < b->max && b->more.n < MORE_FULL) {
        CO_TRY(sample_next(r, b, &more, err));
    }
    if (b->n == 0 && !r->again) {
        r->again = true;
        pass_log(r);
    }
    return 0;
}

void ctr_reader_rewind(struct ctr_reader *r) {
    if (r->input) {
        rt_input_rewind(r->input);
    }
    r->generated.next = r->share.index;
    memset(&r->skipped, 0, sizeof(r->skipped));
    memset(r->labels, 0, sizeof(r->labels));
    r->samples = 0;
    r->again = true;
}

int ctr_reader_probe(struct ctr_reader *r, struct co_err *err) {
    uint64_t ids[CTR_SLOTS];
    float dense[CTR_NUMBERS], label;
    bool bad, more = true, keep = r->keep;
    struct ctr_batch b = {.max = 1, .ids = ids, .dense = dense, .label = &label, .bad = &bad};
    int rc = 0;

    r->again = true; /* log nothing */
    r->keep = false;
    while (rc == 0 && more && b.n == 0) {
        rc = sample_next(r, &b, &more, err);
    }
    if (rc == 0 && b.n == 0) {
        rc = da_tally_unusable(&r->skipped, r->path ? r->path : "generated", err);
    }
    free(b.more.at);
    ctr_reader_rewind(r);
    r->again = false;
    r->keep = keep;
    return rc;
}

const char *ctr_reader_describe(const struct ctr_reader *r) {
    return r->input ? rt_input_describe(r->input) : r->description;
}

const struct da_tally *ctr_reader_skipped(const struct ctr_reader *r) {
    return &r->skipped;
}

uint64_t ctr_reader_samples(const struct ctr_reader *r) {
    return r->samples;
}
