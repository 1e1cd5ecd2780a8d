/* Counts members and adds up resources of a gang. */
#include "operator/plan/gang_size.h"

#include "operator/api/quantity.h"
#include "operator/plan/gang.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Elastic workers can start with their lower limit. */
static int64_t count_needed(const struct op_world *w, enum op_role role, int32_t ended) {
    int32_t min = w->job->role[role].min;
    int32_t left = op_world_replicas(w, role) - ended;
    return min >= 0 ? smaller(min, left) : left;
}

/* Pods that the scheduler does not count any more. */
static int32_t count_uncounted(const struct op_world *w, enum op_role role) {
    const struct op_counts *c = &w->counts[role];
    return w->settings->gang->counts_succeeded ? c->gone : c->succeeded;
}

int64_t op_gang_members(const struct op_world *w) {
    const json_t *given = json_object_get(op_gang_policy(w->job), "minAvailable");
    int64_t n = 0, ended = 0, left = 0;
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        int32_t out = count_uncounted(w, r);
        n += count_needed(w, r, out);
        ended += out;
        left += op_world_replicas(w, r) - out;
    }
    if (!json_is_integer(given)) {
        return n;
    }
    return ended ? smaller(json_integer_value(given), left) : json_integer_value(given);
}

/* Adds a container's requests, times replicas; without requests its limits count. */
static void add_container(json_t *sums, const json_t *container, int64_t replicas) {
    const json_t *resources = json_object_get(container, "resources");
    json_t *list = json_object_get(resources, "requests");
    list = json_is_object(list) ? list : json_object_get(resources, "limits");
    const char *name;
    json_t *j;
    json_object_foreach(list, name, j) {
        struct op_quantity q, sum = {.nano = 0};
        char text[OP_QUANTITY_TEXT];
        /* Skip invalid quantities: the API server will reject the pods because of them. */
        if (op_quantity_decode(j, &q, NULL)) {
            continue;
        }
        const char *had = co_json_str(sums, name);
        if (had && op_quantity_parse(had, &sum, NULL)) {
            continue;
        }
        op_quantity_add(&sum, &q, replicas);
        op_quantity_format(&sum, text);
        co_json_set(sums, name, json_string(text));
    }
}

/* Like paddle-operator, counts containers but not init containers. */
json_t *op_gang_resources(const struct op_world *w) {
    json_t *given = json_object_get(op_gang_policy(w->job), "minResources");
    if (json_is_object(given)) {
        return json_incref(given);
    }
    json_t *sums = json_object();
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        int64_t n = count_needed(w, r, w->counts[r].succeeded);
        size_t i;
        json_t *c;
        json_array_foreach(co_json_at(w->job->role[r].tmpl, "spec", "containers"), i, c) {
            add_container(sums, c, n);
        }
    }
    return sums;
}

static bool waits_for_place(const struct op_slot *s) {
    return s->pod ? s->pod->phase == OP_POD_PENDING && !s->pod->scheduled && !s->pod->c.deleting
                  : !s->done;
}

bool op_gang_size_matters(const struct op_world *w) {
    bool ended = false;
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        ended |= w->counts[r].succeeded > 0;
        for (int32_t i = 0; i < op_world_replicas(w, r); i++) {
            if (waits_for_place(&w->slot[r][i])) {
                return true;
            }
        }
    }
    return !ended;
}
