/* Opens the metrics page and the TensorBoard file that the environment asks for, and passes
 * reported numbers to both.  Any thread; a reporter's lock is held while a file is written. */
#include "runtime/train/ps/client/report.h"

#include <pthread.h>

#include "common/contract.h"
#include "runtime/train/meter/events.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/say.h"

struct rt_reporter {
    pthread_mutex_t m; /* guards the fields below */
    bool opened, metered;
    bool refused; /* a name was refused, which is logged once */
    struct rt_events *events;
};

static const char *variable(enum co_var var) {
    const char *text = co_contract_getenv(var);
    return text ? text : "";
}

bool rt_report_metrics(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *addr = variable(CO_VAR_METRICS);
    struct co_err err = {0};
    uint16_t port = 0;
    if (!*addr) {
        return false;
    }
    if (rt_meter_open(addr, &port, &err) < 0) {
        rt_say_warn("%s: %s; going on without", co_contract[CO_VAR_METRICS].name, err.msg);
        return false;
    }
    if (!atomic_flag_test_and_set(&said)) {
        rt_say_info("metrics at port %u", port);
    }
    return true;
}

struct rt_reporter *rt_reporter_new(void) {
    struct rt_reporter *r = co_xcalloc(1, sizeof(*r));
    pthread_mutex_init(&r->m, NULL);
    return r;
}

void rt_reporter_free(struct rt_reporter *r) {
    if (r) {
        if (r->metered) {
            rt_meter_close();
        }
        rt_events_close(r->events);
        pthread_mutex_destroy(&r->m);
        free(r);
    }
}

static void open_all(struct rt_reporter *r, const char *role, uint32_t index) {
    const char *dir = variable(CO_VAR_TENSORBOARD);
    struct co_err err = {0};
    r->opened = true;
    r->metered = rt_report_metrics();
    if (*dir) {
        CO_AUTOFREE char *own = co_xasprintf("%s/%s-%u", dir, role, index);
        if (rt_events_open(own, &r->events, &err) < 0) {
            rt_say_warn("%s: %s; going on without", co_contract[CO_VAR_TENSORBOARD].name, err.msg);
        }
    }
}

void rt_reporter_tell(struct rt_reporter *r, const char *role, uint32_t index, uint64_t step,
    const char *name, double value) {
    struct co_err err = {0};
    pthread_mutex_lock(&r->m);
    if (!r->opened) {
        open_all(r, role, index);
    }
    bool taken = rt_meter_report(name, value);
    if (taken) {
        rt_meter_set(RT_M_REPORTED_STEP, 0, (double)step);
    } else if (!r->refused) {
        r->refused = true;
        rt_say_warn(
            "rt_report: \"%.80s\" is not a name of at most %d of [A-Za-z0-9_.:/-], or one of "
            "more than %d; left out",
            name, RT_METER_NAME - 1, RT_METER_NAMES);
    }
    if (taken && r->events && rt_events_add(r->events, step, name, value, &err) < 0) {
        rt_say_warn("%s; going on without", err.msg);
        rt_events_close(co_steal_ptr(r->events));
    }
    pthread_mutex_unlock(&r->m);
}
