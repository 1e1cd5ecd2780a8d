/* Names of roles, modes, phases and problems, and of the objects that a job owns. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "operator/api/job.h"

static const char *const role_names[] = {
    [API_PS] = "ps", [API_WORKER] = "worker", [API_HETER] = "heter"};
static const char *const mode_names[] = {
    [API_MODE_SINGLE] = "Single", [API_MODE_COLLECTIVE] = "Collective", [API_MODE_PS] = "PS"};
static const char *const phase_names[] = {
    [API_PHASE_NONE] = "",
    [API_PHASE_PENDING] = "Pending",
    [API_PHASE_STARTING] = "Starting",
    [API_PHASE_RUNNING] = "Running",
    [API_PHASE_COMPLETED] = "Completed",
    [API_PHASE_FAILED] = "Failed",
    [API_PHASE_TERMINATING] = "Terminating",
    [API_PHASE_RESTARTING] = "Restarting",
    [API_PHASE_SUSPENDED] = "Suspended",
};
static const char *const problem_names[] = {
    [API_PROBLEM_NAME] = "InvalidName",
    [API_PROBLEM_TYPE] = "InvalidSpec",
    [API_PROBLEM_REPLICAS] = "InvalidReplicas",
    [API_PROBLEM_TEMPLATE] = "InvalidTemplate",
    [API_PROBLEM_CONTAINERS] = "InvalidTemplate",
    [API_PROBLEM_ELASTIC] = "InvalidSpec",
    [API_PROBLEM_SIZE] = "TooLarge",
};

const char *api_role_name(enum api_role role) {
    return role < API_ROLES ? role_names[role] : "";
}

enum api_role api_role_parse(const char *name) {
    for (enum api_role r = API_PS; name && r < API_ROLES; r++) {
        if (strcmp(name, role_names[r]) == 0) {
            return r;
        }
    }
    return API_NO_ROLE;
}

const char *api_mode_name(enum api_mode mode) {
    return mode_names[mode];
}

const char *api_phase_name(enum api_phase phase) {
    return phase_names[phase];
}

enum api_phase api_phase_parse(const char *name) {
    for (size_t i = API_PHASE_PENDING; name && i < CO_ARRAY_LEN(phase_names); i++) {
        if (strcmp(name, phase_names[i]) == 0) {
            return (enum api_phase)i;
        }
    }
    return API_PHASE_NONE;
}

const char *api_problem_code_name(enum api_problem_code code) {
    return problem_names[code];
}

bool api_says_namespace_ends(const char *message) {
    return strstr(message, "because it is being terminated") != NULL;
}

bool api_phase_terminal(enum api_phase phase) {
    return phase == API_PHASE_COMPLETED || phase == API_PHASE_FAILED;
}

void api_pod_name(const char *job, enum api_role role, int32_t index, char *ret, size_t size) {
    (void)snprintf(ret, size, "%s-%s-%" PRId32, job, api_role_name(role), index);
}

char *api_token_name(const struct api_job *job) {
    return co_xasprintf("%s-token-%s", job->name, job->uid);
}

int32_t api_pod_name_index(const char *job, enum api_role role, const char *name) {
    size_t nj = strlen(job);
    const char *word = api_role_name(role);
    size_t nr = strlen(word);
    if (strncmp(name, job, nj) != 0 || name[nj] != '-' || strncmp(name + nj + 1, word, nr) != 0 ||
        name[nj + 1 + nr] != '-') {
        return -1;
    }
    const char *digits = name + nj + nr + 2;
    if (!*digits || (digits[0] == '0' && digits[1])) {
        return -1;
    }
    int64_t index = 0;
    for (const char *p = digits; *p; p++) {
        if (*p < '0' || *p > '9' || index > INT32_MAX / 10) {
            return -1;
        }
        index = index * 10 + (*p - '0');
    }
    return index <= INT32_MAX ? (int32_t)index : -1;
}
