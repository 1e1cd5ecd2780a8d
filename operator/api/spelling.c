/* Rules of k8s.io/apimachinery/pkg/util/validation. */
#include "operator/api/spelling.h"

#include <string.h>

#define DASHES "small letters, digits and '-', "
#define ENDS "beginning and ending with a letter or digit"

/* A name is parts of letters and digits with one joint between two of them. */
static const struct rule {
    const char *words;
    size_t most;
    const char *joints;
    const char *inside; /* of a part, not at its ends */
    const char *ahead;  /* of a part */
    bool capitals, letter;
} rules[API_SPELLINGS] = {
    [API_LABEL] = {DASHES "63 at most, " ENDS, 63, .joints = "", .inside = "-", .ahead = ""},
    [API_DOMAIN] = {DASHES "parts joined by '.', each " ENDS, 253, ".", .inside = "-", .ahead = ""},
    [API_PREFIX] = {"letters, digits and '-', parts joined by '.', each " ENDS, 253, ".",
        .inside = "-", .ahead = "", .capitals = true},
    [API_SEARCH] = {"small letters, digits, '-' and '_', parts joined by '.'", 253, ".",
        .inside = "-_", .ahead = "_"},
    [API_SYSCTL] = {"small letters, digits, '-' and '_', parts joined by '.' or '/'", 253, "./",
        .inside = "-_", .ahead = ""},
    [API_PORT_NAME] = {DASHES "15 at most, with a letter among them and no two '-' together, " ENDS,
        15, .joints = "-", .inside = "", .ahead = "", .letter = true},
};

static bool is_letter(const struct rule *r, char c) {
    return (c >= 'a' && c <= 'z') || (r->capitals && c >= 'A' && c <= 'Z');
}

static bool is_plain(const struct rule *r, char c) {
    return is_letter(r, c) || (c >= '0' && c <= '9');
}

static bool is_in(char c, const char *set) {
    return c && strchr(set, c);
}

bool api_is_spelled(enum api_spelling as, const char *s, size_t n) {
    const struct rule *r = &rules[as];
    bool begins = true, letter = !r->letter; /* begins: a part */
    for (size_t i = 0; i < n; i++) {
        char next = i + 1 < n ? s[i + 1] : '\0';
        bool joint = is_in(s[i], r->joints), ends = !next || is_in(next, r->joints);
        bool may =
            is_in(s[i], begins ? r->ahead : r->inside) && (begins ? is_plain(r, next) : !ends);
        if (joint ? begins || !next : !is_plain(r, s[i]) && !may) {
            return false;
        }
        letter |= is_letter(r, s[i]);
        begins = joint;
    }
    return n > 0 && n <= r->most && letter;
}

const char *api_spelling_words(enum api_spelling as) {
    return rules[as].words;
}
