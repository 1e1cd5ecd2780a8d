/* Stage timings of jobs: notes moments as they are seen, and observes the metrics when a phase that
 * ends a stage has been written. */
#include "operator/control/stages.h"

#include "common/parse.h"
#include "operator/control/operator_metrics.h"
#include "operator/kube/clock.h"

void ctl_stages_begin(struct ctl_stages *s, enum api_phase phase, int64_t created) {
    enum { LATE_S = 3 };
    /* creationTimestamp is used only if the job is older than rounding to seconds and different
     * clocks could explain, that is, if it has waited for the operator. */
    int64_t age = created ? kube_clock_seconds() - created : 0;
    s->born = phase ? 0 : co_now_ms() - (age >= LATE_S ? age * 1000 : 0);
    s->left = 0;
}

void ctl_stages_pod_made(struct ctl_stages *s) {
    s->made = co_now_ms();
}

void ctl_stages_pod_scheduled(struct ctl_stages *s) {
    s->scheduled = co_now_ms();
}

static void count_start(const struct ctl_stages *s, struct ctl_metrics *m, int64_t now) {
    int64_t placed = s->scheduled > s->made ? s->scheduled : s->made;
    ctl_metrics_stage(m, CTL_M_STAGE_PODS_CREATED, s->made - s->born);
    ctl_metrics_stage(m, CTL_M_STAGE_SCHEDULED, placed - s->made);
    ctl_metrics_stage(m, CTL_M_STAGE_RUNNING, now - placed);
}

void ctl_stages_phase(struct ctl_stages *s, struct ctl_metrics *m, enum api_phase from,
    enum api_phase to, const json_t *status) {
    int64_t now = co_now_ms();
    co_metric_add(&m->row[CTL_M_PHASES], to, 1);
    if (to == API_PHASE_RUNNING && s->born) {
        count_start(s, m, now);
    }
    if (to == API_PHASE_RUNNING && s->left) {
        co_metric_observe(
            &m->row[CTL_M_INTERRUPTED_SECONDS], !s->restarting, (double)(now - s->left) / 1e3);
    }
    if (to == API_PHASE_RUNNING || to == API_PHASE_SUSPENDED || api_phase_terminal(to)) {
        s->born = s->left = 0;
        s->restarting = false;
    } else if (from == API_PHASE_RUNNING) {
        s->left = now;
    }
    s->restarting |= to == API_PHASE_RESTARTING;
    int64_t started = co_time_of(co_json_str(status, "startTime"));
    if (api_phase_terminal(to) && started) {
        int64_t ended = co_time_of(co_json_str(status, "completionTime"));
        ctl_metrics_stage(m, CTL_M_STAGE_FINISHED, (ended - started) * 1000);
    }
}
