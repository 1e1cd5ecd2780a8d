/* By default cleanPodPolicy keeps the pods of a failed job, even running ones.  These hold their
 * resources, and a trainer may wait forever for its peer, so the user should know of them. */
#include "operator/plan/left.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/word_list.h"
#include "operator/plan/run_policy.h"

char *plan_left_add(const struct plan_children *w, const struct plan_assessment *o) {
    enum { NAMED_MAX = 3 };
    char names[NAMED_MAX * (API_NAME_MAX + 2) + 8] = "";
    int32_t n = 0;
    if (o->phase != API_PHASE_FAILED ||
        plan_policy_end(w->job, API_PHASE_FAILED, o->reason) != PLAN_END_NOTHING) {
        return co_xstrdup(o->message);
    }
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (!pod || pod->c.deleting || !plan_pod_holds_node(pod)) {
            continue;
        }
        if (n++ < NAMED_MAX) {
            co_word_list_add(names, sizeof(names), "%s", pod->c.name);
        }
    }
    char more[32] = "";
    if (n > NAMED_MAX) {
        (void)snprintf(more, sizeof(more), " and %" PRId32 " more", n - NAMED_MAX);
    }
    return n == 0
               ? co_xstrdup(o->message)
               : co_xasprintf("%s; still there, with all that they ask for: %s%s; to end them: "
                              "kubectl delete pod -n %s -l " API_LABEL_JOB
                              "=%s --field-selector status.phase!=Failed,status.phase!=Succeeded",
                     o->message, names, more, w->job->ns, w->job->name);
}
