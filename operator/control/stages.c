/* Stage timings of jobs: notes moments as they are seen, and observes the metrics when a phase that
 * ends a stage has been written. */
#include "operator/control/stages.h"

#include "common/parse.h"
#include "operator/control/metrics.h"
#include "operator/kube/clock.h"

void op_stages_begin(struct op_stages *s, enum op_phase phase, int64_t created) {
    enum { LATE_S = 3 };
    /* creationTimestamp is used only if the job is older than rounding to seconds and different
     * clocks could explain, that is, if it has waited for the operator. */
    int64_t age = created ? op_kube_clock_seconds() - created : 0;
    s->born = phase ? 0 : co_now_ms() - (age >= LATE_S ? age * 1000 : 0);
    s->left = 0;
}

void op_stages_pod_made(struct op_stages *s) {
    s->made = co_now_ms();
}

void op_stages_pod_scheduled(struct op_stages *s) {
    s->scheduled = co_now_ms();
}

static int64_t status_time(const json_t *status, const char *key) {
    const char *text = co_json_str(status, key);
    int64_t at = 0;
    return text && !co_parse_time(key, text, &at, NULL) ? at : 0;
}

static void count_start(const struct op_stages *s, struct op_metrics *m, int64_t now) {
    int64_t placed = s->scheduled > s->made ? s->scheduled : s->made;
    op_metrics_stage(m, OP_M_STAGE_PODS_CREATED, s->made - s->born);
    op_metrics_stage(m, OP_M_STAGE_SCHEDULED, placed - s->made);
    op_metrics_stage(m, OP_M_STAGE_RUNNING, now - placed);
}

void op_stages_phase(struct op_stages *s, struct op_metrics *m, enum op_phase from,
    enum op_phase to, const json_t *status) {
    int64_t now = co_now_ms();
    co_metric_add(&m->row[OP_M_PHASES], to, 1);
    if (to == OP_PHASE_RUNNING && s->born) {
        count_start(s, m, now);
    }
    if (to == OP_PHASE_RUNNING && s->left) {
        co_metric_observe(
            &m->row[OP_M_INTERRUPTED_SECONDS], !s->restarting, (double)(now - s->left) / 1e3);
    }
    if (to == OP_PHASE_RUNNING || to == OP_PHASE_SUSPENDED || op_phase_terminal(to)) {
        s->born = s->left = 0;
        s->restarting = false;
    } else if (from == OP_PHASE_RUNNING) {
        s->left = now;
    }
    s->restarting |= to == OP_PHASE_RESTARTING;
    int64_t started = status_time(status, "startTime");
    if (op_phase_terminal(to) && started) {
        op_metrics_stage(
            m, OP_M_STAGE_FINISHED, (status_time(status, "completionTime") - started) * 1000);
    }
}
