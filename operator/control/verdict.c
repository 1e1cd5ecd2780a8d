/* Computes and caches the start gate's verdict on a job. */
#include "operator/control/verdict.h"

#include "operator/control/view.h"

#include <stdio.h>
#include <string.h>

void op_verdict_settle(struct op_verdict *v, const struct op_entry *e, const struct op_job *job,
    const struct op_settings *settings) {
    struct op_view view;
    op_view_init(&view, e);
    *v = (struct op_verdict){.known = true, .why = ""};
    v->over = op_phase_terminal(job->phase) || job->deleting;
    v->open = op_plan_gate_open(job, &view.seen, settings, NULL, &v->why);
    (void)snprintf(v->uid, sizeof(v->uid), "%s", job->uid);
    op_view_done(&view);
}

static void find_out(
    struct op_verdict *v, const struct op_entry *e, const struct op_settings *settings) {
    CO_CLEANUP(op_job_freep) struct op_job *job = NULL;
    *v = (struct op_verdict){.known = op_entry_at_hand(e), .why = "a job that can be read"};
    if (v->known && !op_view_job(e, &job, NULL)) {
        op_verdict_settle(v, e, job, settings);
    }
}

int op_verdict_for(struct op_verdict *v, const struct op_stored *pod, const char *uid,
    const struct op_settings *settings, const char **ret_why) {
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
