/* Reading variables from the process's environment.  What people write into a file or a Secret
 * often ends with a newline, and Kubernetes adds variables of its own. */
#include <pthread.h>
#include <string.h>

#include "common/contract.h"
#include "common/mem.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool co_contract_is_link(const char *name, const char *value) {
    static const char *const schemes[] = {"tcp://", "udp://", "sctp://"};
    static const char end[] = "_PORT";
    size_t n = strlen(name), e = sizeof(end) - 1;
    bool of_scheme = false;
    while (is_blank(*value)) {
        value++;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(schemes); i++) {
        of_scheme |= strncmp(value, schemes[i], strlen(schemes[i])) == 0;
    }
    return of_scheme && n > e && strcmp(name + n - e, end) == 0 && co_contract_find(name) >= 0;
}

const char *co_contract_read(const char *name, const char *value, size_t *ret_len) {
    *ret_len = 0;
    if (!value || co_contract_is_link(name, value)) {
        return NULL;
    }
    while (is_blank(*value)) {
        value++;
    }
    size_t n = strlen(value);
    while (n > 0 && is_blank(value[n - 1])) {
        n--;
    }
    int row = n > 0 ? -1 : co_contract_find(name);
    *ret_len = n;
    return n > 0 || (row >= 0 && co_contract[row].empty) ? value : NULL;
}

void co_contract_links(
    char *const *envp, void (*each)(void *arg, const char *name, const char *value), void *arg) {
    for (; *envp; envp++) {
        size_t len = strcspn(*envp, "=");
        CO_AUTOFREE char *name = co_xstrndup(*envp, len);
        if ((*envp)[len] && co_contract_is_link(name, *envp + len + 1)) {
            each(arg, name, *envp + len + 1);
        }
    }
}

/* Values that had blanks at their end: getenv's live for ever, and so do these. */
struct kept_value {
    struct kept_value *next;
    char text[];
};

static const char *keep(const char *value, size_t len) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; /* guards all */
    static struct kept_value *all;
    pthread_mutex_lock(&m);
    struct kept_value *k = all;
    while (k && (strlen(k->text) != len || memcmp(k->text, value, len) != 0)) {
        k = k->next;
    }
    if (!k) {
        k = co_xcalloc(1, sizeof(*k) + len + 1);
        memcpy(k->text, value, len);
        k->next = all;
        all = k;
    }
    pthread_mutex_unlock(&m);
    return k->text;
}

const char *co_contract_getenv_of(const char *name) {
    size_t len = 0;
    const char *value = co_contract_read(name, getenv(name), &len);
    return value && value[len] ? keep(value, len) : value;
}

const char *co_contract_getenv(enum co_var var) {
    return co_contract_getenv_of(co_contract[var].name);
}
