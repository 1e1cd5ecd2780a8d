#include "runtime/train/ps/budget.h"

int rt_budget_take(struct rt_budget *b, size_t bytes, struct co_err *err) {
    if (!b) {
        return 0;
    }
    size_t used = atomic_load(&b->used);
    do {
        if (used > b->max || bytes > b->max - used) {
            return co_err_set(err, CO_NORESOURCE,
                "%zu KiB more do not fit: the tables of this server take %zu of at most %zu KiB "
                "(memory_max)",
                (bytes + 1023) >> 10, used >> 10, b->max >> 10);
        }
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + bytes));
    return 0;
}

void rt_budget_give(struct rt_budget *b, size_t bytes) {
    if (b) {
        atomic_fetch_sub(&b->used, bytes);
    }
}
