/* What an unquoted or tagged YAML scalar means: the rules of YAML 1.1 as kubectl applies them
 * (see common/yaml.h).  Knows nothing of documents or of libyaml.  Pure. */
#pragma once

#include "common/json.h"

#define CO_YAML_TAG "tag:yaml.org,2002:"

struct co_yaml_scalar {
    const char *tag; /* NULL: none */
    bool plain;      /* neither quoted nor a block scalar */
    const char *text;
    size_t len;
};

/* "<<" that means a merge when it stands as a key. */
bool co_yaml_is_merge(const struct co_yaml_scalar *s);

/* CO_INVALID when the text does not fit the tag or has no form in JSON (.inf, .nan, !!binary). */
CO_MUST_CHECK int co_yaml_scalar_value(
    const struct co_yaml_scalar *s, json_t **ret, struct co_err *err);

/* As a key of a mapping: what is no string becomes one ("8080: x" is "8080", "yes: x" is
 * "true"); null is CO_INVALID, and so is a NUL inside.  The caller frees. */
CO_MUST_CHECK int co_yaml_scalar_key(
    const struct co_yaml_scalar *s, char **ret, struct co_err *err);
