/* Reads and parses ahead of the caller.
 *
 *     reader -> [ raw | raw | parsed | parsed ] -> caller      oldest on the right
 *
 * A queue of chunks, under one lock.  The reader adds while less than `ahead` lines are in it;
 * whichever parser is free takes the oldest raw chunk; the caller takes the oldest, once it is
 * parsed. */
#include "runtime/train/data/feed.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/clock.h"
#include "common/interrupt.h"
#include "common/thread.h"
#include "runtime/train/data/cutter.h"
#include "runtime/train/help/input.h"

enum { THREADS_MAX = 64 };

struct da_feed {
    const struct da_fields *fields;
    uint64_t passes;
    size_t ahead;
    bool by_line; /* this worker has a share of each file's lines */
    pthread_mutex_t lock;
    pthread_cond_t room, work, ready; /* for the reader, parsers, the caller */
    struct da_chunk *oldest, *newest; /* the queue */
    struct da_chunk *raw;             /* in it: the oldest that no parser has */
    struct da_chunk *spare;
    size_t lines; /* in the queue, by their chunks' weight */
    bool running, ending;
    pthread_t reader, parsers[THREADS_MAX];
    uint32_t n_parsers;
    /* The reader's: */
    struct rt_input *input;
    char *command;
    int stop;                   /* an eventfd: whatever the reader waits for ends */
    struct da_header **headers; /* [n_headers] owned: those that were found */
    size_t n_headers;
    const struct da_header *header; /* of the file `headed` - 1 */
    uint64_t headed, header_line;   /* and where it ends there */
    bool whole;                     /* the file is read from its beginning */
    const char *held; /* a line that begins the next chunk, as it is of another file; NULL: none */
    size_t held_len;
    struct rt_position before; /* the line that was read last */
};

static int named_header(struct da_feed *f, struct co_err *err) {
    struct da_header *h = NULL;

    if (f->fields->n_columns == 0) {
        return 0;
    }
    CO_TRY(da_header_named(f->fields, &h, err));
    f->headers = co_xcalloc(1, sizeof(struct da_header *));
    f->headers[f->n_headers++] = h;
    f->header = h;
    return 0;
}

static int input_open(const struct da_feed *f, const char *const *paths, size_t n,
    const struct rt_share *share, struct rt_input **ret_input, struct co_err *err) {
    const struct help_input_options o = {
        .paths = paths, .n_paths = n, .share = share, .command = f->command, .stop = f->stop};

    return help_input_open(&o, ret_input, err);
}

int da_feed_open(const struct da_feed_options *o, const struct da_fields *fields,
    struct da_feed **ret_feed, struct co_err *err) {
    CO_CLEANUP(da_feed_closep) struct da_feed *f = co_xcalloc(1, sizeof(*f));
    const struct rt_share whole = {.workers = 1};
    const struct rt_share *share = o->share.workers > 0 ? &o->share : &whole;

    f->fields = fields;
    f->stop = -1;
    f->passes = o->passes;
    f->ahead = o->ahead;
    f->n_parsers = o->threads < THREADS_MAX ? o->threads : THREADS_MAX;
    pthread_mutex_init(&f->lock, NULL);
    co_cond_init(&f->room);
    co_cond_init(&f->work);
    co_cond_init(&f->ready);
    f->command = o->command ? co_xstrdup(o->command) : NULL;
    f->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->stop < 0) {
        return co_err_errno(err, errno, "an eventfd");
    }
    CO_TRY(input_open(f, o->paths, o->n_paths, share, &f->input, err));
    f->by_line = help_input_by_line(f->input);
    CO_TRY(named_header(f, err));
    if (fields->format == RT_DATA_CSV || fields->format == RT_DATA_TSV) {
        rt_input_quotes(f->input, f->header                       ? f->header->between
                                  : fields->format == RT_DATA_TSV ? "\t"
                                                                  : da_cutter_any);
    }
    *ret_feed = co_steal_ptr(f);
    return 0;
}

size_t da_feed_files(const struct da_feed *f) {
    return help_input_files(f->input);
}

const char *da_feed_path(const struct da_feed *f, size_t file) {
    return help_input_path(f->input, file);
}

const char *da_feed_describe(const struct da_feed *f) {
    return rt_input_describe(f->input);
}

/* ---- headers -------------------------------------------------------------------------------- */

/* Takes a header that the input has just read.  Files mostly have the same one. */
static int header_take(
    struct da_feed *f, struct rt_input *input, struct da_text line, struct co_err *err) {
    struct rt_position at;
    struct da_header *h = NULL;

    rt_input_tell(input, &at);
    f->header_line = at.line;
    for (size_t i = 0; i < f->n_headers; i++) {
        if (da_is(line, f->headers[i]->text)) {
            f->header = f->headers[i];
            return 0;
        }
    }
    CO_TRY(da_header_new(f->fields, rt_input_where(input), line, &h, err));
    f->headers = co_xrealloc(f->headers, f->n_headers + 1, sizeof(struct da_header *));
    f->headers[f->n_headers++] = h;
    f->header = h;
    return 0;
}

/* Reads the header of a file of which this reader has later lines only. */
static int header_read(struct da_feed *f, const char *path, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    struct da_text line = {NULL, 0};

    CO_TRY(input_open(f, &path, 1, NULL, &input, err));
    rt_input_quotes(input, f->fields->format == RT_DATA_TSV ? "\t" : da_cutter_any);
    do {
        CO_TRY(rt_input_next(input, &line.at, &line.len, err));
    } while (line.at && da_trim(line).len == 0);
    return line.at ? header_take(f, input, line, err)
                   : co_err_set(err, CO_INVALID, "\"%s\" has no header", path);
}

/* Makes sure that the header is that of the line's file.  *ret_is: the line is the header, or above
 * it. */
static int header_find(struct da_feed *f, struct da_text line, bool *ret_is, struct co_err *err) {
    struct rt_position at;
    size_t file = help_input_file(f->input);

    *ret_is = false;
    if (!da_fields_headed(f->fields)) {
        return 0;
    }
    rt_input_tell(f->input, &at);
    if (f->headed != file + 1) {
        f->whole = f->whole || (!f->by_line && f->before.file != file) ||
                   (!f->by_line && f->before.offset == 0);
        if (f->whole && da_trim(line).len == 0) {
            *ret_is = true;
            return 0;
        }
        CO_TRY(f->whole ? header_take(f, f->input, line, err)
                        : header_read(f, help_input_path(f->input, file), err));
        f->headed = file + 1;
        f->whole = false;
        rt_input_quotes(f->input, f->header->between);
    }
    *ret_is = at.line <= f->header_line;
    return 0;
}

/* ---- the reader ----------------------------------------------------------------------------- */

/* Adds the line that was just read, unless it is of another file than those that are there:
 * *ret_other. */
static int line_add(struct da_feed *f, struct da_chunk *c, const char *line, size_t len,
    bool *ret_other, struct co_err *err) {
    const char *path = help_input_path(f->input, help_input_file(f->input));
    bool header = false;

    if (c->n > 0 && c->path != path) {
        *ret_other = true;
        f->held = line;
        f->held_len = len;
        return 0;
    }
    CO_TRY(header_find(f, (struct da_text){line, len}, &header, err));
    c->path = path;
    c->header = f->header;
    c->tally.headed = c->tally.headed || header;
    if (!header) {
        da_chunk_add(c, line, len, help_input_line(f->input));
    }
    return 0;
}

/* The next line; NULL: one that is no text, which is counted. */
static int line_next(struct da_feed *f, struct da_chunk *c, const char **ret_line, size_t *ret_len,
    bool *ret_end, struct co_err *err) {
    struct co_err said = {0};
    int rc;

    if (f->held) {
        *ret_line = co_steal_ptr(f->held);
        *ret_len = f->held_len;
        return 0;
    }
    rt_input_tell(f->input, &f->before);
    rc = rt_input_next(f->input, ret_line, ret_len, &said);
    if (rc == CO_INVALID) {
        da_tally_add(&c->tally, "text", co_err_text(&said));
        *ret_line = NULL;
        return 0;
    }
    *ret_end = rc == 0 && !*ret_line;
    return rc < 0 ? co_err_set(err, rc, "%s", co_err_text(&said)) : 0;
}

/* Ends a pass; *ret_more: another one begins. */
static void pass_end(struct da_feed *f, struct da_chunk *c, bool *ret_more) {
    c->last = true;
    *ret_more = rt_input_pass(f->input) + 1 < f->passes;
    if (*ret_more) {
        rt_input_rewind(f->input);
        f->headed = 0;
    }
    rt_input_tell(f->input, &c->end);
}

/* Reads the lines of a chunk; *ret_more: something may follow. */
static int chunk_read(struct da_feed *f, struct da_chunk *c, bool *ret_more, struct co_err *err) {
    const char *line = NULL;
    size_t len = 0;
    bool other = false, end = false;

    if (f->held) {
        c->begin = f->before;
    } else {
        rt_input_tell(f->input, &c->begin);
    }
    while (!other && !da_chunk_full(c)) {
        CO_TRY(line_next(f, c, &line, &len, &end, err));
        if (end) {
            pass_end(f, c, ret_more);
            return 0;
        }
        if (line) {
            CO_TRY(line_add(f, c, line, len, &other, err));
        }
    }
    *ret_more = true;
    if (other) {
        c->end = f->before;
    } else {
        rt_input_tell(f->input, &c->end);
    }
    return 0;
}

/* In lines: chunks of small files and of bad lines have few or none, and take memory all the same.
 */
static size_t weight(const struct da_chunk *c) {
    return c->n > DA_CHUNK_LINES / 16 ? c->n : DA_CHUNK_LINES / 16;
}

/* A chunk to fill, once there is room for its lines; NULL: the feed ends. */
static struct da_chunk *chunk_get(struct da_feed *f) {
    struct da_chunk *c = NULL;

    pthread_mutex_lock(&f->lock);
    while (!f->ending && f->oldest && f->lines >= f->ahead) {
        pthread_cond_wait(&f->room, &f->lock); /* no deadline: da_feed_close ends it */
    }
    if (!f->ending && f->spare) {
        c = f->spare;
        f->spare = c->next;
    }
    bool ending = f->ending;
    pthread_mutex_unlock(&f->lock);
    if (!ending && !c) {
        c = da_chunk_new(f->fields);
    }
    if (c) {
        da_chunk_clear(c);
    }
    return c;
}

static void chunk_put(struct da_feed *f, struct da_chunk *c) {
    pthread_mutex_lock(&f->lock);
    if (f->newest) {
        f->newest->next = c;
    } else {
        f->oldest = c;
    }
    f->newest = c;
    f->raw = f->raw ? f->raw : c;
    f->lines += weight(c);
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}

static void *reader_run(void *arg) {
    struct da_feed *f = arg;
    struct da_chunk *c;
    bool more = true;

    while (more && (c = chunk_get(f))) {
        c->rc = chunk_read(f, c, &more, &c->err);
        more = more && c->rc == 0;
        chunk_put(f, c);
    }
    return NULL;
}

static void *parser_run(void *arg) {
    struct da_feed *f = arg;

    pthread_mutex_lock(&f->lock);
    while (!f->ending) {
        struct da_chunk *c = f->raw;

        if (!c) {
            pthread_cond_wait(&f->work, &f->lock); /* no deadline: da_feed_close ends it */
            continue;
        }
        f->raw = c->next;
        pthread_mutex_unlock(&f->lock);
        da_chunk_parse(c);
        pthread_mutex_lock(&f->lock);
        c->parsed = true;
        if (c == f->oldest) {
            pthread_cond_signal(&f->ready);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- the caller ----------------------------------------------------------------------------- */

static int threads_start(struct da_feed *f, struct co_err *err) {
    uint32_t n = 0;
    int e = co_thread_start(&f->reader, reader_run, f);

    f->running = e == 0;
    for (; e == 0 && n < f->n_parsers; n++) {
        e = co_thread_start(&f->parsers[n], parser_run, f);
    }
    if (e == 0 || (f->running && n > 1)) {
        f->n_parsers = e == 0 ? n : n - 1;
        return 0;
    }
    f->n_parsers = 0;
    return co_err_errno(err, e, "a thread that reads data");
}

static void chunks_free(struct da_chunk *c) {
    while (c) {
        struct da_chunk *next = c->next;

        da_chunk_free(c);
        c = next;
    }
}

static void threads_stop(struct da_feed *f) {
    if (!f->running) {
        return;
    }
    pthread_mutex_lock(&f->lock);
    f->ending = true;
    pthread_cond_broadcast(&f->room);
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    (void)eventfd_write(f->stop, 1);
    pthread_join(f->reader, NULL); /* no deadline: it reads a chunk at most, and waits no more */
    for (uint32_t i = 0; i < f->n_parsers; i++) {
        pthread_join(f->parsers[i], NULL); /* no deadline: it parses a chunk at most */
    }
    (void)eventfd_read(f->stop, &(eventfd_t){0}); /* no wait: it is not blocking */
    f->running = f->ending = false;
    chunks_free(f->oldest);
    f->oldest = f->newest = f->raw = NULL;
    f->lines = 0;
}

void da_feed_close(struct da_feed *f) {
    if (!f) {
        return;
    }
    threads_stop(f);
    chunks_free(f->spare);
    for (size_t i = 0; i < f->n_headers; i++) {
        da_header_free(f->headers[i]);
    }
    free(f->headers);
    rt_input_close(f->input);
    free(f->command);
    co_closep(&f->stop);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->room);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->ready);
    free(f);
}

static bool is_ready(const struct da_feed *f) {
    return f->oldest && f->oldest->parsed;
}

/* Waits until the oldest chunk is parsed.  CO_TIMEOUT: end_ms has passed; CO_CANCELED: the program
 * ends the wait. */
static int ready_wait(struct da_feed *f, int64_t end_ms) {
    int64_t until_ms = end_ms < 0 ? INT64_MAX : end_ms, ask_ms = co_interrupt_next();

    while (!is_ready(f)) {
        if (co_now_ms() >= until_ms) {
            return CO_TIMEOUT;
        }
        /* no deadline: where the caller wants none */
        if (co_interrupt_wait(&f->ready, &f->lock, until_ms, &ask_ms)) {
            return CO_CANCELED;
        }
    }
    return 0;
}

int da_feed_take(
    struct da_feed *f, int64_t end_ms, struct da_chunk **ret_chunk, struct co_err *err) {
    struct da_chunk *c = NULL;

    if (!f->running) {
        CO_TRY(threads_start(f, err));
    }
    pthread_mutex_lock(&f->lock);
    int rc = ready_wait(f, end_ms);
    if (rc == 0) {
        c = f->oldest;
        f->oldest = c->next;
        f->newest = f->oldest ? f->newest : NULL;
        f->lines -= weight(c);
        c->next = NULL;
        pthread_cond_signal(&f->room);
    }
    pthread_mutex_unlock(&f->lock);
    if (!c) {
        return rc == CO_CANCELED
                   ? co_interrupt_error("reading samples", err)
                   : co_err_set(err, rc, "no lines are read yet of \"%s\"", da_feed_describe(f));
    }
    *ret_chunk = c;
    return 0;
}

void da_feed_give_back(struct da_feed *f, struct da_chunk *c) {
    pthread_mutex_lock(&f->lock);
    c->next = f->spare;
    f->spare = c;
    pthread_mutex_unlock(&f->lock);
}

int da_feed_seek(struct da_feed *f, const struct rt_position *at, struct co_err *err) {
    threads_stop(f);
    f->held = NULL;
    f->headed = 0;
    f->whole = false;
    f->header = f->fields->n_columns > 0 ? f->headers[0] : NULL;
    return rt_input_seek(f->input, at, err);
}
