/* The input is an environment: lines "NAME=value".  A line "<digits>=value" names a row of the
 * contract by number.  Nothing may crash, and what is accepted holds together. */
#include "runtime/train/role/role.h"

#include <stdio.h>
#include <string.h>

#include "common/contract.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *get(void *arg, const char *name) {
    const char *at = arg;
    size_t n = strlen(name);
    char number[8];
    (void)snprintf(number, sizeof(number), "%d", co_contract_find(name));
    for (; *at; at += strlen(at) + 1) {
        const char *eq = strchr(at, '=');
        size_t len = eq ? (size_t)(eq - at) : 0;
        if (len && ((len == n && memcmp(at, name, n) == 0) ||
                       (len == strlen(number) && memcmp(at, number, len) == 0))) {
            return eq + 1;
        }
    }
    return NULL;
}

static void hold(bool condition) {
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOFREE char *env = co_xcalloc(1, size + 2); /* ends with an empty string */
    for (size_t i = 0; i < size; i++) {
        env[i] = data[i] == '\n' ? '\0' : (char)data[i];
    }
    struct role_topology *t = NULL;
    struct co_err err = {0};
    int r = role_topology_load(get, env, &t, &err);
    if (r) {
        hold(err.code == r && err.msg[0] && !t);
        return 0;
    }
    hold(t->job != NULL);
    switch (t->training) {
    case ROLE_TRAINING_ALONE:
        hold(t->role == ROLE_WORKER && t->index == 0 && t->n_workers == 1);
        break;
    case ROLE_TRAINING_PS:
        hold(t->servers.n > 0);
        hold(t->role != ROLE_SERVER || (t->index < t->servers.n && t->endpoint));
        hold(t->role != ROLE_WORKER || t->index < t->n_workers);
        break;
    case ROLE_TRAINING_COLLECTIVE:
        hold(t->servers.n == 0 && (t->role == ROLE_HETER || t->index < t->n_workers));
        break;
    case ROLE_TRAINING_COUNT:
    default:
        hold(false);
    }
    role_topology_free(t);
    return 0;
}
