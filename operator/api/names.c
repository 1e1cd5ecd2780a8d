/* Names of roles, modes, phases and problems, and of the objects that a job owns. */
#include "operator/api/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const role_names[] = {
    [OP_PS] = "ps", [OP_WORKER] = "worker", [OP_HETER] = "heter"};
static const char *const mode_names[] = {
    [OP_MODE_SINGLE] = "Single", [OP_MODE_COLLECTIVE] = "Collective", [OP_MODE_PS] = "PS"};
static const char *const phase_names[] = {
    [OP_PHASE_NONE] = "",
    [OP_PHASE_PENDING] = "Pending",
    [OP_PHASE_STARTING] = "Starting",
    [OP_PHASE_RUNNING] = "Running",
    [OP_PHASE_COMPLETED] = "Completed",
    [OP_PHASE_FAILED] = "Failed",
    [OP_PHASE_TERMINATING] = "Terminating",
    [OP_PHASE_RESTARTING] = "Restarting",
    [OP_PHASE_SUSPENDED] = "Suspended",
};
static const char *const problem_names[] = {
    [OP_PROBLEM_NAME] = "InvalidName",
    [OP_PROBLEM_TYPE] = "InvalidSpec",
    [OP_PROBLEM_REPLICAS] = "InvalidReplicas",
    [OP_PROBLEM_TEMPLATE] = "InvalidTemplate",
    [OP_PROBLEM_CONTAINERS] = "InvalidTemplate",
    [OP_PROBLEM_ELASTIC] = "InvalidSpec",
    [OP_PROBLEM_SIZE] = "TooLarge",
};

const char *op_role_name(enum op_role role) {
    return role < OP_ROLES ? role_names[role] : "";
}

enum op_role op_role_parse(const char *name) {
    for (enum op_role r = OP_PS; name && r < OP_ROLES; r++) {
        if (strcmp(name, role_names[r]) == 0) {
            return r;
        }
    }
    return OP_NO_ROLE;
}

const char *op_mode_name(enum op_mode mode) {
    return mode_names[mode];
}

const char *op_phase_name(enum op_phase phase) {
    return phase_names[phase];
}

enum op_phase op_phase_parse(const char *name) {
    for (size_t i = OP_PHASE_PENDING; name && i < CO_ARRAY_LEN(phase_names); i++) {
        if (strcmp(name, phase_names[i]) == 0) {
            return (enum op_phase)i;
        }
    }
    return OP_PHASE_NONE;
}

const char *op_problem_code_name(enum op_problem_code code) {
    return problem_names[code];
}

bool op_says_namespace_ends(const char *message) {
    return strstr(message, "because it is being terminated") != NULL;
}

bool op_phase_terminal(enum op_phase phase) {
    return phase == OP_PHASE_COMPLETED || phase == OP_PHASE_FAILED;
}

void op_pod_name(const char *job, enum op_role role, int32_t index, char *ret, size_t size) {
    (void)snprintf(ret, size, "%s-%s-%" PRId32, job, op_role_name(role), index);
}

char *op_token_name(const struct op_job *job) {
    return co_xasprintf("%s-token-%s", job->name, job->uid);
}

int32_t op_pod_name_index(const char *job, enum op_role role, const char *name) {
    size_t nj = strlen(job);
    const char *word = op_role_name(role);
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
