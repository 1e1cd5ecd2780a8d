/* The value of an unquoted or tagged YAML scalar, by the rules of YAML 1.1 as kubectl applies them
 * (see common/yaml/yaml.h).  Knows nothing of documents or libyaml.  Pure. */
#pragma once

#include "common/json/json.h"

#define CO_YAML_TAG "tag:yaml.org,2002:"

struct co_yaml_scalar {
    const char *tag; /* NULL: none */
    bool plain;      /* neither quoted nor a block scalar */
    const char *text;
    size_t len;
};

/* The scalar, used as a key, means a merge: it is "<<" or has that tag. */
bool co_yaml_is_merge(const struct co_yaml_scalar *s);

/* CO_INVALID when the text does not match its tag, or JSON cannot express it (.inf, .nan,
 * !!binary).
 */
CO_MUST_CHECK int co_yaml_scalar_value(
    const struct co_yaml_scalar *s, json_t **ret, struct co_err *err);

/* The scalar as a key of a mapping: other types become strings ("8080: x" has the key "8080", "yes:
 * x" has "true").  CO_INVALID for null and for a NUL inside.  The caller frees *ret. */
CO_MUST_CHECK int co_yaml_scalar_key(
    const struct co_yaml_scalar *s, char **ret, struct co_err *err);
