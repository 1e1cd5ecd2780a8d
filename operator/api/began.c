/* Writes, parses and compares status.began.  The line is parts "words value", separated by commas;
 * those with their usual value are left out. */
#include "operator/api/began.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/parse.h"
#include "common/word_list.h"

enum spec_part {
    GENERATION,
    NP,
    TORCH,
    INTRANET,
    ELASTIC,
    GLOO,
    PEER_AUTH,
    TEMPLATES,
    PARTS = TEMPLATES + API_ROLES
};

static const struct {
    const char *key; /* of lines that earlier versions wrote: "key=value", all of them */
    const char *words, *path;
    const char *usual; /* not written; NULL: the line must have this part */
} parts[PARTS] = {
    [GENERATION] = {"generation", "spec generation", NULL, NULL},
    [NP] = {"np", "most workers", NULL, "0"},
    [TORCH] = {"torchrun", "torchrun's variables", NULL, "0"},
    [INTRANET] = {"intranet", "intranet", "spec.intranet", NULL},
    [ELASTIC] = {"elastic", "elastic", "spec.elastic", "0"},
    [GLOO] = {"withGloo", "withGloo", "spec.withGloo", "0"},
    [PEER_AUTH] = {"peerAuth", "peerAuth", "spec.peerAuth", "None"},
    [TEMPLATES + API_PS] = {"ps", "ps template", "spec.ps.template", "-"},
    [TEMPLATES + API_WORKER] = {"worker", "worker template", "spec.worker.template", "-"},
    [TEMPLATES + API_HETER] = {"heter", "heter template", "spec.heter.template", "-"},
};
static const char *const intranets[] = {
    [API_POD_IP] = "PodIP", [API_SERVICE] = "Service", [API_HOST] = "Host", [API_DNS] = "DNS"};

enum { VALUE_MAX = 24 };

const char *api_began_annotation(enum api_role role) {
    static const char *const keys[API_ROLES] = {[API_PS] = API_GROUP "/ps-template",
        [API_WORKER] = API_GROUP "/worker-template",
        [API_HETER] = API_GROUP "/heter-template"};
    return keys[role];
}

/* FNV-1a of the template with sorted keys, folded to 32 bits. */
uint32_t api_began_hash(const json_t *tmpl) {
    CO_AUTOFREE char *text = tmpl ? co_json_dump_sorted(tmpl) : NULL;
    uint64_t h = 0xcbf29ce484222325U;
    for (const char *p = text; p && *p; p++) {
        h = (h ^ (unsigned char)*p) * 0x100000001b3U;
    }
    return text ? (uint32_t)(h ^ h >> 32) : 0;
}

static void write_hash(const json_t *tmpl, char ret[VALUE_MAX]) {
    if (tmpl) {
        (void)snprintf(ret, VALUE_MAX, "%08" PRIx32, api_began_hash(tmpl));
    } else {
        (void)snprintf(ret, VALUE_MAX, "-");
    }
}

static void write_part(const struct api_job *job, enum spec_part part, char ret[VALUE_MAX]) {
    const struct api_shape *s = &job->asked;
    switch (part) {
    case GENERATION:
        (void)snprintf(ret, VALUE_MAX, "%" PRId64, job->generation);
        break;
    case NP: /* it never shrinks within an attempt */
        (void)snprintf(ret, VALUE_MAX, "%" PRId32, s->np > job->np ? s->np : job->np);
        break;
    case TORCH: /* an attempt of a version without them has none */
        (void)snprintf(ret, VALUE_MAX, "%d", job->torch);
        break;
    case INTRANET:
        (void)snprintf(ret, VALUE_MAX, "%s", intranets[s->intranet]);
        break;
    case ELASTIC:
        (void)snprintf(ret, VALUE_MAX, "%d", s->elastic);
        break;
    case GLOO:
        (void)snprintf(ret, VALUE_MAX, "%" PRId32, s->gloo);
        break;
    case PEER_AUTH:
        (void)snprintf(ret, VALUE_MAX, "%s", api_peer_auths[s->peer_auth]);
        break;
    case TEMPLATES:
    case PARTS:
    default:
        write_hash(job->role[part - TEMPLATES].tmpl, ret);
        break;
    }
}

void api_began_write(const struct api_job *job, char ret[API_BEGAN_MAX]) {
    size_t n = 0;
    for (enum spec_part p = 0; p < PARTS; p++) {
        char value[VALUE_MAX];
        write_part(job, p, value);
        if (!parts[p].usual || strcmp(value, parts[p].usual) != 0) {
            n += (size_t)snprintf(
                ret + n, API_BEGAN_MAX - n, "%s%s %s", n ? ", " : "", parts[p].words, value);
        }
    }
}

/* Reads "words value" or, of earlier versions, "key=value". */
static bool take_part(const char *text, size_t len, char ret[PARTS][VALUE_MAX]) {
    const char *sign = memchr(text, '=', len);
    const char *at = sign ? sign : memrchr(text, ' ', len);
    size_t name = at ? (size_t)(at - text) : 0, size = at ? len - name - 1 : 0;
    for (enum spec_part p = 0; p < PARTS && size > 0 && size < VALUE_MAX; p++) {
        const char *known = sign ? parts[p].key : parts[p].words;
        if (strlen(known) == name && memcmp(known, text, name) == 0) {
            memcpy(ret[p], at + 1, size);
            ret[p][size] = '\0';
            return true;
        }
    }
    return false;
}

static bool split(const char *text, char ret[PARTS][VALUE_MAX]) {
    const char *between = text && strchr(text, '=') ? " " : ", ";
    for (enum spec_part p = 0; p < PARTS; p++) {
        (void)snprintf(ret[p], VALUE_MAX, "%s", parts[p].usual ? parts[p].usual : "");
    }
    while (text && *text) {
        const char *end = strstr(text, between);
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (!take_part(text, len, ret)) {
            return false;
        }
        text = end ? end + strlen(between) : text + len;
    }
    return *ret[GENERATION] && *ret[INTRANET];
}

/* The index of the word, or n. */
static size_t find_word(const char *const *words, size_t n, const char *word) {
    size_t i = 0;
    while (i < n && strcmp(words[i], word) != 0) {
        i++;
    }
    return i;
}

bool api_began_read(const char *text, struct api_shape *ret) {
    char value[PARTS][VALUE_MAX];
    if (!split(text, value)) {
        return false;
    }
    size_t intranet = find_word(intranets, CO_ARRAY_LEN(intranets), value[INTRANET]);
    size_t auth = find_word(api_peer_auths, API_PEER_AUTHS, value[PEER_AUTH]);
    int64_t gloo = 0, np = 0;
    if (intranet == CO_ARRAY_LEN(intranets) || auth == API_PEER_AUTHS ||
        co_parse_i64("withGloo", value[GLOO], 0, INT32_MAX, &gloo, NULL) ||
        co_parse_i64("np", value[NP], 0, API_REPLICAS_MAX, &np, NULL)) {
        return false;
    }
    *ret = (struct api_shape){.intranet = (enum api_intranet)intranet,
        .peer_auth = (enum api_peer_auth)auth,
        .gloo = (int32_t)gloo,
        .np = (int32_t)np,
        .torch = strcmp(value[TORCH], "1") == 0,
        .elastic = strcmp(value[ELASTIC], "1") == 0};
    return true;
}

bool api_began_is_current(const char *text, const struct api_job *job) {
    char value[PARTS][VALUE_MAX];
    char now[VALUE_MAX];
    write_part(job, GENERATION, now);
    return split(text, value) && strcmp(value[GENERATION], now) == 0;
}

/* A role that has come or gone is no difference. */
static bool part_differs(const struct api_job *job, enum spec_part p, const char *began) {
    char now[VALUE_MAX];
    write_part(job, p, now);
    bool absent = p >= TEMPLATES && (strcmp(now, "-") == 0 || strcmp(began, "-") == 0);
    return !absent && strcmp(now, began) != 0;
}

bool api_began_template_differs(const char *text, const struct api_job *job, enum api_role role) {
    char value[PARTS][VALUE_MAX];
    enum spec_part p = TEMPLATES + (enum spec_part)role;
    return split(text, value) && part_differs(job, p, value[p]);
}

uint32_t api_began_hash_of(const char *text, enum api_role role) {
    char value[PARTS][VALUE_MAX];
    return split(text, value) ? (uint32_t)strtoul(value[TEMPLATES + role], NULL, 16) : 0;
}

size_t api_began_differs(const char *text, const struct api_job *job, char *ret, size_t size) {
    char value[PARTS][VALUE_MAX];
    size_t n = 0;
    *ret = '\0';
    if (!split(text, value) || api_began_is_current(text, job)) {
        return 0;
    }
    for (enum spec_part p = INTRANET; p < PARTS; p++) {
        if (part_differs(job, p, value[p])) {
            co_word_list_add(ret, size, "%s", parts[p].path);
            n++;
        }
    }
    return n;
}

json_t *api_began_parse(const char *text) {
    json_t *parsed = NULL;
    size_t len = text ? strlen(text) : 0;
    bool good = len && len <= API_BEGAN_TEMPLATE_MAX && !co_json_parse(text, len, &parsed, NULL);
    return good ? parsed : NULL;
}
