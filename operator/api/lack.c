/* What a job that is valid still lacks, so that nobody waits for it in vain. */
#include <stdio.h>

#include "operator/api/job.h"

enum { ALL_ROLES = 1U << API_PS | 1U << API_WORKER | 1U << API_HETER };
enum { TRAINERS = 1U << API_WORKER | 1U << API_HETER };

static bool has_pods(const struct api_job *job, unsigned roles) {
    bool has = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        has |= (roles & 1U << r) && job->role[r].replicas > 0;
    }
    return has;
}

/* "spec has no worker or heter", or of those that it has: "spec.worker.replicas is 0". */
static size_t say_roles(const struct api_job *job, unsigned roles, char *ret, size_t size) {
    size_t n = 0, named = 0;
    for (enum api_role r = API_PS; r < API_ROLES && n < size; r++) {
        if ((roles & 1U << r) && job->role[r].present) {
            n += (size_t)snprintf(ret + n, size - n, "%sspec.%s.replicas is 0", named++ ? ", " : "",
                api_role_name(r));
        }
    }
    const char *none =
        roles == ALL_ROLES ? "spec has no ps, worker or heter" : "spec has no worker or heter";
    return named ? n : (size_t)snprintf(ret, size, "%s", none);
}

enum api_lack api_job_lack(const struct api_job *job, char *ret, size_t size) {
    bool pods = has_pods(job, ALL_ROLES);
    if (pods && (has_pods(job, TRAINERS) || job->success == API_SUCCESS_ALL)) {
        return API_LACK_NOTHING;
    }
    size_t n = say_roles(job, pods ? TRAINERS : ALL_ROLES, ret, size);
    if (n < size) {
        (void)snprintf(ret + n, size - n, "%s",
            pods ? ", so that nothing trains; the job ends only when all its servers have"
                 : ", so that the job has no pods; name a role with replicas and a template");
    }
    return pods ? API_LACK_TRAINERS : API_LACK_PODS;
}
