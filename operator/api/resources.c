/* The sums follow PodRequests of Kubernetes (k8s.io/component-helpers/resource), after the defaults
 * that the API server sets. */
#include "operator/api/resources.h"

#include <string.h>

#include "common/utf8.h"

static void set_quantity(json_t *list, const char *name, const struct api_quantity *q) {
    char text[API_QUANTITY_TEXT];
    api_quantity_format(q, text);
    co_json_set(list, name, json_string(text));
}

int api_resources_parse(const char *text, json_t **ret, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrdup(text);
    CO_AUTOJSON json_t *list = json_object();
    char *rest = *copy ? copy : NULL;
    for (char *item; (item = strsep(&rest, ","));) {
        char *value = strchr(item, '=');
        struct api_quantity q;
        if (!value || value == item) {
            return co_err_set(err, CO_INVALID,
                "\"%.*s\" is not name=quantity, expected a list such as cpu=20m,memory=32Mi",
                co_utf8_fit(item, 60), item);
        }
        *value++ = '\0';
        int r = api_quantity_parse(value, &q, err);
        if (!r && q.nano < 0) {
            r = co_err_set(err, CO_INVALID, "\"%.40s\" is negative", value);
        }
        if (r) {
            return co_err_wrap(err, "%.60s", item);
        }
        set_quantity(list, item, &q);
    }
    *ret = co_steal_ptr(list);
    return 0;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* The amount of a resource; false when the list has none that is valid. */
static bool amount_of(const json_t *list, const char *name, struct api_quantity *ret) {
    *ret = (struct api_quantity){.nano = 0};
    const json_t *j = json_object_get(list, name);
    return j && !api_quantity_decode(j, ret, NULL);
}

void api_resources_add(json_t *sums, const json_t *list, int64_t times) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)list, name, j) {
        struct api_quantity q, sum;
        if (!api_quantity_decode(j, &q, NULL)) {
            (void)amount_of(sums, name, &sum);
            api_quantity_add(&sum, &q, times);
            set_quantity(sums, name, &sum);
        }
    }
}

void api_resources_raise(json_t *most, const json_t *list) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)list, name, j) {
        struct api_quantity q, had;
        if (!api_quantity_decode(j, &q, NULL) &&
            (!amount_of(most, name, &had) || q.nano > had.nano)) {
            set_quantity(most, name, &q);
        }
    }
}

/* Adds what `list` has and `to` has not. */
static void complete(json_t *to, const json_t *list) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)list, name, j) {
        struct api_quantity q;
        if (!json_object_get(to, name) && !api_quantity_decode(j, &q, NULL)) {
            set_quantity(to, name, &q);
        }
    }
}

json_t *api_resources_of(const json_t *container) {
    json_t *list = json_object();
    complete(list, co_json_at(container, "resources", "requests"));
    complete(list, co_json_at(container, "resources", "limits"));
    return list;
}

/* ---- pods ----------------------------------------------------------------------------------- */

/* The init containers so far. */
struct inits {
    json_t *most;     /* the most that was requested at a time */
    json_t *sidecars; /* of the native sidecars, which run on */
};

static void add_init(struct inits *in, const json_t *requests, bool stays) {
    CO_AUTOJSON json_t *now = json_deep_copy(in->sidecars);
    api_resources_add(now, requests, 1);
    api_resources_raise(in->most, now);
    if (stays) {
        json_decref(in->sidecars);
        in->sidecars = json_incref(now);
    }
}

static json_t *of_containers(const json_t *spec, const json_t *last) {
    struct inits in = {json_object(), json_object()};
    json_t *sums = json_object();
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(spec, "initContainers"), i, c) {
        CO_AUTOJSON json_t *requests = api_resources_of(c);
        add_init(&in, requests, co_streq(co_json_str(c, "restartPolicy"), "Always"));
    }
    if (last) {
        add_init(&in, last, false);
    }
    json_array_foreach(json_object_get(spec, "containers"), i, c) {
        CO_AUTOJSON json_t *requests = api_resources_of(c);
        api_resources_add(sums, requests, 1);
    }
    api_resources_add(sums, in.sidecars, 1);
    api_resources_raise(sums, in.most);
    json_decref(in.most);
    json_decref(in.sidecars);
    return sums;
}

/* Of a whole pod only these can be requested, since Kubernetes 1.34. */
static bool is_for_pods(const char *name) {
    return strcmp(name, "cpu") == 0 || strcmp(name, "memory") == 0 ||
           strncmp(name, "hugepages-", 10) == 0;
}

/* What a list of the pod itself says; replaces: in place of the sum over its containers. */
static void take_pods(json_t *sums, const json_t *list, bool replaces) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)list, name, j) {
        struct api_quantity q;
        bool wanted = is_for_pods(name) && (replaces || !json_object_get(sums, name));
        if (wanted && !api_quantity_decode(j, &q, NULL)) {
            set_quantity(sums, name, &q);
        }
    }
}

json_t *api_resources_of_pod(const json_t *spec, const json_t *last) {
    json_t *sums = of_containers(spec, last);
    /* A pod's own limit counts only for what no container requests. */
    take_pods(sums, co_json_at(spec, "resources", "requests"), true);
    take_pods(sums, co_json_at(spec, "resources", "limits"), false);
    api_resources_add(sums, json_object_get(spec, "overhead"), 1);
    return sums;
}
