/* Protobuf tables for pods: the fields that pod.c reads, with the field numbers of generated.proto
 * in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1. */
#include "operator/api/child.h"

CO_PROTO_TABLE(owner, {5, "apiVersion", CO_PROTO_STRING}, {1, "kind", CO_PROTO_STRING},
    {3, "name", CO_PROTO_STRING}, {4, "uid", CO_PROTO_STRING}, {6, "controller", CO_PROTO_BOOL});
CO_PROTO_TABLE(meta, {1, "name", CO_PROTO_STRING}, {3, "namespace", CO_PROTO_STRING},
    {5, "uid", CO_PROTO_STRING}, {6, "resourceVersion", CO_PROTO_STRING},
    {8, "creationTimestamp", CO_PROTO_TIME}, {9, "deletionTimestamp", CO_PROTO_TIME},
    {10, "deletionGracePeriodSeconds", CO_PROTO_INT}, {11, "labels", CO_PROTO_MAP},
    {12, "annotations", CO_PROTO_MAP}, {13, "ownerReferences", CO_PROTO_MESSAGES, &owner});

/* Of these messages only the presence matters. */
static const struct co_proto_message present = {NULL, 0};
CO_PROTO_TABLE(exit_codes, {1, "operator", CO_PROTO_STRING}, {2, "values", CO_PROTO_INTS});
CO_PROTO_TABLE(
    restart_rule, {1, "action", CO_PROTO_STRING}, {2, "exitCodes", CO_PROTO_MESSAGE, &exit_codes});
CO_PROTO_TABLE(probe, {2, "initialDelaySeconds", CO_PROTO_INT}, {4, "periodSeconds", CO_PROTO_INT},
    {6, "failureThreshold", CO_PROTO_INT});
CO_PROTO_TABLE(container, {1, "name", CO_PROTO_STRING},
    {10, "livenessProbe", CO_PROTO_MESSAGE, &probe}, {22, "startupProbe", CO_PROTO_MESSAGE, &probe},
    {24, "restartPolicy", CO_PROTO_STRING},
    {25, "restartPolicyRules", CO_PROTO_MESSAGES, &restart_rule});
CO_PROTO_TABLE(spec, {2, "containers", CO_PROTO_MESSAGES, &container},
    {3, "restartPolicy", CO_PROTO_STRING}, {10, "nodeName", CO_PROTO_STRING},
    {20, "initContainers", CO_PROTO_MESSAGES, &container});

CO_PROTO_TABLE(waiting, {1, "reason", CO_PROTO_STRING}, {2, "message", CO_PROTO_STRING});
CO_PROTO_TABLE(terminated, {1, "exitCode", CO_PROTO_INT}, {3, "reason", CO_PROTO_STRING},
    {4, "message", CO_PROTO_STRING}, {5, "startedAt", CO_PROTO_TIME},
    {6, "finishedAt", CO_PROTO_TIME});
CO_PROTO_TABLE(state, {1, "waiting", CO_PROTO_MESSAGE, &waiting},
    {2, "running", CO_PROTO_MESSAGE, &present}, {3, "terminated", CO_PROTO_MESSAGE, &terminated});
CO_PROTO_TABLE(container_status, {1, "name", CO_PROTO_STRING},
    {2, "state", CO_PROTO_MESSAGE, &state}, {3, "lastState", CO_PROTO_MESSAGE, &state},
    {4, "ready", CO_PROTO_BOOL}, {5, "restartCount", CO_PROTO_INT});
CO_PROTO_TABLE(condition, {1, "type", CO_PROTO_STRING}, {2, "status", CO_PROTO_STRING},
    {4, "lastTransitionTime", CO_PROTO_TIME}, {5, "reason", CO_PROTO_STRING},
    {6, "message", CO_PROTO_STRING});
CO_PROTO_TABLE(ip, {1, "ip", CO_PROTO_STRING});
CO_PROTO_TABLE(status, {1, "phase", CO_PROTO_STRING}, {3, "message", CO_PROTO_STRING},
    {4, "reason", CO_PROTO_STRING}, {5, "hostIP", CO_PROTO_STRING}, {6, "podIP", CO_PROTO_STRING},
    {12, "podIPs", CO_PROTO_MESSAGES, &ip}, {2, "conditions", CO_PROTO_MESSAGES, &condition},
    {10, "initContainerStatuses", CO_PROTO_MESSAGES, &container_status},
    {8, "containerStatuses", CO_PROTO_MESSAGES, &container_status});

static const struct co_proto_field fields[] = {
    {1, "metadata", CO_PROTO_MESSAGE, &meta},
    {2, "spec", CO_PROTO_MESSAGE, &spec},
    {3, "status", CO_PROTO_MESSAGE, &status},
};
const struct co_proto_message api_pod_proto = {fields, CO_ARRAY_LEN(fields)};
