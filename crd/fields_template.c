/*
 * The part of a pod template that people write most, so that explain shows it and a wrong type
 * (a number as the value of a variable) is refused at once. Everything keeps unknown fields: the
 * cluster's own pod type decides what there is. Nothing here may be stricter than that type.
 */
#include "crd/crd.h"

static const struct crd_field open_item[] = {{0}};

static const struct crd_field metadata_fields[] = {
    {.name = "labels",
        .type = CRD_STRING_MAP,
        .doc = "Labels of the pods. Those that the operator sets itself win."},
    {.name = "annotations",
        .type = CRD_STRING_MAP,
        .doc = "Annotations of the pods. Those that the operator sets itself win."},
    {.name = "finalizers", .type = CRD_STRING_LIST, .doc = "Finalizers of the pods."},
    {.name = "name",
        .type = CRD_STRING,
        .doc = "Ignored: pods are named after job, role and number."},
    {.name = "namespace", .type = CRD_STRING, .doc = "Ignored: pods are created where the job is."},
    {0},
};

static const struct crd_field env_fields[] = {
    {.name = "name", .type = CRD_STRING, .required = true, .doc = "Name of the variable."},
    {.name = "value",
        .type = CRD_STRING,
        .doc = "Value of the variable. Numbers and booleans need quotes, as \"8\"."},
    {.name = "valueFrom",
        .type = CRD_OBJECT,
        .open = true,
        .fields = open_item,
        .doc = "Takes the value from a field of the pod, a ConfigMap or a Secret."},
    {0},
};

static const struct crd_field port_fields[] = {
    {.name = "containerPort", .type = CRD_INT32, .required = true, .doc = "Number of the port."},
    {.name = "name", .type = CRD_STRING, .doc = "Name of the port."},
    {.name = "protocol", .type = CRD_STRING, .doc = "TCP (default), UDP or SCTP."},
    {0},
};

static const struct crd_field mount_fields[] = {
    {.name = "name", .type = CRD_STRING, .required = true, .doc = "Name of a volume."},
    {.name = "mountPath",
        .type = CRD_STRING,
        .required = true,
        .doc = "Path inside the container."},
    {.name = "subPath", .type = CRD_STRING, .doc = "Path inside the volume."},
    {.name = "readOnly", .type = CRD_BOOLEAN, .doc = "Mount without write access."},
    {0},
};

static const struct crd_field resource_fields[] = {
    {.name = "limits",
        .type = CRD_QUANTITY_MAP,
        .doc = "The most that the container may use, as cpu: \"4\", memory: 8Gi, nvidia.com/gpu: "
               "1."},
    {.name = "requests",
        .type = CRD_QUANTITY_MAP,
        .doc = "What the container is sure to get, by which it is placed. Default: the limits."},
    {0},
};

static const struct crd_field container_fields[] = {
    {.name = "name", .type = CRD_STRING, .required = true, .doc = "Name of the container."},
    {.name = "image", .type = CRD_STRING, .doc = "Image to run."},
    {.name = "imagePullPolicy",
        .type = CRD_STRING,
        .doc = "Always, IfNotPresent or Never. Default: Always for the tag latest, else "
               "IfNotPresent."},
    {.name = "command",
        .type = CRD_STRING_LIST,
        .doc = "Program and arguments in place of the image's entry point."},
    {.name = "args", .type = CRD_STRING_LIST, .doc = "Arguments in place of those of the image."},
    {.name = "workingDir", .type = CRD_STRING, .doc = "Directory to start in."},
    {.name = "env",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = env_fields,
        .anchor = "env",
        .doc = "Variables. In the first container the operator adds its own after them, which "
               "therefore win (POD_IP, PADDLE_TRAINER_ID, TRAINING_ROLE, "
               "PADDLE_TRAINING_ROLE)."},
    {.name = "envFrom",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = open_item,
        .doc = "ConfigMaps and Secrets that become variables. In the first container the operator "
               "adds the job's ConfigMap, which holds the addresses of all pods."},
    {.name = "ports",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = port_fields,
        .anchor = "port",
        .doc = "Ports that the container listens on."},
    {.name = "resources",
        .type = CRD_OBJECT,
        .open = true,
        .fields = resource_fields,
        .anchor = "resources",
        .doc = "CPU, memory and devices of the container."},
    {.name = "volumeMounts",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = mount_fields,
        .anchor = "volumeMount",
        .doc = "Where volumes of the pod appear in the container."},
    {.name = "securityContext",
        .type = CRD_OBJECT,
        .open = true,
        .fields = open_item,
        .doc = "User, capabilities and the like of the container."},
    {0},
};

static const struct crd_field volume_fields[] = {
    {.name = "name",
        .type = CRD_STRING,
        .required = true,
        .doc = "Name that volumeMounts refer to. Beside it one field says what the volume is, as "
               "emptyDir, hostPath, configMap or persistentVolumeClaim."},
    {0},
};

static const struct crd_field pod_fields[] = {
    {.name = "containers",
        .type = CRD_OBJECT_LIST,
        .required = true,
        .open = true,
        .fields = container_fields,
        .anchor = "container",
        .doc = "Containers of the pod. The first one is the training: it gets the variables. A pod "
               "is over when all of these have ended; containers that a webhook adds do not "
               "count."},
    {.name = "initContainers",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = container_fields,
        .anchor = "container",
        .doc = "Containers that must succeed, one after the other, before the others start. The "
               "operator adds one that waits until the addresses of all pods are known."},
    {.name = "restartPolicy",
        .type = CRD_STRING,
        .doc = "Never, OnFailure or Always. Default: OnFailure for workers with intranet Service, "
               "else Never. Always OnFailure with elastic. Where the job has backoffLimit or "
               "failurePolicy, pods are made with Never, whatever is said here: the operator "
               "restarts the group, not kubelet a container."},
    {.name = "volumes",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = volume_fields,
        .anchor = "volume",
        .doc = "Volumes that containers may mount."},
    {.name = "nodeSelector",
        .type = CRD_STRING_MAP,
        .doc = "Labels that a node must have to get the pod."},
    {.name = "affinity",
        .type = CRD_OBJECT,
        .open = true,
        .fields = open_item,
        .doc = "Finer wishes for nodes, and for being near to or far from other pods."},
    {.name = "tolerations",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = open_item,
        .doc = "Taints of nodes that the pod accepts."},
    {.name = "schedulerName",
        .type = CRD_STRING,
        .doc = "Scheduler to use. volcano goes with schedulingPolicy."},
    {.name = "priorityClassName", .type = CRD_STRING, .doc = "PriorityClass of the pods."},
    {.name = "serviceAccountName",
        .type = CRD_STRING,
        .doc = "ServiceAccount that the training runs as. Training needs no rights in the "
               "cluster."},
    {.name = "imagePullSecrets",
        .type = CRD_OBJECT_LIST,
        .open = true,
        .fields = open_item,
        .doc = "Secrets with which images are pulled, each as name: <secret>."},
    {.name = "hostNetwork",
        .type = CRD_BOOLEAN,
        .doc = "Use the network of the node. Set by the operator with intranet Host; where "
               "intranet is "
               "PodIP, the job is one with intranet Host."},
    {.name = "dnsPolicy",
        .type = CRD_STRING,
        .doc = "How names are resolved. Pods on the network of their node need "
               "ClusterFirstWithHostNet to resolve names of Services."},
    {.name = "securityContext",
        .type = CRD_OBJECT,
        .open = true,
        .fields = open_item,
        .doc = "User, groups and the like of all containers."},
    {.name = "terminationGracePeriodSeconds",
        .type = CRD_INT64,
        .doc = "Seconds between the request to stop and the kill. Default 30."},
    {.name = "hostname",
        .type = CRD_STRING,
        .doc = "Ignored: the host name is the name of the pod."},
    {.name = "subdomain",
        .type = CRD_STRING,
        .doc = "Ignored: the subdomain is the name of the pod, with intranet DNS that of the job."},
    {0},
};

const struct crd_field crd_template_fields[] = {
    {.name = "metadata",
        .type = CRD_OBJECT,
        .open = true,
        .fields = metadata_fields,
        .anchor = "template.metadata",
        .doc = "Labels and annotations of the pods."},
    {.name = "spec",
        .type = CRD_OBJECT,
        .open = true,
        .fields = pod_fields,
        .anchor = "template.spec",
        .doc = "Containers, volumes and placement of the pods, as in a Pod."},
    {0},
};
