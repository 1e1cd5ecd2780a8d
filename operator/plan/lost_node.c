/* When a node dies, the node controller sets the condition Ready of its pods to False; nothing else
 * about them changes.  Minutes later they are evicted, and stay Terminating until the node is back
 * or is deleted. */
#include "operator/plan/lost_node.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/parse.h"

/* Since when the pod's node has not responded, seconds; 0: it responds, or the time is unknown. */
static int64_t lost_since(const struct api_pod *pod) {
    return pod->lost ? co_time_of(pod->cause->finished) : 0;
}

/* The pod of a slot, of this attempt or an earlier one. */
static const struct api_pod *pod_of(const struct plan_slot *s) {
    return s->pod ? s->pod : s->old;
}

const struct api_pod *plan_node_find_lost(
    const struct plan_children *w, char *ret_text, size_t size) {
    const struct api_pod *first = NULL;
    int32_t n = 0;
    plan_slots_each(s, w) {
        const struct api_pod *pod = pod_of(s);
        if (pod && pod->lost) {
            first = first ? first : pod;
            n++;
        }
    }
    if (!first) {
        return NULL;
    }
    char more[32] = "";
    if (n > 1) {
        (void)snprintf(more, sizeof(more), " (and %" PRId32 " more)", n - 1);
    }
    const char *node = first->cause->message, *since = first->cause->finished;
    (void)snprintf(ret_text, size, "pod %s%s: %s%.80s does not answer%s%s", first->c.name, more,
        *node ? "node " : "its node", node, *since ? " since " : "", since);
    return first;
}

/* When the pod is given up; 0: never. */
static int64_t given_up_at(const struct plan_children *w, const struct api_pod *pod) {
    int64_t since = lost_since(pod);
    return since && w->job->node_lost_after >= 0 ? since + w->job->node_lost_after : 0;
}

bool plan_node_is_given_up(const struct plan_children *w, const struct api_pod *pod) {
    int64_t at = given_up_at(w, pod);
    return at && w->now >= at;
}

bool plan_node_is_due(struct plan_assessment *o, const struct plan_children *w) {
    bool due = false;
    plan_slots_each(s, w) {
        const struct api_pod *pod = pod_of(s);
        int64_t at = pod ? given_up_at(w, pod) : 0;
        due = due || (at && w->now >= at && pod == s->pod);
        plan_wake_by(&o->wake_at, at && w->now < at ? at : 0);
    }
    return due;
}
