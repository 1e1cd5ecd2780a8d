/* Why a pod ended, or what it waits for: the one place that judges it, from everything that
 * Kubernetes says of a pod.
 *
 *   whose doing           what says so                                          restarts the group
 *   API_BLAME_NODE         condition DisruptionTarget, a reason of the pod or     not counted
 *                         of a container that kubelet gives for the node,
 *                         a container that the node could not start
 *   API_BLAME_USER         the pod was being deleted, and nothing else said       not counted
 *   API_BLAME_PROGRAM      all else: exit codes, memory limits, storage limits,   counted
 *                         probes, commands that cannot be started, deadlines
 *
 * What came first decides: a container that failed before the pod was asked to end has failed by
 * itself.  Pure decoding. */
#pragma once

#include "operator/api/child.h"

struct api_ending {
    /* Kubernetes' phase, but judged by the template's containers alone where a webhook has added
     * some: those keep a pod Running, or make it Failed, whose training is over. */
    enum api_pod_phase phase;
    enum api_blame blame;
    enum api_again again;
    struct api_cause cause; /* borrowed from the pod; NULL texts: nothing to say */
    bool lost;              /* its node does not respond */
    bool runs_on;           /* it is over, but for containers that a webhook has added */
    bool repeats; /* kubelet starts a container again that failed, by the restart policy */
};

void api_ending_judge(const struct co_jnode *pod, struct api_ending *ret);
