/* The read-only JSON parser.  It does not recurse: lists and objects that are open form a chain
 * through their size fields. */
#include "common/json/jdoc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

/* ---- reading ---------------------------------------------------------------------------- */

enum { NONE = UINT32_MAX, NODES_MIN = 16 };

struct jdoc_reader {
    struct co_jdoc *doc;
    char *begin, *at; /* a NUL follows the last byte */
    const char *unread;
    uint32_t open; /* the innermost open list or object; its size field has the outer one */
    const char *fault;
};

static bool set_fault(struct jdoc_reader *r, const char *what) {
    r->fault = what;
    return false;
}

uint32_t co_jdoc_add(struct co_jdoc *d, enum co_jtype type, const char *text) {
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : NODES_MIN;
        d->node = co_xrealloc(d->node, d->cap, sizeof(*d->node));
    }
    d->node[d->n] = (struct co_jnode){.text = text, .size = 1, .type = (uint8_t)type};
    return (uint32_t)d->n++;
}

void co_jdoc_end(struct co_jdoc *d, uint32_t nest) {
    d->node[nest].size = (uint32_t)(d->n - nest);
}

static uint32_t add_node(struct jdoc_reader *r, enum co_jtype type, const char *text) {
    return co_jdoc_add(r->doc, type, text);
}

static void skip_space(struct jdoc_reader *r) {
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t') {
        r->at++;
    }
}

static int read_hex4(const char *s) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        v = v * 16 + digit;
    }
    return v;
}

static char *put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    }
    return out;
}

static bool is_low_half(int c) {
    return c >= 0xDC00 && c <= 0xDFFF;
}

/* Decodes what follows a backslash to *out; the result is never longer than the escape. */
static bool unescape_string(struct jdoc_reader *r, char **out) {
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *simple = *r->at ? strchr(from, *r->at) : NULL;
    if (simple) {
        *(*out)++ = to[simple - from];
        r->at++;
        return true;
    }
    int c = *r->at == 'u' ? read_hex4(r->at + 1) : -1;
    if (c < 0) {
        return set_fault(r, "bad escape");
    }
    r->at += 5;
    uint32_t point = (uint32_t)c;
    if (c >= 0xD800 && c <= 0xDFFF) {
        int low = r->at[0] == '\\' && r->at[1] == 'u' ? read_hex4(r->at + 2) : -1;
        bool pair = c <= 0xDBFF && is_low_half(low);
        point = pair ? 0x10000 + ((uint32_t)(c - 0xD800) << 10) + (uint32_t)(low - 0xDC00) : 0xFFFD;
        r->at += pair ? 6 : 0;
    }
    *out = put_utf8(*out, point ? point : 0xFFFD); /* a NUL would end the C string */
    return true;
}

/* The end of a run of plain characters: no quotes, escapes, control characters or non-ASCII. */
static char *plain_end(char *s) {
    while ((signed char)*s >= ' ' && *s != '"' && *s != '\\') {
        s++;
    }
    return s;
}

/* r->at is at the opening quote.  The string is unescaped in place and terminated by a NUL. */
static bool read_string(struct jdoc_reader *r, const char **ret) {
    char *start = ++r->at;
    char *out = start;
    for (;;) {
        char *end = plain_end(r->at);
        size_t n = (size_t)(end - r->at);
        if (!n && (unsigned char)*end >= 0x80) {
            n = co_utf8_len(end, 4); /* cannot read past the NUL after the text */
            if (!n) {
                return set_fault(r, "not UTF-8");
            }
        }
        if (n) {
            if (out != r->at) {
                memmove(out, r->at, n);
            }
            out += n;
            r->at += n;
            continue;
        }
        if (*end == '"') {
            break;
        }
        if (*end != '\\') {
            return set_fault(r, "a string that does not end, or with a control character");
        }
        r->at++;
        if (!unescape_string(r, &out)) {
            return false;
        }
    }
    r->at++;
    *out = '\0';
    *ret = start;
    return true;
}

static const char *skip_digits(const char *s) {
    while (*s >= '0' && *s <= '9') {
        s++;
    }
    return s;
}

static bool read_number(struct jdoc_reader *r) {
    const char *s = r->at + (*r->at == '-');
    const char *end = *s == '0' ? s + 1 : skip_digits(s);
    if (end > s && *end == '.') {
        s = end + 1;
        end = skip_digits(s);
    }
    if (end > s && (*end == 'e' || *end == 'E')) {
        s = end + 1;
        s += *s == '+' || *s == '-';
        end = skip_digits(s);
    }
    if (end == s) {
        return set_fault(r, "no value");
    }
    add_node(r, CO_J_NUMBER, r->at);
    r->at += end - r->at;
    return true;
}

static bool read_word(struct jdoc_reader *r) {
    static const struct {
        const char *word;
        enum co_jtype type;
    } words[] = {{"null", CO_J_NULL}, {"false", CO_J_FALSE}, {"true", CO_J_TRUE}};
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i].word);
        if (strncmp(r->at, words[i].word, n) == 0) {
            add_node(r, words[i].type, NULL);
            r->at += n;
            return true;
        }
    }
    return read_number(r);
}

static void open_nest(struct jdoc_reader *r, enum co_jtype type) {
    uint32_t i = add_node(r, type, NULL);
    r->doc->node[i].size = r->open;
    r->open = i;
    r->at++;
}

static void close_nest(struct jdoc_reader *r) {
    uint32_t outer = r->doc->node[r->open].size;
    co_jdoc_end(r->doc, r->open);
    r->open = outer;
    r->at++;
}

/* Skips a value that is not wanted. */
static bool skip_value(struct jdoc_reader *r) {
    size_t depth = 0;
    do {
        char c = *r->at;
        if (c == '"') {
            for (r->at++; *r->at && *r->at != '"'; r->at++) {
                r->at += *r->at == '\\' && r->at[1];
            }
            if (!*r->at) {
                break;
            }
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (depth && (c == '}' || c == ']')) {
            depth--;
        } else if (!depth) {
            r->at += strcspn(r->at, ",}]"); /* a number or a word */
            return true;
        }
        r->at += *r->at != '\0';
    } while (*r->at && depth);
    return depth || !*r->at ? set_fault(r, "a value that does not end") : true;
}

/* Reads a key up to its value.  *ret_value: the value is to be read; else it was skipped. */
static bool read_key(struct jdoc_reader *r, bool *ret_value) {
    skip_space(r);
    const char *key = NULL;
    if (*r->at != '"') {
        return set_fault(r, "no key");
    }
    if (!read_string(r, &key)) {
        return false;
    }
    bool keep = !r->unread || strcmp(key, r->unread) != 0;
    if (keep) {
        add_node(r, CO_J_STRING, key);
    }
    skip_space(r);
    if (*r->at != ':') {
        return set_fault(r, "no colon behind a key");
    }
    r->at++;
    skip_space(r);
    *ret_value = keep;
    return keep || skip_value(r);
}

/* Reads a scalar, or opens a list or object (*ret_inside), whose content comes next. */
static bool read_value(struct jdoc_reader *r, bool *ret_inside) {
    const char *text = NULL;
    skip_space(r);
    *ret_inside = *r->at == '{' || *r->at == '[';
    if (*ret_inside) {
        open_nest(r, *r->at == '{' ? CO_J_OBJECT : CO_J_LIST);
        return true;
    }
    if (*r->at != '"') {
        return read_word(r);
    }
    if (!read_string(r, &text)) {
        return false;
    }
    add_node(r, CO_J_STRING, text);
    return true;
}

static bool in_object(const struct jdoc_reader *r) {
    return r->doc->node[r->open].type == CO_J_OBJECT;
}

/* Closes all lists and objects that end here.  True: another item or member follows, or the
 * document is complete. */
static bool read_ends(struct jdoc_reader *r) {
    for (;;) {
        skip_space(r);
        if (r->open == NONE) {
            return true;
        }
        if (*r->at == ',') {
            r->at++;
            return true;
        }
        if (*r->at != (in_object(r) ? '}' : ']')) {
            return set_fault(r, "no comma, and no end");
        }
        close_nest(r);
    }
}

static bool read_all(struct jdoc_reader *r) {
    do {
        bool inside = false;
        bool value = true;
        if (r->open != NONE && in_object(r) && !read_key(r, &value)) {
            return false;
        }
        if (value && !read_value(r, &inside)) {
            return false;
        }
        skip_space(r);
        bool empty = inside && *r->at == (in_object(r) ? '}' : ']');
        if ((!inside || empty) && !read_ends(r)) {
            return false;
        }
    } while (r->open != NONE);
    return true;
}

int co_jdoc_read(
    const char *text, size_t len, const char *unread, struct co_jdoc *ret, struct co_err *err) {
    enum { BYTES_A_NODE = 20 };
    if (len >= UINT32_MAX) {
        return co_err_set(err, CO_NORESOURCE, "a text of %zu bytes", len);
    }
    struct co_jdoc doc = {.text = co_xstrndup(text, len), .cap = NODES_MIN + len / BYTES_A_NODE};
    doc.node = co_xrealloc(NULL, doc.cap, sizeof(*doc.node));
    struct jdoc_reader r = {
        .doc = &doc, .begin = doc.text, .at = doc.text, .unread = unread, .open = NONE};
    bool good = strlen(doc.text) == len ? read_all(&r) : set_fault(&r, "a NUL");
    if (good && r.at != doc.text + len) {
        good = set_fault(&r, "more behind the end");
    }
    if (!good) {
        int rc = co_err_set(err, CO_INVALID, "byte %td: %s", r.at - r.begin, r.fault);
        co_jdoc_done(&doc);
        return rc;
    }
    *ret = doc;
    return 0;
}

void co_jdoc_done(struct co_jdoc *d) {
    free(d->text);
    free(d->node);
    *d = (struct co_jdoc){0};
}

/* ---- access ----------------------------------------------------------------------------- */

bool co_jnode_is(const struct co_jnode *n, enum co_jtype type) {
    return n && n->type == type;
}

const struct co_jnode *co_jnode_get(const struct co_jnode *object, const char *key) {
    const struct co_jnode *found = NULL;
    if (!co_jnode_is(object, CO_J_OBJECT)) {
        return NULL;
    }
    const struct co_jnode *end = object + object->size;
    for (const struct co_jnode *k = object + 1; k < end; k += 1 + k[1].size) {
        /* Compare the first letter before the call to strcmp: it differs for most keys. */
        found = *k->text == *key && strcmp(k->text, key) == 0 ? k + 1 : found;
    }
    return found;
}

const struct co_jnode *co_jnode_atv(const struct co_jnode *object, const char *const *keys) {
    for (; object && *keys; keys++) {
        object = co_jnode_get(object, *keys);
    }
    return object;
}

const char *co_jnode_text(const struct co_jnode *n) {
    return co_jnode_is(n, CO_J_STRING) ? n->text : NULL;
}

bool co_jnode_int(const struct co_jnode *n, int64_t *ret) {
    if (!co_jnode_is(n, CO_J_NUMBER)) {
        return false;
    }
    char *end;
    errno = 0;
    long long v = strtoll(n->text, &end, 10);
    if (errno || *end == '.' || *end == 'e' || *end == 'E') {
        return false;
    }
    *ret = v;
    return true;
}

int64_t co_jnode_i64(const struct co_jnode *n) {
    int64_t v = 0;
    return co_jnode_int(n, &v) ? v : 0;
}

const struct co_jnode *co_jnode_next(const struct co_jnode *list, const struct co_jnode *item) {
    if (!co_jnode_is(list, CO_J_LIST)) {
        return NULL;
    }
    const struct co_jnode *next = item ? item + item->size : list + 1;
    return next < list + list->size ? next : NULL;
}
