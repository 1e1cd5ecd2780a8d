/* How Kubernetes spells names: which characters, in which places, and how many.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum api_spelling {
    API_LABEL,     /* of DNS: small letters, digits, and '-' inside */
    API_DOMAIN,    /* labels joined by '.' */
    API_PREFIX,    /* API_DOMAIN with capital letters, too: before the '/' of an annotation's key */
    API_SEARCH,    /* a domain that a resolver searches: '_' as well, and at a part's beginning */
    API_SYSCTL,    /* parts joined by '.' or '/' */
    API_PORT_NAME, /* a label with a letter in it, and no two '-' beside each other */
    API_SPELLINGS,
};

/* Whether the first n characters of s, the whole of it, are such a name; "" is none. */
bool api_is_spelled(enum api_spelling as, const char *s, size_t n);
/* What is expected of such a name, after "use"; static. */
const char *api_spelling_words(enum api_spelling as);
