/* What the file of --auto_parallel_config says.  node_plan.c has the tuner's plan.  See tuner.h. */
#include "runtime/launch/job/tuner.h"

#include <string.h>

#include "common/json/json.h"

int job_tuner_read(const char *text, size_t len, enum job_tuner *ret, struct co_err *err) {
    static const char *const modes[] = {[JOB_TUNER_NONE] = "run_only",
        [JOB_TUNER_FIRST] = "tuner_and_run",
        [JOB_TUNER_ONLY] = "tuner_only"};
    CO_AUTOJSON json_t *file = NULL;
    const char *mode = modes[JOB_TUNER_FIRST];
    CO_TRY(co_json_parse(text, len, &file, err));
    if (!json_is_object(file)) {
        return co_err_set(err, CO_INVALID, "expected a JSON object");
    }
    if (json_object_get(file, "tuner_run_mode")) {
        CO_TRY(co_json_get_str(file, "tuner_run_mode", &mode, err));
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(modes); i++) {
        if (strcmp(mode, modes[i]) == 0) {
            *ret = (enum job_tuner)i;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID,
        "tuner_run_mode is \"%.100s\", expected tuner_and_run, tuner_only or run_only", mode);
}
