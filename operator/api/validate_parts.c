/* A tree of rows: a field, what it takes, and for objects what is in them.  Fields that have no row
 * are not looked at: a newer Kubernetes has more of them.  Rules that concern several fields are
 * functions of the object's row.
 *
 * None of it is in the CRD, which is to accept each template that a cluster may. */
#include "operator/api/validate_parts.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/utf8.h"
#include "common/word_list.h"
#include "operator/api/spelling.h"

enum type {
    SEEN, /* an object or a list of them, whose type crd_find_mistyped looks at */
    OBJECT,
    LIST, /* of objects */
    TEXT,
    TEXTS,
    NUMBER,
    NUMBERS,
    SWITCH,
    PORT, /* a number, or the name of a port */
    IP,
    IPS,
    HOST,
    HOSTS,
    LABEL, /* a HOST without dots */
    SEARCH,
    SEARCHES,
    HEADER,
    SYSCTL,
    TYPES,
};

static const char *const type_words[TYPES] = {
    [SEEN] = "an object",
    [OBJECT] = "an object",
    [LIST] = "a list of objects",
    [TEXT] = "a string",
    [TEXTS] = "a list of strings",
    [NUMBER] = "an integer",
    [NUMBERS] = "a list of integers",
    [SWITCH] = "true or false",
    [PORT] = "a number from 1 to 65535 or the name of a port",
    [IP] = "an IP address",
    [IPS] = "a list of IP addresses",
    [HOST] = "a DNS name",
    [HOSTS] = "a list of DNS names",
    [LABEL] = "a DNS label of 63 characters at most",
    [SEARCH] = "a DNS domain",
    [SEARCHES] = "a list of DNS domains",
    [HEADER] = "letters, digits and '-'",
    [SYSCTL] = "a name such as kernel.shm_rmid_forced",
};

enum { PORT_MAX = 65535, IDS_MAX = INT32_MAX, WORDS_MAX = 3, KEY_MAX = 2 };

/* Rows end with one that has no name. */
struct pod_part {
    const char *name;
    const struct pod_part *parts; /* of SEEN, OBJECT and LIST */
    const char *words[WORDS_MAX];
    void (*check)(const json_t *obj, const char *path, struct co_findings *to);
    const char *key[KEY_MAX]; /* of LIST: fields that no two items have the same */
    enum type type;
    int64_t least, most; /* of NUMBER and NUMBERS; most 0: neither is looked at */
    unsigned items;      /* the most items of a list; 0: any number */
    bool required;       /* of the object it is in; not "" */
    bool defaults;       /* "" means the default */
};

static bool is_absent(const json_t *j) {
    return !j || json_is_null(j);
}

/* ---- values --------------------------------------------------------------------------------- */

static bool is_whole(const json_t *j) {
    return json_is_number(j) && floor(json_number_value(j)) == json_number_value(j);
}

/* As an API server 1.35, which takes 010.0.0.1 for 10.0.0.1. */
static bool is_ip(const char *text) {
    unsigned char ip[sizeof(struct in6_addr)];
    char plain[INET6_ADDRSTRLEN] = "";
    size_t n = 0;
    for (const char *s = text; *s && n + 1 < sizeof(plain); s++) {
        bool leads = (n == 0 || plain[n - 1] == '.') && *s == '0' && s[1] >= '0' && s[1] <= '9';
        if (!leads) {
            plain[n++] = *s;
        }
    }
    return inet_pton(AF_INET, plain, ip) == 1 || inet_pton(AF_INET6, text, ip) == 1;
}

/* A resolver takes the root, and names with a dot at their end. */
static bool is_search(const char *s) {
    size_t n = strlen(s);
    return co_streq(s, ".") || api_is_spelled(API_SEARCH, s, n - (n > 0 && s[n - 1] == '.'));
}

static bool is_header(const char *s) {
    size_t n = strlen(s);
    return n > 0 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == n;
}

static bool fits(const json_t *j, enum type type) {
    const char *text = json_string_value(j);
    switch (type) {
    case OBJECT:
        return json_is_object(j);
    case LIST:
    case TEXTS:
    case NUMBERS:
    case IPS:
    case HOSTS:
    case SEARCHES:
        return json_is_array(j);
    case TEXT:
        return text;
    case NUMBER:
        return is_whole(j);
    case SWITCH:
        return json_is_boolean(j);
    case PORT:
        return text ? api_is_spelled(API_PORT_NAME, text, strlen(text))
                    : is_whole(j) && json_number_value(j) >= 1 && json_number_value(j) <= PORT_MAX;
    case IP:
        return text && is_ip(text);
    case HOST:
        return text && api_is_spelled(API_DOMAIN, text, strlen(text));
    case LABEL:
        return text && api_is_spelled(API_LABEL, text, strlen(text));
    case SEARCH:
        return text && is_search(text);
    case HEADER:
        return text && is_header(text);
    case SYSCTL:
        return text && api_is_spelled(API_SYSCTL, text, strlen(text));
    case SEEN:
    default:
        return true;
    }
}

/* SEEN is that of SEEN's. */
static enum type type_of_items(enum type type) {
    static const enum type of[TYPES] = {[LIST] = OBJECT,
        [TEXTS] = TEXT,
        [NUMBERS] = NUMBER,
        [IPS] = IP,
        [HOSTS] = HOST,
        [SEARCHES] = SEARCH};
    return of[type];
}

static void say_value(
    struct co_findings *to, const char *path, const json_t *j, const char *expected) {
    enum { SHOWN = 40 };
    CO_AUTOFREE char *given = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT);
    co_finding(to, path, "is %.*s, expected %s", given ? co_utf8_fit(given, SHOWN) : 0,
        given ? given : "", expected);
}

static void check_range(
    const struct pod_part *row, const json_t *j, const char *path, struct co_findings *to) {
    double number = json_number_value(j);
    if (row->most && (number < (double)row->least || number > (double)row->most)) {
        char expected[64];
        (void)snprintf(
            expected, sizeof(expected), "%" PRId64 " to %" PRId64, row->least, row->most);
        say_value(to, path, j, expected);
    }
}

static void check_word(
    const struct pod_part *row, const json_t *j, const char *path, struct co_findings *to) {
    char list[120] = "", expected[140];
    for (size_t i = 0; i < WORDS_MAX && row->words[i]; i++) {
        if (co_streq(json_string_value(j), row->words[i])) {
            return;
        }
        co_word_list_add(list, sizeof(list), "%s", row->words[i]);
    }
    (void)snprintf(expected, sizeof(expected), "one of %s", list);
    if (*list) {
        say_value(to, path, j, expected);
    }
}

/* ---- rules of several fields ---------------------------------------------------------------- */

static void check_one_of(const json_t *obj, const char *path, const char *const *names, size_t n,
    struct co_findings *to) {
    size_t found = 0;
    char list[160] = "";
    for (size_t i = 0; i < n; i++) {
        found += !is_absent(json_object_get(obj, names[i]));
        co_word_list_add(list, sizeof(list), "%s", names[i]);
    }
    if (found != 1) {
        co_finding(
            to, path, "has %s of %s, expected one of them", found ? "several" : "none", list);
    }
}

static void check_probe(const json_t *probe, const char *path, struct co_findings *to) {
    static const char *const ways[] = {"exec", "httpGet", "tcpSocket", "grpc"};
    check_one_of(probe, path, ways, CO_ARRAY_LEN(ways), to);
}

static void check_readiness(const json_t *probe, const char *path, struct co_findings *to) {
    check_probe(probe, path, to);
    if (!is_absent(json_object_get(probe, "terminationGracePeriodSeconds"))) {
        co_finding(to, path,
            "has a terminationGracePeriodSeconds, but kubelet ends no container for it: leave it "
            "out");
    }
}

static void check_hook(const json_t *hook, const char *path, struct co_findings *to) {
    static const char *const ways[] = {"exec", "httpGet", "tcpSocket", "sleep"};
    check_one_of(hook, path, ways, CO_ARRAY_LEN(ways), to);
}

static void check_claim(const json_t *claim, const char *path, struct co_findings *to) {
    static const char *const ways[] = {"resourceClaimName", "resourceClaimTemplateName"};
    check_one_of(claim, path, ways, CO_ARRAY_LEN(ways), to);
}

static bool has_parent(const char *path) {
    for (const char *s = path; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL) {
        if (strcspn(s, "/") == 2 && s[0] == '.' && s[1] == '.') {
            return true;
        }
    }
    return false;
}

static void check_profile(const json_t *profile, const char *path, struct co_findings *to) {
    bool local = co_streq(co_json_str(profile, "type"), "Localhost");
    const char *name = co_json_str(profile, "localhostProfile");
    bool named = name && *name;
    if (local && !named) {
        co_finding(to, path, "is of type Localhost, but has no localhostProfile");
    } else if (!local && !is_absent(json_object_get(profile, "localhostProfile"))) {
        co_finding(to, path, "has a localhostProfile, which goes with type Localhost only");
    } else if (local && (*name == '/' || has_parent(name))) {
        co_finding(to, path,
            "has localhostProfile \"%.63s\", expected a path below kubelet's folder of profiles",
            name);
    }
}

static void check_privilege(const json_t *context, const char *path, struct co_findings *to) {
    size_t i;
    json_t *added;
    if (!json_is_false(json_object_get(context, "allowPrivilegeEscalation"))) {
        return;
    }
    if (json_is_true(json_object_get(context, "privileged"))) {
        co_finding(to, path,
            "has privileged true and allowPrivilegeEscalation false, which exclude each other");
    }
    json_array_foreach(co_json_at(context, "capabilities", "add"), i, added) {
        if (co_streq(json_string_value(added), "CAP_SYS_ADMIN")) {
            co_finding(to, path,
                "has CAP_SYS_ADMIN and allowPrivilegeEscalation false, which exclude each other");
            break;
        }
    }
}

static void check_spread(const json_t *spread, const char *path, struct co_findings *to) {
    if (is_absent(json_object_get(spread, "topologyKey"))) {
        co_finding(to, path, "has no topologyKey: name the label of nodes to spread over");
    }
    if (!is_absent(json_object_get(spread, "minDomains")) &&
        !co_streq(co_json_str(spread, "whenUnsatisfiable"), "DoNotSchedule")) {
        co_finding(
            to, path, "has minDomains, which goes with whenUnsatisfiable DoNotSchedule only");
    }
    if (json_array_size(json_object_get(spread, "matchLabelKeys")) &&
        is_absent(json_object_get(spread, "labelSelector"))) {
        co_finding(to, path, "has matchLabelKeys, which go with a labelSelector only");
    }
}

/* Each claim of a container is one of the pod. */
static void check_used_claims(
    const json_t *spec, const char *list, const char *path, struct co_findings *to) {
    size_t i, k, n;
    json_t *container, *used, *claim;
    json_array_foreach(json_object_get(spec, list), i, container) {
        json_array_foreach(co_json_at(container, "resources", "claims"), k, used) {
            const char *name = co_json_str(used, "name");
            bool found = false;
            json_array_foreach(json_object_get(spec, "resourceClaims"), n, claim) {
                found = found || co_streq(co_json_str(claim, "name"), name);
            }
            if (!found) {
                CO_AUTOFREE char *at =
                    co_xasprintf("%s.%s.%zu.resources.claims.%zu", path, list, i, k);
                co_finding(to, at, "names \"%.63s\", but spec.resourceClaims has no such claim",
                    name ? name : "");
            }
        }
    }
}

static void check_spec(const json_t *spec, const char *path, struct co_findings *to) {
    const json_t *servers = co_json_at(spec, "dnsConfig", "nameservers");
    if (co_streq(co_json_str(spec, "dnsPolicy"), "None") && json_array_size(servers) == 0 &&
        (is_absent(servers) || json_is_array(servers))) {
        co_finding(to, path,
            "has dnsPolicy None, but no dnsConfig.nameservers: name one at least, or use another "
            "dnsPolicy");
    }
    if (json_is_true(json_object_get(spec, "hostPID")) &&
        json_is_true(json_object_get(spec, "shareProcessNamespace"))) {
        co_finding(to, path, "has hostPID and shareProcessNamespace, which exclude each other");
    }
    check_used_claims(spec, "initContainers", path, to);
    check_used_claims(spec, "containers", path, to);
}

/* ---- the rows ------------------------------------------------------------------------------- */

/* 0 means the default. */
#define FROM(n) .type = NUMBER, .least = (n), .most = INT32_MAX
#define USER .type = NUMBER, .least = 0, .most = IDS_MAX

static const struct pod_part header_rows[] = {
    {"name", .type = HEADER, .required = true},
    {"value", .type = TEXT},
    {0},
};

static const struct pod_part exec_rows[] = {{"command", .type = TEXTS, .required = true}, {0}};

static const struct pod_part http_rows[] = {
    {"port", .type = PORT, .required = true},
    {"path", .type = TEXT},
    {"host", .type = TEXT},
    {"scheme", .type = TEXT, .words = {"HTTP", "HTTPS"}, .defaults = true},
    {"httpHeaders", header_rows, .type = LIST},
    {0},
};

static const struct pod_part tcp_rows[] = {
    {"port", .type = PORT, .required = true},
    {"host", .type = TEXT},
    {0},
};

static const struct pod_part grpc_rows[] = {
    {"port", .type = NUMBER, .least = 1, .most = PORT_MAX, .required = true},
    {"service", .type = TEXT},
    {0},
};

#define WAYS_OF_PROBES                                                                             \
    {"exec", exec_rows, .type = OBJECT}, {"httpGet", http_rows, .type = OBJECT},                   \
        {"tcpSocket", tcp_rows, .type = OBJECT}, {"grpc", grpc_rows, .type = OBJECT},              \
        {"initialDelaySeconds", FROM(0)}, {"timeoutSeconds", FROM(0)}, {"periodSeconds", FROM(0)}, \
        {"failureThreshold", FROM(0)}, {                                                           \
        "terminationGracePeriodSeconds", .type = NUMBER, .least = 1, .most = INT64_MAX             \
    }

/* Of probes that end a container, one success is enough. */
static const struct pod_part probe_rows[] = {
    WAYS_OF_PROBES,
    {"successThreshold", .type = NUMBER, .least = 0, .most = 1},
    {0},
};

static const struct pod_part readiness_rows[] = {
    WAYS_OF_PROBES, {"successThreshold", FROM(0)}, {0}};

static const struct pod_part sleep_rows[] = {
    {"seconds", .type = NUMBER, .least = 0, .most = INT64_MAX},
    {0},
};

static const struct pod_part hook_rows[] = {
    {"exec", exec_rows, .type = OBJECT},
    {"httpGet", http_rows, .type = OBJECT},
    {"tcpSocket", tcp_rows, .type = OBJECT},
    {"sleep", sleep_rows, .type = OBJECT},
    {0},
};

static const struct pod_part lifecycle_rows[] = {
    {"postStart", hook_rows, .type = OBJECT, .check = check_hook},
    {"preStop", hook_rows, .type = OBJECT, .check = check_hook},
    {"stopSignal", .type = TEXT},
    {0},
};

static const struct pod_part profile_rows[] = {
    {"type", .type = TEXT, .words = {"RuntimeDefault", "Unconfined", "Localhost"},
        .required = true},
    {"localhostProfile", .type = TEXT},
    {0},
};

static const struct pod_part selinux_rows[] = {
    {"level", .type = TEXT},
    {"role", .type = TEXT},
    {"type", .type = TEXT},
    {"user", .type = TEXT},
    {0},
};

#define SECURITY                                                                                   \
    {"runAsUser", USER}, {"runAsGroup", USER}, {"runAsNonRoot", .type = SWITCH},                   \
        {"seLinuxOptions", selinux_rows, .type = OBJECT},                                          \
        {"seccompProfile", profile_rows, .type = OBJECT, .check = check_profile},                  \
        {"appArmorProfile", profile_rows, .type = OBJECT, .check = check_profile}, {               \
        "windowsOptions", .type = OBJECT                                                           \
    }

static const struct pod_part capability_rows[] = {
    {"add", .type = TEXTS},
    {"drop", .type = TEXTS},
    {0},
};

static const struct pod_part container_security_rows[] = {
    SECURITY,
    {"privileged", .type = SWITCH},
    {"allowPrivilegeEscalation", .type = SWITCH},
    {"readOnlyRootFilesystem", .type = SWITCH},
    {"procMount", .type = TEXT, .words = {"Default", "Unmasked"}},
    {"capabilities", capability_rows, .type = OBJECT},
    {0},
};

static const struct pod_part sysctl_rows[] = {
    {"name", .type = SYSCTL, .required = true},
    {"value", .type = TEXT},
    {0},
};

static const struct pod_part pod_security_rows[] = {
    SECURITY,
    {"fsGroup", USER},
    {"supplementalGroups", .type = NUMBERS, .least = 0, .most = IDS_MAX},
    {"fsGroupChangePolicy", .type = TEXT, .words = {"OnRootMismatch", "Always"}},
    {"supplementalGroupsPolicy", .type = TEXT, .words = {"Merge", "Strict"}},
    {"seLinuxChangePolicy", .type = TEXT, .words = {"MountOption", "Recursive"}},
    {"sysctls", sysctl_rows, .type = LIST, .key = {"name"}},
    {0},
};

static const struct pod_part container_rows[] = {
    {"livenessProbe", probe_rows, .type = OBJECT, .check = check_probe},
    {"startupProbe", probe_rows, .type = OBJECT, .check = check_probe},
    {"readinessProbe", readiness_rows, .type = OBJECT, .check = check_readiness},
    {"lifecycle", lifecycle_rows, .type = OBJECT},
    {"securityContext", container_security_rows, .type = SEEN, .check = check_privilege},
    {"stdin", .type = SWITCH},
    {"stdinOnce", .type = SWITCH},
    {"tty", .type = SWITCH},
    {"terminationMessagePath", .type = TEXT},
    {0},
};

static const struct pod_part spread_rows[] = {
    {"maxSkew", FROM(1), .required = true},
    {"minDomains", FROM(1)},
    {"topologyKey", .type = TEXT}, /* api_labels_validate looks at what it is */
    {"whenUnsatisfiable", .type = TEXT, .words = {"DoNotSchedule", "ScheduleAnyway"},
        .required = true},
    {"nodeAffinityPolicy", .type = TEXT, .words = {"Honor", "Ignore"}},
    {"nodeTaintsPolicy", .type = TEXT, .words = {"Honor", "Ignore"}},
    {"labelSelector", .type = OBJECT},
    {"matchLabelKeys", .type = TEXTS},
    {0},
};

static const struct pod_part alias_rows[] = {
    {"ip", .type = IP, .required = true},
    {"hostnames", .type = HOSTS},
    {0},
};

static const struct pod_part claim_rows[] = {
    {"name", .type = LABEL, .required = true},
    {"resourceClaimName", .type = HOST},
    {"resourceClaimTemplateName", .type = HOST},
    {0},
};

static const struct pod_part option_rows[] = {
    {"name", .type = TEXT, .required = true},
    {"value", .type = TEXT},
    {0},
};

static const struct pod_part dns_rows[] = {
    {"nameservers", .type = IPS, .items = 3},
    {"searches", .type = SEARCHES, .items = 32},
    {"options", option_rows, .type = LIST},
    {0},
};

static const struct pod_part spec_rows[] = {
    {"containers", container_rows, .type = SEEN},
    {"initContainers", container_rows, .type = SEEN},
    {"securityContext", pod_security_rows, .type = SEEN},
    {"topologySpreadConstraints", spread_rows, .type = LIST, .check = check_spread,
        .key = {"topologyKey", "whenUnsatisfiable"}},
    {"hostAliases", alias_rows, .type = LIST},
    {"resourceClaims", claim_rows, .type = LIST, .check = check_claim, .key = {"name"}},
    {"dnsConfig", dns_rows, .type = OBJECT},
    {"activeDeadlineSeconds", FROM(1)},
    {"priority", .type = NUMBER},
    {"runtimeClassName", .type = HOST},
    {"nodeName", .type = HOST, .defaults = true},
    {"hostPID", .type = SWITCH},
    {"hostIPC", .type = SWITCH},
    {"hostUsers", .type = SWITCH},
    {"shareProcessNamespace", .type = SWITCH},
    {"automountServiceAccountToken", .type = SWITCH},
    {"enableServiceLinks", .type = SWITCH},
    {"setHostnameAsFQDN", .type = SWITCH},
    {0},
};

static const struct pod_part pod = {"spec", spec_rows, .type = SEEN, .check = check_spec};

/* ---- the walk ------------------------------------------------------------------------------- */

static void walk_row(
    const struct pod_part *row, const json_t *j, const char *path, struct co_findings *to);

/* As deep as the rows. */
static void walk_object(/* NOLINT(misc-no-recursion) */
    const struct pod_part *of, const json_t *obj, const char *path, struct co_findings *to) {
    for (const struct pod_part *row = of->parts; row && row->name; row++) {
        const json_t *j = json_object_get(obj, row->name);
        CO_AUTOFREE char *at = co_xasprintf("%s.%s", path, row->name);
        bool empty =
            is_absent(j) || co_streq(json_string_value(j), "") ||
            (type_of_items(row->type) != SEEN && json_is_array(j) && json_array_size(j) == 0);
        if (empty && row->required) {
            co_finding(to, at, "is missing, expected %s", type_words[row->type]);
        } else if (!is_absent(j) && !(empty && row->defaults)) {
            walk_row(row, j, at, to);
        }
    }
    if (of->check) {
        of->check(obj, path, to);
    }
}

/* SEEN: keys of the items before this one, and which of them it was. */
static void check_key(const struct pod_part *row, const json_t *item, size_t i, json_t *seen,
    const char *path, struct co_findings *to) {
    const char *first = row->key[0] ? co_json_str(item, row->key[0]) : NULL;
    const char *second = row->key[1] ? co_json_str(item, row->key[1]) : "";
    if (!first || !second) {
        return;
    }
    CO_AUTOFREE char *key = co_xasprintf("%s\n%s", first, second);
    const json_t *before = json_object_get(seen, key);
    if (before) {
        co_finding(to, path, "has the same %s%s%s as item %lld", row->key[0],
            row->key[1] ? " and " : "", row->key[1] ? row->key[1] : "",
            (long long)json_integer_value(before));
    } else {
        (void)json_object_set_new(seen, key, json_integer((json_int_t)i));
    }
}

static void walk_items(/* NOLINT(misc-no-recursion) */
    const struct pod_part *row, const json_t *list, const char *path, struct co_findings *to) {
    CO_AUTOJSON json_t *seen = json_object();
    size_t i;
    json_t *item;
    if (row->items && json_array_size(list) > row->items) {
        co_finding(
            to, path, "has %zu items, expected at most %u", json_array_size(list), row->items);
    }
    json_array_foreach(list, i, item) {
        CO_AUTOFREE char *at = co_xasprintf("%s.%zu", path, i);
        enum type of = type_of_items(row->type);
        if (is_absent(item) && (of == TEXT || of == NUMBER)) {
            continue; /* is read as "" or 0 */
        }
        if (!fits(item, of)) {
            say_value(to, at, item, type_words[of]);
        } else if (json_is_object(item)) {
            walk_object(row, item, at, to);
            check_key(row, item, i, seen, at, to);
        } else {
            check_range(row, item, at, to);
        }
    }
}

static void walk_row(/* NOLINT(misc-no-recursion) */
    const struct pod_part *row, const json_t *j, const char *path, struct co_findings *to) {
    if (!fits(j, row->type)) {
        say_value(to, path, j, type_words[row->type]);
    } else if (json_is_object(j)) {
        walk_object(row, j, path, to);
    } else if (json_is_array(j)) {
        walk_items(row, j, path, to);
    } else {
        check_range(row, j, path, to);
        check_word(row, j, path, to);
    }
}

void api_parts_validate(const json_t *spec, const char *base, struct co_findings *to) {
    if (json_is_object(spec)) {
        walk_object(&pod, spec, base, to);
    }
}
