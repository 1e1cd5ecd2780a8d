/* The YAML writer, by libyaml's emitter. */
#include "common/yaml/yaml_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "common/mem.h"
#include "common/yaml/yaml_scalar.h"

struct writer {
    yaml_emitter_t emitter;
    bool failed;
};

static int append(void *out, unsigned char *bytes, size_t n) {
    return co_buf_add(out, (const char *)bytes, n, NULL) == 0;
}

/* The emitter takes the event, even if it fails. */
static void emit(struct writer *w, yaml_event_t *event, int made) {
    w->failed = w->failed || !made || !yaml_emitter_emit(&w->emitter, event);
}

/* A string that would be read as a number, a boolean, null or a merge needs quotes. */
static bool is_ambiguous(const char *text, size_t n) {
    const struct co_yaml_scalar s = {.plain = true, .text = text, .len = n};
    CO_AUTOJSON json_t *v = NULL;
    return co_yaml_scalar_value(&s, &v, NULL) < 0 || !json_is_string(v) || co_yaml_is_merge(&s);
}

static void write_text(struct writer *w, const char *text, size_t n) {
    yaml_event_t e;
    yaml_scalar_style_t style = is_ambiguous(text, n)   ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                : memchr(text, '\n', n) ? YAML_LITERAL_SCALAR_STYLE
                                                        : YAML_ANY_SCALAR_STYLE;
    int made = yaml_scalar_event_initialize(
        &e, NULL, NULL, (const yaml_char_t *)text, (int)n, 1, 1, style);
    emit(w, &e, made);
}

static void write_plain(struct writer *w, const char *text) {
    yaml_event_t e;
    int made = yaml_scalar_event_initialize(&e, NULL, NULL, (const yaml_char_t *)text,
        (int)strlen(text), 1, 1, YAML_PLAIN_SCALAR_STYLE);
    emit(w, &e, made);
}

static void write_value(struct writer *w, const json_t *v);

static void write_mapping(struct writer *w, const json_t *v) { /* NOLINT(misc-no-recursion) */
    yaml_event_t e;
    bool empty = json_object_size(v) == 0;
    int made = yaml_mapping_start_event_initialize(
        &e, NULL, NULL, 1, empty ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE);
    emit(w, &e, made);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value) {
        write_text(w, key, strlen(key));
        write_value(w, value);
    }
    emit(w, &e, yaml_mapping_end_event_initialize(&e));
}

static void write_sequence(struct writer *w, const json_t *v) { /* NOLINT(misc-no-recursion) */
    yaml_event_t e;
    bool empty = json_array_size(v) == 0;
    int made = yaml_sequence_start_event_initialize(
        &e, NULL, NULL, 1, empty ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE);
    emit(w, &e, made);
    for (size_t i = 0; i < json_array_size(v); i++) {
        write_value(w, json_array_get(v, i));
    }
    emit(w, &e, yaml_sequence_end_event_initialize(&e));
}

static void write_value(struct writer *w, const json_t *v) { /* NOLINT(misc-no-recursion) */
    if (w->failed) {
        return;
    }
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        write_mapping(w, v);
        return;
    case JSON_ARRAY:
        write_sequence(w, v);
        return;
    case JSON_STRING:
        write_text(w, json_string_value(v), json_string_length(v));
        return;
    default: { /* as in JSON */
        CO_AUTOFREE char *text = json_dumps(v, JSON_ENCODE_ANY);
        write_plain(w, text ? text : "null");
    }
    }
}

int co_yaml_write(const json_t *tree, struct co_buf *out, struct co_err *err) {
    struct writer w = {0};
    yaml_event_t e;
    if (!yaml_emitter_initialize(&w.emitter)) {
        return co_err_set(err, CO_NOMEMORY, "no memory to write YAML");
    }
    yaml_emitter_set_output(&w.emitter, append, out);
    yaml_emitter_set_unicode(&w.emitter, 1);
    yaml_emitter_set_width(&w.emitter, -1);
    emit(&w, &e, yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING));
    emit(&w, &e, yaml_document_start_event_initialize(&e, NULL, NULL, NULL, 0));
    write_value(&w, tree);
    emit(&w, &e, yaml_document_end_event_initialize(&e, 1));
    emit(&w, &e, yaml_stream_end_event_initialize(&e));
    (void)yaml_emitter_flush(&w.emitter);
    int rc = w.failed ? co_err_set(err, CO_INVALID, "cannot be written as YAML: %s",
                            w.emitter.problem ? w.emitter.problem : "unknown")
                      : 0;
    yaml_emitter_delete(&w.emitter);
    return rc;
}
