/* The start and the end of a training. */
#include "examples/data/train.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/contract.h"

void da_forget_job(void) {
    for (size_t i = 0; i < CO_VAR_COUNT; i++) {
        if (!co_contract[i].machine && !co_contract[i].alone) {
            (void)unsetenv(co_contract[i].name);
        }
    }
}

int da_writable(const char *dir, struct co_err *err) {
    return dir && dir[0] != '\0' ? rt_save_check(dir, err) : 0;
}

int da_trained(struct rt_client *c, uint32_t table, uint64_t own, const char *path,
    const struct da_tally *t, struct co_err *err) {
    static const struct da_tally none;
    struct rt_table_stat stat;

    if (own > 0) {
        return 0;
    }
    int rc = rt_stat(c, table, &stat, err);
    return rc == 0 && stat.pushes == 0 ? da_tally_unusable(t ? t : &none, path, err) : rc;
}
