/*
 * The part of a pod template that people write most, so that explain shows it and a wrong type
 * (a number as the value of a variable) is refused at once. Everything keeps unknown fields: the
 * cluster's own pod type decides what there is. Nothing here may be stricter than that type.
 */
#include "crd/crd.h"

static const struct crd_field open_item[] = {{0}};

static const struct crd_field metadata_fields[] = {
    {"labels", .type = CRD_STRING_MAP,
        .doc = "Labels of the pods. Those that the operator sets itself win."},
    {"annotations", .type = CRD_STRING_MAP,
        .doc = "Annotations of the pods. Those that the operator sets itself win."},
    {"finalizers", .type = CRD_STRING_LIST, .doc = "Finalizers of the pods."},
    {"name", .type = CRD_STRING, .doc = "Ignored: pods are named after job, role and number."},
    {"namespace", .type = CRD_STRING, .doc = "Ignored: pods are created where the job is."},
    {0},
};

static const struct crd_field env_fields[] = {
    {"name", .type = CRD_STRING, .required = true, .doc = "Name of the variable."},
    {"value", .type = CRD_STRING,
        .doc = "Value of the variable. Numbers and booleans need quotes, as \"8\"."},
    {"valueFrom", .type = CRD_OBJECT, .open = true, .fields = open_item,
        .doc = "Takes the value from a field of the pod, a ConfigMap or a Secret."},
    {0},
};

static const struct crd_field port_fields[] = {
    {"containerPort", .type = CRD_INT32, .required = true, .doc = "Number of the port."},
    {"name", .type = CRD_STRING, .doc = "Name of the port."},
    {"protocol", .type = CRD_STRING, .doc = "TCP (default), UDP or SCTP."},
    {0},
};

static const struct crd_field mount_fields[] = {
    {"name", .type = CRD_STRING, .required = true, .doc = "Name of a volume."},
    {"mountPath", .type = CRD_STRING, .required = true, .doc = "Path inside the container."},
    {"subPath", .type = CRD_STRING, .doc = "Path inside the volume."},
    {"readOnly", .type = CRD_BOOLEAN, .doc = "Mount without write access."},
    {0},
};

static const struct crd_field resource_fields[] = {
    {"limits", .type = CRD_QUANTITY_MAP,
        .doc = "The most that the container may use, as cpu: \"4\", memory: 8Gi, nvidia.com/gpu: "
               "1."},
    {"requests", .type = CRD_QUANTITY_MAP,
        .doc = "What the container is sure to get, by which it is placed. Default: the limits."},
    {0},
};

static const struct crd_field container_fields[] = {
    {"name", .type = CRD_STRING, .required = true, .doc = "Name of the container."},
    {"image", .type = CRD_STRING, .doc = "Image to run."},
    {"imagePullPolicy", .type = CRD_STRING,
        .doc = "Always, IfNotPresent or Never. Default: Always for the tag latest, else "
               "IfNotPresent."},
    {"command", .type = CRD_STRING_LIST,
        .doc = "Program and arguments in place of the image's entry point."},
    {"args", .type = CRD_STRING_LIST, .doc = "Arguments in place of those of the image."},
    {"workingDir", .type = CRD_STRING, .doc = "Directory to start in."},
    {"env", .type = CRD_OBJECT_LIST, .open = true, .fields = env_fields, .anchor = "env",
        .doc = "Variables. In the first container the operator adds its own after them, which "
               "therefore win (POD_IP, PADDLE_TRAINER_ID, TRAINING_ROLE, "
               "PADDLE_TRAINING_ROLE)."},
    {"envFrom", .type = CRD_OBJECT_LIST, .open = true, .fields = open_item,
        .doc = "ConfigMaps and Secrets that become variables. In the first container the operator "
               "adds the job's ConfigMap, which holds the addresses of all pods."},
    {"ports", .type = CRD_OBJECT_LIST, .open = true, .fields = port_fields, .anchor = "port",
        .doc = "Ports that the container listens on."},
    {"resources", .type = CRD_OBJECT, .open = true, .fields = resource_fields,
        .anchor = "resources", .doc = "CPU, memory and devices of the container."},
    {"volumeMounts", .type = CRD_OBJECT_LIST, .open = true, .fields = mount_fields,
        .anchor = "volumeMount", .doc = "Where volumes of the pod appear in the container."},
    {"securityContext", .type = CRD_OBJECT, .open = true, .fields = open_item,
        .doc = "User, capabilities and the like of the container."},
    {0},
};

static const struct crd_field volume_fields[] = {
    {"name", .type = CRD_STRING, .required = true,
        .doc = "Name that volumeMounts refer to. Beside it one field says what the volume is, as "
               "emptyDir, hostPath, configMap or persistentVolumeClaim."},
    {0},
};

static const struct crd_field pod_fields[] = {
    {"containers", .type = CRD_OBJECT_LIST, .required = true, .open = true,
        .fields = container_fields, .anchor = "container",
        .doc = "Containers of the pod. The first one is the training: it gets the variables. A pod "
               "is over when all of these have ended; containers that a webhook adds do not "
               "count."},
    {"initContainers", .type = CRD_OBJECT_LIST, .open = true, .fields = container_fields,
        .anchor = "container",
        .doc = "Containers that must succeed, one after the other, before the others start. The "
               "operator adds one that waits until the addresses of all pods are known."},
    {"restartPolicy", .type = CRD_STRING,
        .doc = "Never, OnFailure or Always. Default: OnFailure for workers with intranet Service, "
               "else Never. Always OnFailure with elastic. Where the job has backoffLimit or "
               "failurePolicy, pods are made with Never, whatever is said here: the operator "
               "restarts the group, not kubelet a container."},
    {"volumes", .type = CRD_OBJECT_LIST, .open = true, .fields = volume_fields, .anchor = "volume",
        .doc = "Volumes that containers may mount."},
    {"nodeSelector", .type = CRD_STRING_MAP, .doc = "Labels that a node must have to get the pod."},
    {"affinity", .type = CRD_OBJECT, .open = true, .fields = open_item,
        .doc = "Finer wishes for nodes, and for being near to or far from other pods."},
    {"tolerations", .type = CRD_OBJECT_LIST, .open = true, .fields = open_item,
        .doc = "Taints of nodes that the pod accepts."},
    {"schedulerName", .type = CRD_STRING,
        .doc = "Scheduler to use. volcano goes with schedulingPolicy."},
    {"priorityClassName", .type = CRD_STRING, .doc = "PriorityClass of the pods."},
    {"serviceAccountName", .type = CRD_STRING,
        .doc = "ServiceAccount that the training runs as. Training needs no rights in the "
               "cluster."},
    {"imagePullSecrets", .type = CRD_OBJECT_LIST, .open = true, .fields = open_item,
        .doc = "Secrets with which images are pulled, each as name: <secret>."},
    {"hostNetwork", .type = CRD_BOOLEAN,
        .doc = "Use the network of the node. Set by the operator with intranet Host; where "
               "intranet is "
               "PodIP, the job is one with intranet Host."},
    {"dnsPolicy", .type = CRD_STRING,
        .doc = "How names are resolved. Pods on the network of their node need "
               "ClusterFirstWithHostNet to resolve names of Services."},
    {"securityContext", .type = CRD_OBJECT, .open = true, .fields = open_item,
        .doc = "User, groups and the like of all containers."},
    {"terminationGracePeriodSeconds", .type = CRD_INT64,
        .doc = "Seconds between the request to stop and the kill. Default 30."},
    {"hostname", .type = CRD_STRING, .doc = "Ignored: the host name is the name of the pod."},
    {"subdomain", .type = CRD_STRING,
        .doc = "Ignored: the subdomain is the name of the pod, with intranet DNS that of the job."},
    {0},
};

const struct crd_field crd_template_fields[] = {
    {"metadata", .type = CRD_OBJECT, .open = true, .fields = metadata_fields,
        .anchor = "template.metadata", .doc = "Labels and annotations of the pods."},
    {"spec", .type = CRD_OBJECT, .open = true, .fields = pod_fields, .anchor = "template.spec",
        .doc = "Containers, volumes and placement of the pods, as in a Pod."},
    {0},
};
