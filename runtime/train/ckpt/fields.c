/* Manifest lines to and from structs, by tables of fields; and the hash at the end of a manifest.
 */
#include "runtime/train/ckpt/fields.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/train/ckpt/format.h"

bool ckpt_field_number(const char *s, size_t len, unsigned base, uint64_t max, uint64_t *ret) {
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        const char *digits = "0123456789abcdef";
        const char *d = memchr(digits, s[i], base);
        if (!d || v > (UINT64_MAX - 15) / base) {
            return false;
        }
        v = v * base + (uint64_t)(d - digits);
    }
    *ret = v;
    return len > 0 && v <= max;
}

bool ckpt_field_begins(const char *s, size_t len, const char *with) {
    return len >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

static bool set_text(const struct ckpt_field *f, const char *s, size_t len, char *to) {
    if (len == 0 || len >= f->size || memchr(s, '/', len) || memchr(s, 0, len)) {
        return false;
    }
    memcpy(to, s, len);
    to[len] = '\0';
    return true;
}

static bool set_word(const struct ckpt_field *f, const char *s, size_t len, bool *to) {
    for (int i = 0; i < 2; i++) {
        if (len == strlen(f->words[i]) && memcmp(s, f->words[i], len) == 0) {
            *to = i;
            return true;
        }
    }
    return false;
}

static bool set_field(const struct ckpt_field *f, const char *s, size_t len, void *to) {
    bool wide = f->size == 8;
    uint64_t v;
    switch (f->type) {
    case CKPT_FIELD_TEXT:
        return set_text(f, s, len, to);
    case CKPT_FIELD_WORD:
        return set_word(f, s, len, to);
    default:
        break;
    }
    if (!ckpt_field_number(
            s, len, f->type == CKPT_FIELD_HEX ? 16 : 10, wide ? UINT64_MAX : UINT32_MAX, &v)) {
        return false;
    }
    uint32_t v32 = (uint32_t)v;
    memcpy(to, wide ? (const void *)&v : &v32, f->size);
    return true;
}

static bool is_key(const struct ckpt_field *f, const char *p, const char *stop) {
    size_t k = strlen(f->key);
    return (size_t)(stop - p) > k && memcmp(p, f->key, k) == 0 && p[k] == '=';
}

int ckpt_fields_parse(const struct ckpt_field *fields, size_t n, const char *text, size_t len,
    void *to, struct co_err *err) {
    const char *p = text, *end = text + len;
    for (size_t i = 0; i < n; i++) {
        const struct ckpt_field *f = &fields[i];
        size_t k = strlen(f->key);
        const char *stop = memchr(p, ' ', (size_t)(end - p));
        stop = stop ? stop : end;
        if (f->optional && !is_key(f, p, stop)) {
            continue;
        }
        if (!is_key(f, p, stop) ||
            !set_field(f, p + k + 1, (size_t)(stop - p) - k - 1, (char *)to + f->offset)) {
            return co_err_set(err, CO_DAMAGED, "field \"%s\" is missing or wrong", f->key);
        }
        p = stop < end ? stop + 1 : end;
    }
    return p == end ? 0 : co_err_set(err, CO_DAMAGED, "too many fields");
}

static int print_field(
    const struct ckpt_field *f, const void *from, struct co_buf *to, struct co_err *err) {
    uint64_t v = 0;
    uint32_t v32;
    if (f->type == CKPT_FIELD_TEXT) {
        return co_buf_addf(to, err, " %s=%s", f->key, (const char *)from);
    }
    if (f->type == CKPT_FIELD_WORD) {
        return co_buf_addf(to, err, " %s=%s", f->key, f->words[*(const bool *)from]);
    }
    if (f->size == 8) {
        memcpy(&v, from, 8);
    } else {
        memcpy(&v32, from, 4);
        v = v32;
    }
    return f->type == CKPT_FIELD_HEX ? co_buf_addf(to, err, " %s=%016" PRIx64, f->key, v)
                                     : co_buf_addf(to, err, " %s=%" PRIu64, f->key, v);
}

static bool is_empty(const struct ckpt_field *f, const void *from) {
    static const char zeroes[sizeof(uint64_t)];
    const char *p = (const char *)from + f->offset;
    return f->type == CKPT_FIELD_TEXT ? !*p : memcmp(p, zeroes, f->size) == 0;
}

int ckpt_fields_print(const char *word, const struct ckpt_field *fields, size_t n, const void *from,
    struct co_buf *to, struct co_err *err) {
    CO_TRY(co_buf_adds(to, word, err));
    for (size_t i = 0; i < n; i++) {
        if (fields[i].optional && is_empty(&fields[i], from)) {
            continue;
        }
        CO_TRY(print_field(&fields[i], (const char *)from + fields[i].offset, to, err));
    }
    return co_buf_adds(to, "\n", err);
}

/* ---- lines ---- */

static const char end_key[] = "end hash=";

int ckpt_lines_next(
    struct ckpt_lines *l, const char **ret_line, size_t *ret_len, struct co_err *err) {
    const char *p = l->text + l->at;
    const char *nl = l->at < l->len ? memchr(p, '\n', l->len - l->at) : NULL;
    if (!nl) {
        return co_err_set(err, CO_DAMAGED, "ends before its last line");
    }
    size_t n = (size_t)(nl - p), k = strlen(end_key);
    l->number++;
    if (ckpt_field_begins(p, n, end_key)) {
        uint64_t want;
        if (nl + 1 != l->text + l->len || !ckpt_field_number(p + k, n - k, 16, UINT64_MAX, &want) ||
            want != ckpt_hash(l->text, l->at)) {
            return co_err_set(err, CO_DAMAGED, "line %u: wrong checksum", l->number);
        }
        return 1;
    }
    l->at += n + 1;
    *ret_line = p;
    *ret_len = n;
    return 0;
}

int ckpt_lines_refuse(const struct ckpt_lines *l, unsigned version, struct co_err *err) {
    struct ckpt_lines rest = *l;
    const char *line;
    size_t len;
    int rc = ckpt_field_begins(l->text, l->len, "paddlert checkpoint ") ? 0 : CO_DAMAGED;
    while (rc == 0) {
        rc = ckpt_lines_next(&rest, &line, &len, NULL);
    }
    return rc < 0 ? co_err_set(err, CO_DAMAGED, "not a checkpoint of version %u", version)
                  : co_err_set(err, CO_UNSUPPORTED,
                        "whole, but not of version %u: a later libpaddlert wrote it, which can "
                        "read it",
                        version);
}

int ckpt_lines_end(struct co_buf *text, struct co_err *err) {
    return co_buf_addf(text, err, "%s%016" PRIx64 "\n", end_key, ckpt_hash(text->data, text->len));
}
