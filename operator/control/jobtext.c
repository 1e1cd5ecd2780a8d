/* The dictionary for the compression of jobs, and the two functions that use it. */
#include "operator/control/jobtext.h"

#include "operator/kube/text.h"

/* A typical job: the compressor's dictionary, so that of each job only the rest takes memory.
 * References to its end are the cheapest, so the most common parts stand there.  The compressed
 * form stays in memory, so the dictionary may change at any time. */
#define POD_TEMPLATE                                                                               \
    "\"template\":{\"metadata\":{\"annotations\":{},\"labels\":{}},\"spec\":{\"containers\":[{"    \
    "\"args\":[\"\"],\"command\":[\"sh\",\"-c\"],\"env\":[{\"name\":\"\",\"value\":\"\"}],"        \
    "\"image\":\"\",\"imagePullPolicy\":\"IfNotPresent\",\"name\":\"paddle\",\"resources\":{"      \
    "\"limits\":{\"cpu\":\"\",\"memory\":\"Gi\",\"nvidia.com/gpu\":\"1\"},\"requests\":{}},"       \
    "\"volumeMounts\":[{\"mountPath\":\"/\",\"name\":\"\"}]}],\"nodeSelector\":{},"                \
    "\"restartPolicy\":\"Never\",\"volumes\":[{\"emptyDir\":{\"medium\":\"Memory\"},\"name\":"     \
    "\"\"}]}}"
#define REF                                                                                        \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"-worker-\",\"namespace\":\"default\","     \
    "\"resourceVersion\":\"\",\"uid\":\"\"}"
#define CONDITION(type, reason)                                                                    \
    "{\"lastTransitionTime\":\"202\",\"message\":\"\",\"observedGeneration\":1,\"reason\":"        \
    "\"" reason "\",\"status\":\"True\",\"type\":\"" type "\"}"

static const char like[] =
    "{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":\"PaddleJob\",\"metadata\":{"
    "\"annotations\":{},\"creationTimestamp\":\"202\",\"generation\":1,\"labels\":{},\"name\":\"\","
    "\"namespace\":\"default\",\"resourceVersion\":\"\",\"uid\":\"\"},\"spec\":{"
    "\"cleanPodPolicy\":\"Never\",\"intranet\":\"PodIP\",\"ps\":{\"replicas\":1," POD_TEMPLATE "},"
    "\"withGloo\":1,\"worker\":{\"replicas\":2,\"template\":{\"spec\":{\"containers\":[{\"image\":"
    "\"\",\"name\":\"paddle\"}]}}}},\"status\":{\"completionTime\":\"202\",\"conditions\":"
    "[" CONDITION("Failed", "PodFailed") "," CONDITION("Created", "PodsCreated") "," CONDITION(
        "Running", "AllPodsRunning") "],\"message\":\"\",\"mode\":\"Collective\",\"mode\":\"PS\","
                                     "\"observedGeneration\":1,\"phase\":\"Pending\",\"phase\":"
                                     "\"Running\",\"ps\":{\"refs\":[" REF "],"
                                     "\"replicas\":1,\"running\":1},\"readyPS\":\"1/"
                                     "1\",\"readyWorker\":\"2/2\",\"restarts\":0,"
                                     "\"selector\":\"batch.paddlepaddle.org/"
                                     "job-name=,paddle-res-type=worker\",\"startTime\":\"202\","
                                     "\"worker\":{\"refs\":[" REF "," REF
                                     "],\"replicas\":2,\"running\":2}}}";

struct co_squeezed ctl_jobtext_keep(struct co_slab *slab, const char *text, size_t len) {
    size_t n;
    CO_AUTOFREE char *slim = kube_text_slim(text, len, &n);
    return co_squeeze(slab, slim, n, like);
}

char *ctl_jobtext_read(const struct co_squeezed *kept) {
    return co_unsqueeze(kept, like);
}
