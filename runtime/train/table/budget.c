/* One atomic counter with a limit: taking is a compare-and-swap, so threads never exceed it
 * together. */
#include "runtime/train/table/budget.h"

bool table_budget_try(struct table_budget *b, size_t bytes, size_t most) {
    size_t used = b ? atomic_load(&b->used) : 0;
    do {
        if (b && (used > most || bytes > most - used)) {
            return false;
        }
    } while (b && !atomic_compare_exchange_weak(&b->used, &used, used + bytes));
    return true;
}

int table_budget_take(struct table_budget *b, size_t bytes, struct co_err *err) {
    if (!b || table_budget_try(b, bytes, b->max)) {
        return 0;
    }
    return co_err_set(err, CO_NORESOURCE,
        "%zu KiB more do not fit: the tables of this server take %zu of at most %zu KiB "
        "(memory_max)",
        (bytes + 1023) >> 10, atomic_load(&b->used) >> 10, b->max >> 10);
}

void table_budget_count(struct table_budget *b, size_t bytes) {
    if (b) {
        atomic_fetch_add(&b->used, bytes);
    }
}

void table_budget_give(struct table_budget *b, size_t bytes) {
    if (b) {
        atomic_fetch_sub(&b->used, bytes);
    }
}
