/* Lookup and validation of contract variables, and the reference page; the rows are in
 * contract_rows.c. */
#include "common/contract.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"

enum { ELEMENT_MAX = 255, LIST_BYTES_MAX = 1 << 20 };

int co_contract_find(const char *name) {
    int family = -1;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const struct co_contract_row *row = &co_contract[i];
        if (strcmp(row->name, name) == 0) {
            return i;
        }
        if (row->prefix && strncmp(row->name, name, strlen(row->name)) == 0) {
            family = i;
        }
    }
    return family;
}

bool co_contract_of_job(const char *name) {
    int i = co_contract_find(name);
    return i >= 0 && !co_contract[i].machine;
}

int co_contract_list(enum co_var var, const char *value,
    int (*each)(void *arg, size_t index, const char *element, struct co_err *err), void *arg,
    struct co_err *err) {
    const char *name = co_contract[var].name;
    if (strlen(value) > LIST_BYTES_MAX) {
        return co_err_set(err, CO_INVALID, "%s has more than %d bytes", name, LIST_BYTES_MAX);
    }
    const char *p = value;
    for (size_t i = 0;; i++) {
        const char *end = strchrnul(p, ',');
        size_t n = (size_t)(end - p);
        if (n == 0 || n > ELEMENT_MAX) {
            return co_err_set(err, CO_INVALID,
                "%s=\"%s\": element %zu is %s, expected elements joined by commas", name, value, i,
                n ? "too long" : "empty");
        }
        char element[ELEMENT_MAX + 1];
        memcpy(element, p, n);
        element[n] = '\0';
        CO_TRY(each(arg, i, element, err));
        if (!*end) {
            return 0;
        }
        p = end + 1;
    }
}

static int check_host(enum co_var var, const char *host, struct co_err *err) {
    size_t n = strlen(host);
    bool colons = strchr(host, ':') != NULL;
    const char *chars = colons ? "0123456789abcdefABCDEF:."
                               : "-._0123456789abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    /* A zone (fe80::1%eth0) may follow an IPv6 address. */
    size_t good = strspn(host, chars);
    if (n == 0 || n > ELEMENT_MAX || (good != n && !(colons && host[good] == '%'))) {
        return co_err_set(err, CO_INVALID,
            "%s: \"%s\" is not a host, expected a name or an address", co_contract[var].name, host);
    }
    return 0;
}

static int check_endpoint(enum co_var var, const char *text, struct co_err *err) {
    struct co_hostport hp;
    CO_TRY(co_parse_hostport(co_contract[var].name, text, &hp, err));
    if (hp.port == 0) {
        return co_err_set(err, CO_INVALID, "%s: \"%s\" has port 0, expected 1 to 65535",
            co_contract[var].name, text);
    }
    return check_host(var, hp.host, err);
}

struct elements {
    enum co_var var;
    char **item; /* owned strings, to be sorted and searched for duplicates */
    size_t n;
};

static int collect(void *arg, size_t index, const char *element, struct co_err *err) {
    struct elements *e = arg;
    (void)index;
    if (co_contract[e->var].type == CO_TYPE_HOSTS) {
        return check_host(e->var, element, err);
    }
    CO_TRY(check_endpoint(e->var, element, err));
    e->item[e->n++] = co_xstrdup(element);
    return 0;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_list(enum co_var var, const char *value, struct co_err *err) {
    size_t commas = 0;
    for (const char *p = value; (p = strchr(p, ',')); p++) {
        commas++;
    }
    struct elements e = {.var = var};
    void *items = NULL;
    CO_TRY(co_try_alloc(
        commas + 1, sizeof(char *), LIST_BYTES_MAX * sizeof(char *), "endpoints", &items, err));
    e.item = items;
    int r = co_contract_list(var, value, collect, &e, err);
    if (e.n) {
        qsort(e.item, e.n, sizeof(*e.item), compare);
    }
    for (size_t i = 1; !r && i < e.n; i++) {
        if (strcmp(e.item[i - 1], e.item[i]) == 0) {
            r = co_err_set(err, CO_INVALID,
                "%s has \"%s\" twice, expected a different endpoint for each process",
                co_contract[var].name, e.item[i]);
        }
    }
    for (size_t i = 0; i < e.n; i++) {
        free(e.item[i]);
    }
    free(items);
    return r;
}

int co_contract_check(enum co_var var, const char *value, struct co_err *err) {
    const struct co_contract_row *row = &co_contract[var];
    int64_t i;
    bool b;
    unsigned word;
    switch (row->type) {
    case CO_TYPE_INT:
        return co_parse_i64(row->name, value, row->min, row->max, &i, err);
    case CO_TYPE_PORT:
        return co_parse_i64(row->name, value, 1, 65535, &i, err);
    case CO_TYPE_BOOL:
        return co_parse_bool(row->name, value, &b, err);
    case CO_TYPE_HOST:
        return check_host(var, value, err);
    case CO_TYPE_ENDPOINT:
        return check_endpoint(var, value, err);
    case CO_TYPE_HOSTS:
    case CO_TYPE_ENDPOINTS:
        return check_list(var, value, err);
    case CO_TYPE_WORD:
        return co_parse_word(row->name, value, row->words, false, &word, err);
    case CO_TYPE_TEXT:
    default:
        if (!*value && !row->empty) {
            return co_err_set(err, CO_INVALID, "%s is empty, expected some text", row->name);
        }
        return 0;
    }
}

/* ---- the reference page ---------------------------------------------------------------- */

static const char *const type_text[] = {
    [CO_TYPE_TEXT] = "text",
    [CO_TYPE_INT] = "integer",
    [CO_TYPE_BOOL] = "boolean",
    [CO_TYPE_PORT] = "port",
    [CO_TYPE_HOST] = "host",
    [CO_TYPE_HOSTS] = "host,…",
    [CO_TYPE_ENDPOINT] = "host:port",
    [CO_TYPE_ENDPOINTS] = "host:port,…",
    [CO_TYPE_WORD] = "word",
};
static const char *const when_text[] = {
    [CO_WHEN_NEVER] = "",
    [CO_WHEN_ALWAYS] = "always",
    [CO_WHEN_PS] = "spec.ps is there",
    [CO_WHEN_WORKER] = "spec.worker is there",
    [CO_WHEN_HETER] = "spec.heter is there",
    [CO_WHEN_GLOO] = "withGloo > 0 and a server",
    [CO_WHEN_ELASTIC] = "elastic",
    [CO_WHEN_TOKEN] = "spec.peerAuth is Token or Encrypted",
    [CO_WHEN_ENCRYPTED] = "spec.peerAuth is Encrypted",
    [CO_WHEN_SERVES] = "a server whose job others end",
    [CO_WHEN_GRACE] = "the template has terminationGracePeriodSeconds",
    [CO_WHEN_TORCH] = "mode Collective, not elastic, no heter",
};
static const struct {
    enum co_var_via via;
    const char *title;
} sections[] = {
    {CO_VIA_ENV, "Set on the first container of every pod, in this order, after the user's"},
    {CO_VIA_CONFIGMAP, "In the job's ConfigMap, which all pods but elastic ones take as envFrom"},
    {CO_VIA_SECRET, "Set on the first container of every pod, by a reference to the job's Secret, "
                    "where the template's env does not"},
    {CO_VIA_GATE, "Set on the start gate, the init container `coord-paddle`"},
    {CO_VIA_USER, "Never set by the operator: set by a user, by another operator, or by a launcher "
                  "for its children"},
};
static const struct {
    unsigned bit;
    const char *name;
} generation_text[] = {{CO_GEN_HAND, "by hand"}, {CO_GEN_OPERATOR, "operator"},
    {CO_GEN_LAUNCH, "launcher"}, {CO_GEN_KUBEFLOW, "kubeflow"}, {CO_GEN_V2, "v2"}};

static int row_markdown(const struct co_contract_row *row, struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_addf(
        ret, err, "| `%s%s` | %s", row->name, row->prefix ? "…" : "", type_text[row->type]));
    for (size_t i = 0; row->type == CO_TYPE_WORD && row->words[i]; i++) {
        CO_TRY(co_buf_addf(ret, err, "%s%s", i ? ", " : ": ", row->words[i]));
    }
    if (row->type == CO_TYPE_INT && (row->min || row->max != INT32_MAX)) {
        CO_TRY(row->max == INT32_MAX
                   ? co_buf_addf(ret, err, " from %" PRId64, row->min)
                   : co_buf_addf(ret, err, " %" PRId64 " to %" PRId64, row->min, row->max));
    }
    if (row->via != CO_VIA_USER) {
        CO_TRY(co_buf_addf(ret, err, " | %s", when_text[row->when]));
    }
    const char *sep = " | ";
    for (size_t i = 0; i < CO_ARRAY_LEN(generation_text); i++) {
        if (row->generations & generation_text[i].bit) {
            CO_TRY(co_buf_addf(ret, err, "%s%s", sep, generation_text[i].name));
            sep = ", ";
        }
    }
    return co_buf_addf(ret, err, " | %s |\n", row->doc);
}

int co_contract_markdown(struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_adds(ret,
        "# Environment variables\n\n"
        "The variables that give a process its role and its peers. Printed from the table in "
        "`common/contract_rows.c`, from which the operator and the launcher write and the "
        "training library reads. Both cut blanks and newlines at the ends of a value, as a file or "
        "a "
        "Secret may have them, count a value that is empty then as not set (but for "
        "*_VISIBLE_DEVICES, where it means no device), and take no value of the form "
        "`tcp://10.0.0.1:80` for one of a "
        "variable that ends with `_PORT`: Kubernetes sets those for Services (a Service "
        "paddle-gloo gives PADDLE_GLOO_PORT). They say so.\n",
        err));
    for (size_t s = 0; s < CO_ARRAY_LEN(sections); s++) {
        bool user = sections[s].via == CO_VIA_USER;
        CO_TRY(co_buf_addf(ret, err,
            "\n## %s\n\n| name | value |%s used by | meaning |\n| --- | --- |%s --- | --- |\n",
            sections[s].title, user ? "" : " when |", user ? "" : " --- |"));
        for (size_t i = 0; i < CO_VAR_COUNT; i++) {
            if (co_contract[i].via == sections[s].via) {
                CO_TRY(row_markdown(&co_contract[i], ret, err));
            }
        }
    }
    return 0;
}
