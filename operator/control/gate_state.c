/* Computes and caches the start gate's decision on a job. */
#include "operator/control/gate_state.h"

#include <stdio.h>
#include <string.h>

#include "operator/control/view.h"

void ctl_gate_state_compute(struct ctl_gate_state *v, const struct ctl_entry *e,
    const struct api_job *job, const struct plan_settings *settings) {
    CO_CLEANUP(ctl_view_done) struct ctl_view view;
    ctl_view_init(&view, e);
    *v = (struct ctl_gate_state){.known = true, .why = ""};
    v->over = api_phase_terminal(job->phase) || job->deleting;
    v->open = plan_gate_open(job, &view.seen, settings, &v->why);
    (void)snprintf(v->uid, sizeof(v->uid), "%s", job->uid);
}

static void find_out(
    struct ctl_gate_state *v, const struct ctl_entry *e, const struct plan_settings *settings) {
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    *v = (struct ctl_gate_state){.known = ctl_entry_is_cached(e), .why = "a job that can be read"};
    if (v->known && !ctl_view_job(e, &job, NULL)) {
        ctl_gate_state_compute(v, e, job, settings);
    }
}

int ctl_gate_state_answer(struct ctl_gate_state *v, const struct ctl_stored *pod, const char *uid,
    const struct plan_settings *settings, const char **ret_why) {
    if (strcmp(pod->child->uid, uid) != 0) {
        *ret_why = "the operator does not know this pod yet";
        return -1;
    }
    if (!v->known) {
        find_out(v, pod->entry, settings);
    }
    if (!v->known) {
        *ret_why = v->why;
        return 0;
    }
    bool its_own = strcmp(pod->child->owner_uid, v->uid) == 0;
    if (its_own && v->over) {
        *ret_why = "the job is over";
        return -2;
    }
    if (!its_own || pod->child->deleting) {
        *ret_why = "being a pod of the job";
        return 0;
    }
    *ret_why = v->why;
    return v->open;
}
