/* Computes the environment and the cores of a child.  See child.h. */
#include "runtime/launch/node/child.h"

#include <string.h>

#include "runtime/launch/job/torchrun.h"

static void add_all(struct job_env *to, const struct job_env *from) {
    for (size_t i = 0; i < from->n; i++) {
        const size_t len = strcspn(from->item[i], "=");
        CO_AUTOFREE char *name = co_xstrndup(from->item[i], len);
        job_env_set(to, name, from->item[i] + len + 1);
    }
}

void node_child_env(const struct job *j, const struct job_plan *plan, const struct job_process *p,
    char *const *envp, struct job_env *ret) {
    static const char *const proxies[] = {"http_proxy", "https_proxy"};
    job_env_inherit(ret, envp, true);
    for (size_t i = 0; i < CO_ARRAY_LEN(proxies); i++) {
        const char *value = job_env_get(ret, proxies[i]);
        if (value) {
            CO_AUTOFREE char *kept = co_xasprintf("%s_original", proxies[i]);
            job_env_set(ret, kept, value);
            job_env_remove(ret, proxies[i]);
        }
    }
    CO_CLEANUP(job_env_done) struct job_env torch = {0};
    job_torchrun_variables(j, plan, p, ret, &torch);
    add_all(ret, &torch);
    add_all(ret, &p->set);
}

void node_child_cores(const cpu_set_t *all, size_t i, size_t n, cpu_set_t *ret) {
    CPU_ZERO(ret);
    const size_t count = (size_t)CPU_COUNT(all);
    const size_t from = i * count / n, to = (i + 1) * count / n;
    size_t k = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, all)) {
            if (k == from || (k > from && k < to)) {
                CPU_SET(cpu, ret);
            }
            k++;
        }
    }
}
