/* Where a training starts: with initial or saved values, and after the input that was used before.
 */
#include <stdint.h>

#include "runtime/rt.h"

/* Always sends the initial values, as only worker 0 knows whether there is something to load.  What
 * it loads then replaces them, optimizer state included. */
int rt_load_or_init(const struct rt_job *job, struct rt_client *c, const char *dir, uint32_t table,
    float *values, bool *ret_loaded, struct co_err *err) {
    int rc = rt_init_dense(c, table, values, err);
    bool loaded = false;

    if (rc < 0 || !dir || dir[0] == '\0') {
        goto end;
    }
    if (rt_is_first_worker(job)) {
        struct co_err why = {0};
        rc = rt_load(c, dir, &why);
        loaded = rc == 0;
        rc = rc == 0 || rc == CO_NOTFOUND ? 0 : co_err_set(err, rc, "%s", co_err_text(&why));
    }
    if (rc == 0) {
        rc = rt_barrier(c, err);
    }
    if (rc == 0) {
        rc = rt_pull_dense(c, table, values, err);
    }
end:
    if (rc == 0 && ret_loaded) {
        *ret_loaded = loaded;
    }
    return rc;
}

/* ---- positions: five numbers, low byte first ------------------------------------------------- */

enum { NUMBERS = 5, BYTES = NUMBERS * 8 };

int rt_keep_position(struct rt_client *c, const struct rt_position *at, struct co_err *err) {
    const uint64_t numbers[NUMBERS] = {at->pass, at->file, at->offset, at->line, at->seen};
    unsigned char bytes[BYTES];

    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (unsigned char)(numbers[i / 8] >> i % 8 * 8);
    }
    return rt_keep(c, bytes, sizeof(bytes), err);
}

int rt_resume_position(struct rt_client *c, struct rt_position *ret_at, struct rt_place *ret_place,
    struct co_err *err) {
    uint64_t numbers[NUMBERS] = {0};
    unsigned char bytes[BYTES];
    struct rt_place place;
    CO_TRY(rt_resume(c, bytes, sizeof(bytes), &place, err));
    if (place.bytes != 0 && place.bytes != BYTES) {
        return co_err_set(err, CO_INVALID,
            "what was kept has %zu bytes, and is not a position of %d", place.bytes, BYTES);
    }
    for (size_t i = 0; i < place.bytes; i++) {
        numbers[i / 8] |= (uint64_t)bytes[i] << i % 8 * 8;
    }
    *ret_at = (struct rt_position){.pass = numbers[0],
        .file = numbers[1],
        .offset = numbers[2],
        .line = numbers[3],
        .seen = numbers[4]};
    *ret_place = place;
    return 0;
}

int rt_keep_input(struct rt_client *c, const struct rt_input *l, struct co_err *err) {
    struct rt_position at;

    rt_input_tell(l, &at);
    return rt_keep_position(c, &at, err);
}

int rt_resume_input(struct rt_client *c, struct rt_input *l, struct co_err *err) {
    struct rt_position at;
    struct rt_place place;
    int rc = rt_resume_position(c, &at, &place, err);

    return rc == 0 ? rt_input_seek(l, &at, err) : rc;
}
