/* Opens the metrics page and the TensorBoard file that the environment asks for, and passes
 * reported numbers to both.  Any thread; a reporter's lock is held while a file is written. */
#include "runtime/train/ps/client/report.h"

#include <pthread.h>

#include "common/contract.h"
#include "runtime/train/meter/events.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/glog.h"

struct psc_reporter {
    pthread_mutex_t m; /* guards the fields below */
    bool opened, metered;
    bool refused; /* a name was refused, which is logged once */
    struct meter_events *events;
};

static const char *variable(enum co_var var) {
    const char *text = co_contract_getenv(var);
    return text ? text : "";
}

bool psc_report_metrics(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *addr = variable(CO_VAR_METRICS);
    struct co_err err = {0};
    uint16_t port = 0;
    if (!*addr) {
        return false;
    }
    if (meter_open(addr, &port, &err) < 0) {
        ps_log_warn("%s: %s; continuing without it", co_contract[CO_VAR_METRICS].name, err.msg);
        return false;
    }
    if (!atomic_flag_test_and_set(&said)) {
        ps_log_info("metrics at port %u", port);
    }
    return true;
}

struct psc_reporter *psc_reporter_new(void) {
    struct psc_reporter *r = co_xcalloc(1, sizeof(*r));
    pthread_mutex_init(&r->m, NULL);
    return r;
}

void psc_reporter_free(struct psc_reporter *r) {
    if (r) {
        if (r->metered) {
            meter_close();
        }
        meter_events_close(r->events);
        pthread_mutex_destroy(&r->m);
        free(r);
    }
}

static void open_all(struct psc_reporter *r, const char *role, uint32_t index) {
    const char *dir = variable(CO_VAR_TENSORBOARD);
    struct co_err err = {0};
    r->opened = true;
    r->metered = psc_report_metrics();
    if (*dir) {
        CO_AUTOFREE char *own = co_xasprintf("%s/%s-%u", dir, role, index);
        if (meter_events_open(own, &r->events, &err) < 0) {
            ps_log_warn(
                "%s: %s; continuing without it", co_contract[CO_VAR_TENSORBOARD].name, err.msg);
        }
    }
}

void psc_reporter_report(struct psc_reporter *r, const char *role, uint32_t index, uint64_t step,
    const char *name, double value) {
    struct co_err err = {0};
    pthread_mutex_lock(&r->m);
    if (!r->opened) {
        open_all(r, role, index);
    }
    bool taken = meter_report(name, value);
    if (taken) {
        meter_set(METER_M_REPORTED_STEP, 0, (double)step);
    } else if (!r->refused) {
        r->refused = true;
        ps_log_warn(
            "rt_report: \"%.80s\" is not a name of at most %d of [A-Za-z0-9_.:/-], or one of "
            "more than %d; left out",
            name, METER_NAME - 1, METER_NAMES);
    }
    if (taken && r->events && meter_events_add(r->events, step, name, value, &err) < 0) {
        ps_log_warn("%s; continuing without it", err.msg);
        meter_events_close(co_steal_ptr(r->events));
    }
    pthread_mutex_unlock(&r->m);
}
