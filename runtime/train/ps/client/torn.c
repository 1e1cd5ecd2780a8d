/* Tables that are loaded in part: nothing may use them until they are whole again. */
#include <stdatomic.h>

#include "runtime/train/ps/client/client_internal.h"

struct psc_torn {
    atomic_bool is; /* why.code is set */
    pthread_mutex_t m;
    struct co_err why; /* under m */
};

struct psc_torn *psc_torn_new(void) {
    struct psc_torn *t = co_xcalloc(1, sizeof(*t));
    pthread_mutex_init(&t->m, NULL);
    return t;
}

void psc_torn_free(struct psc_torn *t) {
    pthread_mutex_destroy(&t->m);
    free(t);
}

int psc_client_whole(struct rt_client *c, struct co_err *err) {
    struct psc_torn *t = c->torn;
    int rc = psc_client_here(c, err);
    if (rc == 0 && __builtin_expect(atomic_load(&t->is), 0)) {
        pthread_mutex_lock(&t->m);
        rc = co_err_set(err, CO_UNAVAILABLE, "%s", t->why.msg);
        pthread_mutex_unlock(&t->m);
    }
    return rc;
}

struct co_err psc_client_tear(struct rt_client *c, const struct co_err *why) {
    struct psc_torn *t = c->torn;
    bool failed = psc_client_failure(c, NULL) < 0; /* then it refuses all in any case */
    pthread_mutex_lock(&t->m);
    const struct co_err before = t->why, none = {0};
    t->why = failed ? none : *why;
    atomic_store(&t->is, t->why.code != 0);
    pthread_mutex_unlock(&t->m);
    return before;
}
