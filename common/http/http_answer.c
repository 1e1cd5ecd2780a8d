/* The parser of HTTP answers, a state machine fed with bytes:
 *
 *   STATUS -> HEADER* -> LENGTH | UNTIL_CLOSE                      body by length, or up to the end
 *                     -> CHUNK_SIZE -> CHUNK -> CHUNK_END -> ...   body in chunks
 *                     -> TRAILER* -> COMPLETE */
#include "common/http/http_answer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/parse.h"

enum { LINE_MAX_BYTES = 8 * 1024, HEADERS_MAX = 100 };

enum answer_state {
    STATUS,
    HEADER,
    LENGTH,
    UNTIL_CLOSE,
    CHUNK_SIZE,
    CHUNK,
    CHUNK_END,
    TRAILER,
    COMPLETE
};

void co_http_answer_init(struct co_http_answer *a, size_t max_body) {
    *a = (struct co_http_answer){
        .state = STATUS, .body = CO_BUF(max_body), .line = CO_BUF(LINE_MAX_BYTES)};
}

void co_http_answer_done(struct co_http_answer *a) {
    co_buf_done(&a->body);
    co_buf_done(&a->line);
}

static void finish_answer(struct co_http_answer *a) {
    a->state = COMPLETE;
    a->complete = true;
}

static int status_line(struct co_http_answer *a, const char *line, struct co_err *err) {
    int64_t status;
    char text[4] = "";
    if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ') {
        return co_err_set(err, CO_INVALID, "no HTTP answer but \"%.60s\"", line);
    }
    (void)strncat(text, line + 9, 3);
    if (co_parse_i64("status", text, 100, 999, &status, NULL) || (line[12] && line[12] != ' ')) {
        return co_err_set(err, CO_INVALID, "no HTTP status in \"%.60s\"", line);
    }
    a->status = (int)status;
    a->close = line[7] == '0';
    a->state = HEADER;
    return 0;
}

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ",")) {
        p += strspn(p, ", \t");
        if (strncasecmp(p, word, n) == 0 && strchr(", \t;", p[n])) {
            return true;
        }
    }
    return false;
}

static int read_header(struct co_http_answer *a, const char *line, struct co_err *err) {
    const char *colon = strchr(line, ':');
    if (!colon || ++a->n_headers > HEADERS_MAX) {
        return co_err_set(err, CO_INVALID, "%s in an HTTP answer: \"%.60s\"",
            colon ? "too many headers" : "a header without a colon", line);
    }
    size_t n = (size_t)(colon - line);
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (n == 14 && strncasecmp(line, "Content-Length", n) == 0) {
        int64_t length;
        CO_TRY(co_parse_i64("Content-Length", value, 0, INT64_MAX, &length, err));
        if (a->has_length && a->left != (uint64_t)length) {
            return co_err_set(err, CO_INVALID, "two lengths in an HTTP answer");
        }
        a->has_length = true;
        a->left = (uint64_t)length;
    } else if (n == 17 && strncasecmp(line, "Transfer-Encoding", n) == 0) {
        if (strcasecmp(value, "chunked") != 0) {
            return co_err_set(err, CO_UNSUPPORTED, "an HTTP answer encoded as %.40s", value);
        }
        a->chunked = true;
    } else if (n == 10 && strncasecmp(line, "Connection", n) == 0) {
        a->close = has_word(value, "close") || (a->close && !has_word(value, "keep-alive"));
    } else if (a->want && n == strlen(a->want) && strncasecmp(line, a->want, n) == 0) {
        (void)snprintf(a->wanted, sizeof(a->wanted), "%s", value);
    }
    return 0;
}

static void headers_end(struct co_http_answer *a) {
    if (a->status < 200) { /* "100 Continue": the real answer follows */
        a->state = STATUS;
        a->n_headers = 0;
        a->has_length = a->chunked = false;
        return;
    }
    bool bare = a->status == 204 || a->status == 304;
    if (bare || (!a->chunked && a->has_length && a->left == 0)) {
        finish_answer(a);
    } else if (a->chunked) {
        a->state = CHUNK_SIZE;
    } else if (a->has_length) {
        a->state = LENGTH;
    } else {
        a->close = true;
        a->state = UNTIL_CLOSE;
    }
}

static int chunk_size(struct co_http_answer *a, const char *line, struct co_err *err) {
    uint64_t size = 0;
    size_t digits = strspn(line, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 8 || !strchr("; \t", line[digits])) {
        return co_err_set(err, CO_INVALID, "no size of a chunk: \"%.20s\"", line);
    }
    for (size_t i = 0; i < digits; i++) {
        unsigned char c = (unsigned char)line[i];
        size = size * 16 + (c <= '9' ? c - 48u : (c | 32u) - 87u); /* "0", "a" - 10 */
    }
    a->left = size;
    a->state = size ? CHUNK : TRAILER;
    return 0;
}

static int on_line(struct co_http_answer *a, const char *line, struct co_err *err) {
    switch (a->state) {
    case STATUS:
        return status_line(a, line, err);
    case HEADER:
        if (*line) {
            return read_header(a, line, err);
        }
        headers_end(a);
        return 0;
    case CHUNK_SIZE:
        return chunk_size(a, line, err);
    case CHUNK_END:
        a->state = CHUNK_SIZE;
        return *line ? co_err_set(err, CO_INVALID, "a chunk longer than it said") : 0;
    default:
        if (!*line) {
            finish_answer(a);
        } else if (++a->n_headers > HEADERS_MAX) {
            return co_err_set(err, CO_INVALID, "too many trailers in an HTTP answer");
        }
        return 0;
    }
}

static int add_body(struct co_http_answer *a, const char *data, size_t n, struct co_err *err) {
    if (a->data && a->status == 200) {
        a->data(a->arg, data, n);
        return 0;
    }
    int r = co_buf_add(&a->body, data, n, err);
    if (r) {
        (void)co_err_wrap(err, "body of an HTTP answer");
    }
    return r;
}

static int feed_body(
    struct co_http_answer *a, const char *data, size_t len, size_t *ret_used, struct co_err *err) {
    size_t n = a->state != UNTIL_CLOSE && a->left < len ? (size_t)a->left : len;
    *ret_used = n;
    a->left -= a->state == UNTIL_CLOSE ? 0 : n;
    if (a->left == 0 && a->state == CHUNK) {
        a->state = CHUNK_END;
    } else if (a->left == 0 && a->state == LENGTH) {
        finish_answer(a);
    }
    return add_body(a, data, n, err);
}

/* Lines end with LF; a CR before it is dropped. */
static int feed_line(
    struct co_http_answer *a, const char *data, size_t len, size_t *ret_used, struct co_err *err) {
    const char *end = memchr(data, '\n', len);
    *ret_used = end ? (size_t)(end - data) + 1 : len;
    int r = co_buf_add(&a->line, data, end ? (size_t)(end - data) : len, err);
    if (r) {
        (void)co_err_wrap(err, "line of an HTTP answer");
        return r;
    }
    if (!end) {
        return 0;
    }
    if (a->line.len && a->line.data[a->line.len - 1] == '\r') {
        a->line.data[--a->line.len] = '\0';
    }
    r = on_line(a, a->line.len ? a->line.data : "", err);
    co_buf_clear(&a->line);
    return r;
}

int co_http_answer_feed(
    struct co_http_answer *a, const char *data, size_t len, size_t *ret_used, struct co_err *err) {
    size_t at = 0;
    int r = 0;
    while (at < len && !a->complete && !r) {
        size_t used = 0;
        bool body = a->state == LENGTH || a->state == UNTIL_CLOSE || a->state == CHUNK;
        r = body ? feed_body(a, data + at, len - at, &used, err)
                 : feed_line(a, data + at, len - at, &used, err);
        at += used;
    }
    *ret_used = at;
    return r;
}

int co_http_answer_end(struct co_http_answer *a, struct co_err *err) {
    if (a->state == UNTIL_CLOSE) {
        finish_answer(a);
    }
    return a->complete ? 0
                       : co_err_set(err, CO_UNAVAILABLE, "the connection was closed %s",
                             a->status ? "in the middle of an answer" : "instead of an answer");
}
