/* Reads contract variables as numbers, texts, lists and endpoints; their rows say what is allowed.
 */
#include "runtime/train/role/environment.h"

#include <string.h>

#include "common/parse.h"

char *role_read_text(const struct role_environment *e, enum co_var var) {
    const char *name = co_contract[var].name;
    size_t n = 0;
    const char *s = co_contract_read(name, e->get(e->arg, name), &n);
    return s ? co_xstrndup(s, n) : NULL;
}

char *role_read_list(const struct role_environment *e, enum co_var var) {
    char *s = role_read_text(e, var);
    if (!s) {
        return NULL;
    }
    size_t to = 0;
    for (size_t i = 0; s[i]; i++) {
        size_t next = i + strspn(s + i, " \t\r\n");
        bool blank = next > i, before = blank && (to == 0 || s[to - 1] == ',');
        if (!before && !(blank && s[next] == ',')) {
            s[to++] = s[i];
        }
    }
    s[to] = '\0';
    if (to > 1 && s[to - 1] == ',') {
        s[to - 1] = '\0';
    }
    return s;
}

int role_read_not_set(enum co_var var, const char *because, struct co_err *err) {
    return co_err_set(err, CO_INVALID, "%s is not set%s, expected: %s", co_contract[var].name,
        because, co_contract[var].doc);
}

int role_read_number(
    const struct role_environment *e, enum co_var var, uint32_t *ret, struct co_err *err) {
    CO_AUTOFREE char *s = role_read_text(e, var);
    if (!s) {
        return CO_NOTFOUND;
    }
    const struct co_contract_row *row = &co_contract[var];
    int64_t v = 0;
    int r = co_parse_i64(row->name, s, row->min, row->max, &v, err);
    *ret = r ? *ret : (uint32_t)v;
    return r;
}

/* ---- lists ----------------------------------------------------------------------------- */

void role_endpoints_done(struct role_endpoints *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        free(l->item[i]);
    }
    free(l->item);
    *l = (struct role_endpoints){0};
}

void role_endpoints_add(struct role_endpoints *l, const char *endpoint) {
    l->item = co_xgrow(l->item, l->n, sizeof(*l->item));
    l->item[l->n++] = co_xstrdup(endpoint);
}

static int add_endpoint(void *arg, size_t index, const char *element, struct co_err *err) {
    (void)index;
    (void)err;
    role_endpoints_add(arg, element);
    return 0;
}

int role_read_endpoints(const struct role_environment *e, enum co_var var, bool check,
    struct role_endpoints *ret, struct co_err *err) {
    CO_AUTOFREE char *s = role_read_list(e, var);
    if (!s || !*s) {
        return 0;
    }
    if (check) {
        CO_TRY(co_contract_check(var, s, err));
    }
    CO_CLEANUP(role_endpoints_done) struct role_endpoints l = {0};
    CO_TRY(co_contract_list(var, s, add_endpoint, &l, err));
    *ret = l;
    l = (struct role_endpoints){0};
    return 0;
}
