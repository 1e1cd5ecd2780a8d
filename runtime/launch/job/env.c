/* A growing array of "NAME=value" texts, and replacements in values.  See env.h. */
#include "runtime/launch/job/env.h"

#include <ctype.h>
#include <string.h>

#include "common/buf.h"
#include "common/contract.h"

enum { TEXT_MAX = 1 << 24 }; /* bytes of one value after replacements */

void job_env_done(struct job_env *e) {
    for (size_t i = 0; i < e->n; i++) {
        free(e->item[i]);
    }
    free(e->item);
    *e = (struct job_env){0};
}

static size_t find_variable(const struct job_env *e, const char *name) {
    size_t len = strlen(name);
    for (size_t i = 0; i < e->n; i++) {
        if (strncmp(e->item[i], name, len) == 0 && e->item[i][len] == '=') {
            return i;
        }
    }
    return e->n;
}

const char *job_env_get(const struct job_env *e, const char *name) {
    size_t i = find_variable(e, name);
    return i < e->n ? e->item[i] + strlen(name) + 1 : NULL;
}

static void append_own(struct job_env *e, char *text) {
    if (e->n + 2 > e->cap) {
        e->cap = e->cap ? e->cap * 2 : 64;
        e->item = co_xrealloc(e->item, e->cap, sizeof(*e->item));
    }
    e->item[e->n++] = text;
    e->item[e->n] = NULL;
}

void job_env_set(struct job_env *e, const char *name, const char *value) {
    char *text = co_xasprintf("%s=%s", name, value);
    size_t i = find_variable(e, name);
    if (i < e->n) {
        free(e->item[i]);
        e->item[i] = text;
    } else {
        append_own(e, text);
    }
}

void job_env_remove(struct job_env *e, const char *name) {
    size_t i = find_variable(e, name);
    if (i < e->n) {
        free(e->item[i]);
        memmove(e->item + i, e->item + i + 1, (e->n - i) * sizeof(*e->item));
        e->n--;
    }
}

/* As this process reads it: Paddle in a child would take a Service's link for a port, and an empty
 * value for a number. */
static void inherit_setting(struct job_env *e, const char *name, const char *value) {
    size_t len = 0;
    value = co_contract_read(name, value, &len);
    if (value) {
        append_own(e, co_xasprintf("%s=%.*s", name, (int)len, value));
    }
}

void job_env_inherit(struct job_env *e, char *const *envp, bool contract) {
    for (; *envp; envp++) {
        size_t len = strcspn(*envp, "=");
        CO_AUTOFREE char *name = co_xstrndup(*envp, len);
        if (!len || !(*envp)[len] || (!contract && co_contract_of_job(name))) {
            continue;
        }
        if (co_contract_find(name) >= 0) {
            inherit_setting(e, name, *envp + len + 1);
        } else {
            append_own(e, co_xstrdup(*envp));
        }
    }
}

/* A text that would be longer than TEXT_MAX is cut there. */
static void add_bytes(struct co_buf *b, const char *data, size_t len) {
    (void)!co_buf_add(b, data, len, NULL);
}

char *job_env_expand(const struct job_env *e, const char *text) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    for (const char *p = text; *p;) {
        const char *end = p[0] == '$' && p[1] == '(' ? strchr(p, ')') : NULL;
        CO_AUTOFREE char *name = end ? co_xstrndup(p + 2, (size_t)(end - p - 2)) : NULL;
        const char *value = name ? job_env_get(e, name) : NULL;
        if (value) {
            add_bytes(&b, value, strlen(value));
            p = end + 1;
        } else if (p[0] == '$' && p[1] == '$') {
            add_bytes(&b, "$", 1);
            p += 2;
        } else {
            add_bytes(&b, p++, 1);
        }
    }
    return co_buf_take(&b);
}

static bool holds_hosts(const char *variable) {
    int i = variable ? co_contract_find(variable) : -1;
    if (i < 0) {
        return false;
    }
    enum co_var_type type = co_contract[i].type;
    return type == CO_TYPE_HOST || type == CO_TYPE_HOSTS || type == CO_TYPE_ENDPOINT ||
           type == CO_TYPE_ENDPOINTS;
}

char *job_env_addresses(const char *variable, const char *text, const struct co_map *addresses) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    bool everywhere = holds_hosts(variable);
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    for (const char *p = text; *p;) {
        size_t len = strspn(p, word), all = len;
        while (p[all] == '.' && strspn(p + all + 1, word) > 0) { /* a domain */
            all += 1 + strspn(p + all + 1, word);
        }
        CO_AUTOFREE char *name = co_xstrndup(p, len);
        const char *address = len ? co_map_get(addresses, name) : NULL;
        bool port = p[all] == ':' && isdigit((unsigned char)p[all + 1]);
        if (address && (everywhere || port)) {
            add_bytes(&b, address, strlen(address));
        } else {
            add_bytes(&b, p, all ? all : 1);
        }
        p += all ? all : 1;
    }
    return co_buf_take(&b);
}
