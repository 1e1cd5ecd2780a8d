/* The YAML reader: events of libyaml to JSON values, with anchors, aliases and merges. */
#include "common/yaml/yaml.h"

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "common/yaml/yaml_lines.h"
#include "common/yaml/yaml_scalar.h"

/* Limits for one document; values and bytes include expanded aliases. */
enum {
    MAX_DEPTH = 200,
    MAX_VALUES = 1000 * 1000,
    MAX_BYTES = 64 * 1024 * 1024,
    MAX_ANCHORS = 1000,
};

struct anchor {
    char *name;
    json_t *value; /* NULL while it is being read */
    size_t values, bytes;
};

struct co_yaml {
    yaml_parser_t parser;
    const char *name, *text;
    size_t len;
    bool returned; /* a document has been returned */
    struct co_err failed;
    /* of the current document */
    int line;
    struct co_yaml_lines lines;
    struct anchor *anchors;
    size_t n_anchors;
    size_t values, bytes;
};

static void event_delete(yaml_event_t *ev) {
    yaml_event_delete(ev);
    memset(ev, 0, sizeof(*ev));
}
#define AUTO_EVENT CO_CLEANUP(event_delete)

static int line_of(const yaml_event_t *ev) {
    return (int)ev->start_mark.line + 1;
}

/* The position of a value: its spot in the tree of lines, and its depth. */
struct yaml_position {
    unsigned spot;
    int depth;
};

static int read_node(
    struct co_yaml *y, yaml_event_t *ev, struct yaml_position at, json_t **ret, struct co_err *err);

int co_yaml_open(
    const char *name, const char *text, size_t len, struct co_yaml **ret, struct co_err *err) {
    if (len > MAX_BYTES) {
        return co_err_set(err, CO_NORESOURCE, "%s: larger than %d bytes", name, MAX_BYTES);
    }
    struct co_yaml *y = co_xcalloc(1, sizeof(*y));
    y->name = name;
    y->text = text;
    y->len = len;
    y->lines.names.max = 2 * (size_t)MAX_BYTES;
    if (!yaml_parser_initialize(&y->parser)) {
        free(y);
        return co_err_set(err, CO_NOMEMORY, "%s: no memory for a parser", name);
    }
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, len);
    *ret = y;
    return 0;
}

static void forget_document(struct co_yaml *y) {
    while (y->n_anchors) {
        struct anchor *a = &y->anchors[--y->n_anchors];
        free(a->name);
        json_decref(a->value);
    }
    co_yaml_lines_clear(&y->lines);
    y->values = y->bytes = 0;
}

void co_yaml_close(struct co_yaml *y) {
    if (!y) {
        return;
    }
    forget_document(y);
    yaml_parser_delete(&y->parser);
    free(y->anchors);
    co_yaml_lines_done(&y->lines);
    free(y);
}

static int fail_at(
    const struct co_yaml *y, yaml_mark_t mark, struct co_err *err, int code, const char *cause) {
    return co_err_set(err, code, "%s:%zu:%zu: %s", y->name, mark.line + 1, mark.column + 1, cause);
}

/* Puts the position before an error that a callee has set. */
static int wrap_at(const struct co_yaml *y, yaml_mark_t mark, struct co_err *err, int code) {
    co_err_wrap(err, "%s:%zu:%zu", y->name, mark.line + 1, mark.column + 1);
    return code;
}

static int parser_error(struct co_yaml *y, struct co_err *err) {
    const yaml_parser_t *p = &y->parser;
    const char *problem = p->problem ? p->problem : "cannot be read";
    if (p->error == YAML_MEMORY_ERROR) {
        return co_err_set(err, CO_NOMEMORY, "%s: no memory", y->name);
    }
    if (p->error == YAML_READER_ERROR) {
        yaml_mark_t mark = {0};
        for (size_t i = 0; i < p->problem_offset && i < y->len; i++) {
            mark.column = y->text[i] == '\n' ? 0 : mark.column + 1;
            mark.line += y->text[i] == '\n';
        }
        return fail_at(y, mark, err, CO_INVALID, problem);
    }
    if (p->context && p->context_mark.line != p->problem_mark.line) {
        return co_err_set(err, CO_INVALID, "%s:%zu:%zu: %s (%s that starts on line %zu)", y->name,
            p->problem_mark.line + 1, p->problem_mark.column + 1, problem, p->context,
            p->context_mark.line + 1);
    }
    return fail_at(y, p->problem_mark, err, CO_INVALID, problem);
}

static int next_event(struct co_yaml *y, yaml_event_t *ret, struct co_err *err) {
    return yaml_parser_parse(&y->parser, ret) ? 0 : parser_error(y, err);
}

static int count_values(
    struct co_yaml *y, yaml_mark_t mark, size_t values, size_t bytes, struct co_err *err) {
    y->values += values;
    y->bytes += bytes;
    if (y->values > MAX_VALUES || y->bytes > MAX_BYTES) {
        return fail_at(y, mark, err, CO_NORESOURCE,
            "the document is too large (1,000,000 values or 64 MiB, with all aliases expanded)");
    }
    return 0;
}

static struct anchor *find_anchor(struct co_yaml *y, const char *name) {
    for (size_t i = y->n_anchors; i-- > 0;) {
        if (strcmp(y->anchors[i].name, name) == 0) {
            return &y->anchors[i];
        }
    }
    return NULL;
}

static int open_anchor(
    struct co_yaml *y, const yaml_event_t *ev, const yaml_char_t *name, struct co_err *err) {
    if (y->n_anchors == MAX_ANCHORS) {
        return fail_at(y, ev->start_mark, err, CO_NORESOURCE, "more than 1,000 anchors");
    }
    y->anchors = co_xgrow(y->anchors, y->n_anchors, sizeof(*y->anchors));
    y->anchors[y->n_anchors++] = (struct anchor){
        .name = co_xstrdup((const char *)name), .values = y->values, .bytes = y->bytes};
    return 0;
}

static void close_anchor(struct co_yaml *y, size_t index, json_t *value) {
    struct anchor *a = &y->anchors[index];
    a->value = json_incref(value);
    a->values = y->values - a->values;
    a->bytes = y->bytes - a->bytes;
}

static int read_alias(struct co_yaml *y, const yaml_event_t *ev, json_t **ret, struct co_err *err) {
    const char *name = (const char *)ev->data.alias.anchor;
    const struct anchor *a = find_anchor(y, name);
    char cause[128];
    if (!a || !a->value) {
        (void)snprintf(cause, sizeof(cause),
            a ? "the anchor \"%.80s\" contains itself" : "no anchor \"%.80s\" before this alias",
            name);
        return fail_at(y, ev->start_mark, err, CO_INVALID, cause);
    }
    CO_TRY(count_values(y, ev->start_mark, a->values, a->bytes, err));
    /* A copy, so that a change of one use does not change the other. */
    *ret = json_deep_copy(a->value);
    return *ret ? 0 : fail_at(y, ev->start_mark, err, CO_NOMEMORY, "no memory");
}

static struct co_yaml_scalar scalar_of(const yaml_event_t *ev) {
    return (struct co_yaml_scalar){
        .tag = (const char *)ev->data.scalar.tag,
        .plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
        .text = (const char *)ev->data.scalar.value,
        .len = ev->data.scalar.length,
    };
}

static int read_scalar(
    struct co_yaml *y, const yaml_event_t *ev, json_t **ret, struct co_err *err) {
    struct co_yaml_scalar s = scalar_of(ev);
    CO_TRY(count_values(y, ev->start_mark, 0, s.len, err));
    int r = co_yaml_scalar_value(&s, ret, err);
    return r ? wrap_at(y, ev->start_mark, err, r) : 0;
}

static int read_sequence(
    struct co_yaml *y, struct yaml_position at, json_t **ret, struct co_err *err) {
    CO_AUTOJSON json_t *arr = json_array();
    unsigned last = 0;
    for (int i = 0;; i++) {
        AUTO_EVENT yaml_event_t ev = {0};
        CO_TRY(next_event(y, &ev, err));
        if (ev.type == YAML_SEQUENCE_END_EVENT) {
            *ret = co_steal_ptr(arr);
            return 0;
        }
        co_yaml_lines_item(&y->lines, at.spot, &last, i, line_of(&ev));
        json_t *value = NULL;
        CO_TRY(read_node(y, &ev, (struct yaml_position){last, at.depth + 1}, &value, err));
        co_json_append(arr, value);
    }
}

/* The mapping being read.  `merged` has the keys that came from "<<"; these may follow explicitly
 * without being duplicates. */
struct mapping {
    json_t *obj;
    json_t *merged;
};

static void mapping_done(struct mapping *m) {
    json_decref(m->obj);
    json_decref(m->merged);
}

static void merge_object(struct mapping *m, json_t *from) {
    const char *key;
    json_t *value;
    json_object_foreach(from, key, value) {
        co_json_set(m->obj, key, json_incref(value));
        co_json_set(m->merged, key, json_true());
    }
}

/* Merges several mappings from the last to the first, so that the first one wins. */
static int merge_value(
    struct co_yaml *y, yaml_mark_t mark, struct mapping *m, json_t *from, struct co_err *err) {
    if (json_is_object(from)) {
        merge_object(m, from);
        return 0;
    }
    size_t n = json_array_size(from);
    bool all = json_is_array(from);
    for (size_t i = 0; i < n; i++) {
        all = all && json_is_object(json_array_get(from, i));
    }
    if (!all) {
        return fail_at(y, mark, err, CO_INVALID, "\"<<\" takes a mapping or a list of mappings");
    }
    while (n-- > 0) {
        merge_object(m, json_array_get(from, n));
    }
    return 0;
}

static int read_key(struct co_yaml *y, const yaml_event_t *ev, char **ret, struct co_err *err) {
    struct co_yaml_scalar s = {.text = ""};
    CO_AUTOJSON json_t *alias = NULL;
    if (ev->type == YAML_SCALAR_EVENT) {
        s = scalar_of(ev);
        CO_TRY(count_values(y, ev->start_mark, 0, s.len, err));
    } else if (ev->type == YAML_ALIAS_EVENT) {
        CO_TRY(read_alias(y, ev, &alias, err));
    }
    if (json_is_string(alias)) {
        s.text = json_string_value(alias);
        s.len = json_string_length(alias);
    } else if (ev->type != YAML_SCALAR_EVENT) {
        return fail_at(y, ev->start_mark, err, CO_INVALID, "a key must be a string");
    }
    int r = co_yaml_scalar_key(&s, ret, err);
    if (r) {
        return wrap_at(y, ev->start_mark, err, r);
    }
    if (ev->type == YAML_SCALAR_EVENT && ev->data.scalar.anchor) {
        size_t index = y->n_anchors;
        CO_TRY(open_anchor(y, ev, ev->data.scalar.anchor, err));
        CO_AUTOJSON json_t *value = json_string(s.text);
        close_anchor(y, index, value);
    }
    return 0;
}

static int refuse_duplicate(struct co_yaml *y, const yaml_event_t *ev, struct yaml_position at,
    const char *key, struct co_err *err) {
    char cause[192];
    (void)snprintf(cause, sizeof(cause), "duplicate key \"%.100s\" (first on line %d)", key,
        co_yaml_lines_child(&y->lines, at.spot, key));
    return fail_at(y, ev->start_mark, err, CO_INVALID, cause);
}

/* Reads one "key: value"; *last is the spot of the member before it. */
static int read_member(struct co_yaml *y, const yaml_event_t *key_ev, struct yaml_position at,
    unsigned *last, struct mapping *m, struct co_err *err) {
    CO_AUTOFREE char *key = NULL;
    struct co_yaml_scalar s = scalar_of(key_ev);
    bool merging = key_ev->type == YAML_SCALAR_EVENT && co_yaml_is_merge(&s);
    if (!merging) {
        CO_TRY(read_key(y, key_ev, &key, err));
    }
    if (key && json_object_get(m->obj, key) && !json_object_get(m->merged, key)) {
        return refuse_duplicate(y, key_ev, at, key, err);
    }
    CO_TRY(co_yaml_lines_member(&y->lines, at.spot, last, key ? key : "<<", line_of(key_ev), err));
    AUTO_EVENT yaml_event_t ev = {0};
    CO_AUTOJSON json_t *value = NULL;
    CO_TRY(next_event(y, &ev, err));
    CO_TRY(read_node(y, &ev, (struct yaml_position){*last, at.depth + 1}, &value, err));
    if (merging) {
        return merge_value(y, key_ev->start_mark, m, value, err);
    }
    co_json_set(m->obj, key, co_steal_ptr(value));
    (void)json_object_del(m->merged, key);
    return 0;
}

static int read_mapping(
    struct co_yaml *y, struct yaml_position at, json_t **ret, struct co_err *err) {
    CO_CLEANUP(mapping_done) struct mapping m = {json_object(), json_object()};
    unsigned last = 0;
    for (;;) {
        AUTO_EVENT yaml_event_t ev = {0};
        CO_TRY(next_event(y, &ev, err));
        if (ev.type == YAML_MAPPING_END_EVENT) {
            *ret = json_incref(m.obj);
            return 0;
        }
        CO_TRY(read_member(y, &ev, at, &last, &m, err));
    }
}

static int read_node(struct co_yaml *y, yaml_event_t *ev, struct yaml_position at, json_t **ret,
    struct co_err *err) {
    const yaml_char_t *anchor =
        ev->type == YAML_SCALAR_EVENT           ? ev->data.scalar.anchor
        : ev->type == YAML_SEQUENCE_START_EVENT ? ev->data.sequence_start.anchor
        : ev->type == YAML_MAPPING_START_EVENT  ? ev->data.mapping_start.anchor
                                                : NULL;
    if (at.depth > MAX_DEPTH) {
        return fail_at(y, ev->start_mark, err, CO_NORESOURCE, "nested more than 200 deep");
    }
    size_t index = y->n_anchors;
    if (anchor) {
        CO_TRY(open_anchor(y, ev, anchor, err));
    }
    CO_TRY(count_values(y, ev->start_mark, 1, 0, err));
    json_t *value = NULL;
    if (ev->type == YAML_ALIAS_EVENT) {
        CO_TRY(read_alias(y, ev, &value, err));
    } else if (ev->type == YAML_SCALAR_EVENT) {
        CO_TRY(read_scalar(y, ev, &value, err));
    } else if (ev->type == YAML_SEQUENCE_START_EVENT) {
        CO_TRY(read_sequence(y, at, &value, err));
    } else {
        CO_TRY(read_mapping(y, at, &value, err));
    }
    if (anchor) {
        close_anchor(y, index, value);
    }
    *ret = value;
    return 0;
}

/* Reads the document whose start event has been read, including its end event. */
static int read_document(struct co_yaml *y, json_t **ret, struct co_err *err) {
    AUTO_EVENT yaml_event_t ev = {0};
    AUTO_EVENT yaml_event_t end = {0};
    CO_TRY(next_event(y, &ev, err));
    unsigned root = co_yaml_lines_root(&y->lines, line_of(&ev));
    CO_AUTOJSON json_t *value = NULL;
    CO_TRY(read_node(y, &ev, (struct yaml_position){root, 0}, &value, err));
    CO_TRY(next_event(y, &end, err));
    *ret = co_steal_ptr(value);
    return 0;
}

/* Not all JSON is valid for libyaml (surrogate pairs, keys beyond 1024 characters), so a text that
 * looks like JSON and failed is tried as JSON. */
static int read_as_json(struct co_yaml *y, json_t **ret) {
    size_t blank = 0;
    while (blank < y->len && strchr(" \t\r\n", y->text[blank])) {
        blank++;
    }
    if (y->returned || blank == y->len || y->text[blank] != '{') {
        return CO_INVALID;
    }
    forget_document(y);
    return co_json_parse(y->text, y->len, ret, NULL);
}

static int next_document(struct co_yaml *y, json_t **ret, struct co_err *err) {
    for (;;) {
        AUTO_EVENT yaml_event_t ev = {0};
        forget_document(y);
        CO_TRY(next_event(y, &ev, err));
        if (ev.type == YAML_STREAM_START_EVENT) {
            continue;
        }
        if (ev.type != YAML_DOCUMENT_START_EVENT) {
            return co_err_set(err, CO_NOTFOUND, "%s: no more documents", y->name);
        }
        y->line = line_of(&ev);
        json_t *value = NULL;
        CO_TRY(read_document(y, &value, err));
        if (!json_is_null(value)) {
            *ret = value;
            return 0;
        }
    }
}

int co_yaml_next(struct co_yaml *y, json_t **ret, struct co_err *err) {
    if (y->failed.code == 0) {
        int r = next_document(y, ret, &y->failed);
        if (r == 0) {
            y->returned = true;
            return 0;
        }
        if (y->parser.error && read_as_json(y, ret) == 0) {
            y->returned = true;
            (void)co_err_set(&y->failed, CO_NOTFOUND, "%s: no more documents", y->name);
            return 0;
        }
    }
    return co_err_set(err, y->failed.code, "%s", y->failed.msg);
}

int co_yaml_line(const struct co_yaml *y, const char *path) {
    int line = co_yaml_lines_find(&y->lines, path);
    return line ? line : y->line ? y->line : 1;
}
