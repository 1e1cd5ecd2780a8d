/* The syntax is Kubernetes' (Labels and Selectors, Annotations): a key is NAME or PREFIX/NAME,
 * where PREFIX is a DNS subdomain; a label's value is a NAME, or empty. */
#include "operator/api/validate_labels.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "operator/api/spelling.h"

enum {
    NAME_MAX_LABEL = 63,
    PREFIX_MAX = 253,
    ANNOTATIONS_MAX = 256 * 1024, /* keys and values of all of them */
    DEPTH_MAX = 8,                /* of nodeAffinity in a template: 6 */
    TEXT_MAX = 240,
};

#define DIGITS "0123456789"
#define SMALL "abcdefghijklmnopqrstuvwxyz"
#define CAPITAL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ENDS "beginning and ending with a letter or digit"

static bool is_alnum(char c) {
    return c && strchr(SMALL CAPITAL DIGITS, c);
}

/* Each writes what is wrong with the text, which ends at n; false when nothing is. */
static bool find_length(size_t n, size_t most, char ret[TEXT_MAX]) {
    if (n == 0) {
        (void)snprintf(ret, TEXT_MAX, "is empty, expected 1 to %zu characters", most);
    } else if (n > most) {
        (void)snprintf(ret, TEXT_MAX, "has %zu characters, expected at most %zu", n, most);
    }
    return n == 0 || n > most;
}

static bool find_name(const char *s, size_t n, char ret[TEXT_MAX]) {
    size_t fits = strspn(s, SMALL CAPITAL DIGITS "-_.");
    if (n && (fits < n || !is_alnum(s[0]) || !is_alnum(s[n - 1]))) {
        (void)snprintf(ret, TEXT_MAX,
            "is \"%.*s\", expected letters, digits, '-', '_' and '.', " ENDS,
            co_utf8_fit(s, n < 40 ? (int)n : 40), s);
        return true;
    }
    return find_length(n, NAME_MAX_LABEL, ret);
}

static bool find_prefix(const char *s, size_t n, bool capitals, char ret[TEXT_MAX]) {
    enum api_spelling as = capitals ? API_PREFIX : API_DOMAIN;
    if (n && n <= PREFIX_MAX && !api_is_spelled(as, s, n)) {
        (void)snprintf(ret, TEXT_MAX, "is \"%.*s\", expected a DNS name: %s",
            co_utf8_fit(s, n < 40 ? (int)n : 40), s, api_spelling_words(as));
        return true;
    }
    return find_length(n, PREFIX_MAX, ret);
}

static bool find_key(const char *key, bool capitals, char ret[TEXT_MAX]) {
    const char *slash = strchr(key, '/');
    const char *name = slash ? slash + 1 : key;
    char text[TEXT_MAX];
    if (strchr(name, '/')) {
        (void)snprintf(
            ret, TEXT_MAX, "has a key with more than one '/', expected NAME or PREFIX/NAME");
        return true;
    }
    if (slash && find_prefix(key, (size_t)(slash - key), capitals, text)) {
        (void)snprintf(ret, TEXT_MAX, "has a key whose prefix, before '/', %.180s", text);
        return true;
    }
    if (find_name(name, strlen(name), text)) {
        (void)snprintf(
            ret, TEXT_MAX, "has a key whose name%s %.180s", slash ? ", after '/'," : "", text);
        return true;
    }
    return false;
}

/* key: a member of the object at base. */
static void say_member(
    struct co_findings *to, const char *base, const char *key, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s.%s", base, key);
    CO_AUTOFREE char *message =
        co_xasprintf("%s[\"%.*s\"] %s", base, co_utf8_fit(key, 80), key, text);
    co_finding_as(to, path, message);
}

static void check_labels(struct co_findings *to, const json_t *map, const char *path) {
    const char *key;
    json_t *j;
    char text[TEXT_MAX];
    json_object_foreach((json_t *)(uintptr_t)map, key, j) {
        size_t n = json_string_length(j);
        if (find_key(key, false, text) || (n && find_name(json_string_value(j), n, text))) {
            say_member(to, path, key, text);
        }
    }
}

static void check_annotations(struct co_findings *to, const json_t *map, const char *path) {
    const char *key;
    json_t *j;
    char text[TEXT_MAX];
    size_t size = 0;
    json_object_foreach((json_t *)(uintptr_t)map, key, j) {
        size += strlen(key) + json_string_length(j);
        if (find_key(key, true, text)) {
            say_member(to, path, key, text);
        }
    }
    if (size > ANNOTATIONS_MAX) {
        co_finding(to, path, "has %zu bytes of keys and values, expected at most %d", size,
            ANNOTATIONS_MAX);
    }
}

/* The key of a label. */
static void check_key(struct co_findings *to, const json_t *key, const char *path) {
    char text[TEXT_MAX];
    if (json_is_string(key) && find_key(json_string_value(key), false, text)) {
        co_finding(to, path, "%s", text);
    }
}

/* A list of expressions: keys and values are those of labels. */
static void check_expressions(struct co_findings *to, const json_t *list, const char *path) {
    size_t i, k;
    json_t *e, *value;
    char text[TEXT_MAX];
    json_array_foreach(list, i, e) {
        CO_AUTOFREE char *key = co_xasprintf("%s.%zu.key", path, i);
        check_key(to, json_object_get(e, "key"), key);
        json_array_foreach(json_object_get(e, "values"), k, value) {
            size_t n = json_string_length(value);
            if (n && find_name(json_string_value(value), n, text)) {
                CO_AUTOFREE char *at = co_xasprintf("%s.%zu.values.%zu", path, i, k);
                co_finding(to, at, "%s", text);
            }
        }
    }
}

static void check_keys(struct co_findings *to, const json_t *list, const char *path) {
    size_t i;
    json_t *key;
    json_array_foreach(list, i, key) {
        CO_AUTOFREE char *at = co_xasprintf("%s.%zu", path, i);
        check_key(to, key, at);
    }
}

static const struct {
    const char *key;
    void (*check)(struct co_findings *to, const json_t *j, const char *path);
} rows[] = {
    {"labels", check_labels},
    {"annotations", check_annotations},
    {"nodeSelector", check_labels},
    {"matchLabels", check_labels},
    {"matchExpressions", check_expressions},
    {"topologyKey", check_key},
    {"matchLabelKeys", check_keys},
    {"mismatchLabelKeys", check_keys},
};

static void walk_below(struct co_findings *to, const json_t *obj, const char *base, int depth) {
    const char *key;
    json_t *j;
    size_t i;
    json_array_foreach(obj, i, j) {
        CO_AUTOFREE char *path = co_xasprintf("%s.%zu", base, i);
        walk_below(to, j, path, depth);
    }
    json_object_foreach((json_t *)(uintptr_t)obj, key, j) {
        CO_AUTOFREE char *path = co_xasprintf("%s.%s", base, key);
        bool known = false;
        for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
            if (strcmp(rows[r].key, key) == 0) {
                rows[r].check(to, j, path);
                known = true;
            }
        }
        if (!known && depth < DEPTH_MAX) {
            walk_below(to, j, path, depth + 1);
        }
    }
}

void api_labels_validate(const json_t *obj, const char *base, struct co_findings *to) {
    walk_below(to, obj, base, 0);
}
