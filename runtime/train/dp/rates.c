/* Schedules of runtime/train/optim for programs: one rank's part. */
#include "common/mem.h"
#include "runtime/train/dp/dp.h"
#include "runtime/train/optim/schedule.h"

int rt_schedule_new(const char *text, struct rt_schedule **ret_schedule, struct co_err *err) {
    struct rt_schedule s;
    CO_TRY(optim_schedule_parse(text, &s, err));
    *ret_schedule = co_xmalloc(sizeof(s));
    **ret_schedule = s;
    return 0;
}

void rt_schedule_free(struct rt_schedule *s) {
    free(s);
}

double rt_schedule_at(const struct rt_schedule *s, double lr, uint64_t t) {
    return optim_schedule_rate(s, lr, t);
}
