/* Reads a PodList as JSON: names, phases, and which port each container serves metrics at. */
#include "runtime/tools/top/podlist.h"

#include <stdlib.h>
#include <string.h>

#include "common/json/json.h"
#include "common/mem.h"
#include "common/parse.h"

char *top_podlist_path(const char *space, const char *job) {
    return co_xasprintf(
        "/api/v1/namespaces/%s/pods?labelSelector=batch.paddlepaddle.org%%2Fjob-name%%3D%s", space,
        job);
}

/* 0: it names none. */
static int64_t container_port(const json_t *container) {
    size_t i;
    json_t *v;
    int64_t port = 0;
    json_array_foreach(co_json_at(container, "ports"), i, v) {
        const char *name = co_json_str(v, "name");
        if (name && strcmp(name, "metrics") == 0) {
            port = json_integer_value(co_json_at(v, "containerPort"));
        }
    }
    json_array_foreach(co_json_at(container, "env"), i, v) {
        const char *name = co_json_str(v, "name"), *value = co_json_str(v, "value");
        struct co_hostport hp;
        if (name && value && strcmp(name, "PADDLERT_METRICS") == 0 &&
            co_parse_hostport(name, value, &hp, NULL) == 0 && hp.port) {
            port = hp.port;
        }
    }
    return port;
}

static struct top_listed_pod read_pod(const json_t *pod, const char *space, const char *name) {
    const char *phase = co_json_str(pod, "status", "phase");
    int64_t port = 0;
    size_t i;
    json_t *container;
    json_array_foreach(co_json_at(pod, "spec", "containers"), i, container) {
        port = port ? port : container_port(container);
    }
    struct top_listed_pod ret = {.name = co_xstrdup(name)};
    if (!phase || strcmp(phase, "Running") != 0) {
        ret.state = co_xstrdup(phase ? phase : "Unknown");
    } else if (port <= 0 || port > UINT16_MAX) {
        ret.state = co_xstrdup("no port: set PADDLERT_METRICS in its container");
    } else {
        ret.path =
            co_xasprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/metrics", space, name, (int)port);
    }
    return ret;
}

int top_podlist_read(const char *text, size_t len, struct top_podlist *ret, struct co_err *err) {
    CO_AUTOJSON json_t *list = NULL;
    CO_TRY(co_json_parse_odd(text, len, &list, err));
    const json_t *items = co_json_at(list, "items");
    if (!json_is_array(items) || json_array_size(items) > TOP_PODLIST_MAX) {
        return co_err_set(err, CO_INVALID, "expected a list of at most %d pods", TOP_PODLIST_MAX);
    }
    struct top_podlist pods = {.all = co_xcalloc(json_array_size(items) + 1, sizeof(*pods.all))};
    size_t i;
    json_t *pod;
    json_array_foreach(items, i, pod) {
        const char *name = co_json_str(pod, "metadata", "name"),
                   *space = co_json_str(pod, "metadata", "namespace");
        if (name && space) {
            pods.all[pods.n++] = read_pod(pod, space, name);
        }
    }
    *ret = pods;
    return 0;
}

void top_podlist_done(struct top_podlist *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->all[i].name);
        free(p->all[i].path);
        free(p->all[i].state);
    }
    free(p->all);
    *p = (struct top_podlist){0};
}
