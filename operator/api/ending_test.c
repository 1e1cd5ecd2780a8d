/* Real statuses of pods, and what each means.  Rows marked R were recorded from kubelet 1.35.4 with
 * containerd; the others have the texts of its source, as these ends take a whole machine. */
#include "operator/api/ending.h"

#include "operator/api/api_testing.h"

struct row {
    const char *what, *meta, *spec, *status;
    enum api_pod_phase phase;
    enum api_blame blame;
    const char *container, *reason, *message; /* "": none */
    int32_t code;
    bool repeats, runs_on;
    enum api_again again;
    uint8_t probes;
    bool unstarted;
};

/* The training is "main", beside it the template has "ship"; a webhook adds "proxy". */
#define OWN(...) "'annotations':{'batch.paddlepaddle.org/containers':'" __VA_ARGS__ "'}"
#define MAIN "'containers':[{'name':'main'}]"
#define BOTH "'containers':[{'name':'main'},{'name':'ship'}]"
#define PROXIED "'containers':[{'name':'proxy'},{'name':'main'}]"
#define SIDECAR "'initContainers':[{'name':'a','restartPolicy':'Always'}],"
#define NEVER "'restartPolicy':'Never'"
#define ON_FAILURE "'restartPolicy':'OnFailure'"
/* One that stops its container 7 seconds after its start at the soonest. */
#define PROBED(probe)                                                                              \
    "'containers':[{'name':'main','" probe                                                         \
    "':{'initialDelaySeconds':4,'periodSeconds':4,'failureThreshold':2}}]"
#define RULED(name, policy, word, codes)                                                           \
    "{'name':'" name "','restartPolicy':'" policy "','restartPolicyRules':[{'action':'Restart',"   \
    "'exitCodes':{'operator':'" word "','values':[" codes "]}}]}"
#define T(s) "2026-11-26T21:15:" s "Z"
#define GRACE(s, n) "'deletionTimestamp':'" T(s) "','deletionGracePeriodSeconds':" n
#define ENDS(code, at, why, said)                                                                  \
    "'terminated':{'exitCode':" code ",'finishedAt':" at ",'reason':'" why "','message':'" said "'}"
#define AT(s) "'" T(s) "'"
#define ENDED(name, code, at) "{'name':'" name "','state':{" ENDS(code, AT(at), "Error", "") "}}"
#define LIVED(state, code, why, from, upto)                                                        \
    "{'name':'main'," state ":{'terminated':{'exitCode':" code ",'reason':'" why                   \
    "','startedAt':'" T(from) "','finishedAt':'" T(upto) "'}}}"
#define DONE(name, at) "{'name':'" name "','state':{" ENDS("0", AT(at), "Completed", "") "}}"
#define RUNS(name) "{'name':'" name "','ready':true,'state':{'running':{}}}"
#define WAITS(name, why, said)                                                                     \
    "{'name':'" name "','state':{'waiting':{'reason':'" why "','message':'" said "'}}}"
#define AGAIN(name, now, code, at)                                                                 \
    "{'name':'" name "','restartCount':3,'state':{" now                                            \
    "},'lastState':{" ENDS(code, AT(at), "Error", "no data") "}}"
#define BACKS_OFF "'waiting':{'reason':'CrashLoopBackOff','message':'back-off 40s restarting'}"
#define C(...) "'containerStatuses':[" __VA_ARGS__ "]"
#define I(...) "'initContainerStatuses':[" __VA_ARGS__ "]"
#define GATE "{'name':'coord-paddle','state':{" ENDS("0", AT("01"), "Completed", "") "}}"
#define FAILED "'phase':'Failed',"
#define RUNNING "'phase':'Running',"
#define PENDING "'phase':'Pending',"
#define WHY(reason, message) FAILED "'reason':'" reason "','message':'" message "',"
#define TARGET(why, said, at)                                                                      \
    "'conditions':[{'type':'DisruptionTarget','status':'True','reason':'" why "','message':'" said \
    "','lastTransitionTime':'" T(at) "'}],"
#define BY_KUBELET(said, at) TARGET("TerminationByKubelet", said, at)
#define LOW "The node was low on resource: memory. "
#define NO_PLACE "Container could not be located when the pod was terminated"
#define LOST_STATE                                                                                 \
    "{'name':'main','restartCount':1,'state':{" ENDS(                                              \
        "137", "null", "ContainerStatusUnknown", NO_PLACE) "}}"
#define LOST_AGAIN(now, code, at, why)                                                             \
    "{'name':'main','restartCount':1,'state':{" now "},'lastState':{" ENDS(code, at, why, "") "}}"
#define SHIM_LATE                                                                                  \
    "failed to create containerd task: failed to create shim task: context deadline exceeded: "    \
    "unknown"
#define UNSTARTED(name)                                                                            \
    "{'name':'" name "','state':{" ENDS("128", AT("47"), "StartError", SHIM_LATE) "}}"
#define REJECTED(why, said) WHY(why, "Pod was rejected: " said) "'qosClass':'BestEffort'"

#define NOBODY API_BLAME_NOBODY
#define PROGRAM API_BLAME_PROGRAM
#define NODE API_BLAME_NODE
#define USER API_BLAME_USER

static const struct row rows[] = {
    /* ---- the program's doing ---- */
    {"R exit code", "", NEVER "," MAIN, FAILED C(ENDED("main", "3", "31")), API_POD_FAILED, PROGRAM,
        "main", "Error", "", 3},
    {"R SIGKILL from inside the pod", "", NEVER "," MAIN, FAILED C(ENDED("main", "137", "31")),
        API_POD_FAILED, PROGRAM, "main", "Error", "", 137},
    {"R out of memory", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("137", AT("45"), "OOMKilled", "") "}}"),
        API_POD_FAILED, PROGRAM, "main", "OOMKilled", "", 137},
    {"R a child out of memory, exit code of the program", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("4", AT("44"), "OOMKilled", "") "}}"),
        API_POD_FAILED, PROGRAM, "main", "OOMKilled", "", 4},
    {"a child out of memory, the program goes on to its end", "", NEVER "," MAIN,
        "'phase':'Succeeded'," C(
            "{'name':'main','state':{" ENDS("0", AT("44"), "OOMKilled", "") "}}"),
        API_POD_SUCCEEDED, NOBODY, "", "", "", -1},
    {"R an init container out of memory", "", NEVER ",'initContainers':[{'name':'load'}]," MAIN,
        FAILED I("{'name':'load','state':{" ENDS("137", AT("42"), "OOMKilled", "") "}}") "," C(
            WAITS("main", "PodInitializing", "")),
        API_POD_FAILED, PROGRAM, "load", "OOMKilled", "", 137},
    {"R an init container failed", "", NEVER ",'initContainers':[{'name':'load'}]," MAIN,
        FAILED I(ENDED("load", "4", "46")) "," C(WAITS("main", "PodInitializing", "")),
        API_POD_FAILED, PROGRAM, "load", "Error", "", 4},
    {"R no such command", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("128", AT("47"), "StartError",
            "exec: \\\"/x\\\": stat /x: no such file or directory: unknown") "}}"),
        API_POD_FAILED, PROGRAM, "main", "StartError", "no such file", 128},
    {"R the same, in the words of all layers", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("128", AT("47"), "StartError",
            "failed to create containerd task: failed to create shim task: OCI runtime create "
            "failed: runc create failed: unable to start container process: exec: \\\"sh\\\": "
            "executable file not found in $PATH") "}}"),
        API_POD_FAILED, PROGRAM, "main", "StartError", "exec: \"sh\": executable file not found",
        128},
    {"the same with crun", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("128", AT("47"), "StartError",
            "container create failed: open executable: Permission denied") "}}"),
        API_POD_FAILED, PROGRAM, "main", "StartError", "open executable", 128},
    {"the same with Docker", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS(
            "127", AT("47"), "ContainerCannotRun", "not found") "}}"),
        API_POD_FAILED, PROGRAM, "main", "ContainerCannotRun", "not found", 127},
    {"R liveness probe, program ends by itself", "", NEVER "," PROBED("livenessProbe"),
        FAILED C(ENDED("main", "15", "53")), API_POD_FAILED, PROGRAM, "main", "Error", "", 15},
    {"R liveness probe, after the grace period", "", NEVER "," PROBED("livenessProbe"),
        FAILED C(LIVED("'state'", "137", "Error", "41", "55")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 137, .probes = API_PROBE_LIVENESS},
    {"R liveness probe, by SIGTERM", "", NEVER "," PROBED("livenessProbe"),
        FAILED C(LIVED("'state'", "143", "Error", "41", "50")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 143, .probes = API_PROBE_LIVENESS},
    {"R startup probe, by SIGTERM", "", NEVER "," PROBED("startupProbe"),
        FAILED C(LIVED("'state'", "143", "Error", "41", "49")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 143, .probes = API_PROBE_STARTUP},
    {"sooner than its probe could have failed", "", NEVER "," PROBED("livenessProbe"),
        FAILED C(LIVED("'state'", "137", "Error", "41", "47")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 137},
    {"when it began is unknown", "", NEVER "," PROBED("livenessProbe"),
        FAILED C(ENDED("main", "137", "55")), API_POD_FAILED, PROGRAM, "main", "Error", "", 137,
        .probes = API_PROBE_LIVENESS},
    {"R only a readiness probe", "", NEVER "," PROBED("readinessProbe"),
        FAILED C(LIVED("'state'", "137", "Error", "41", "55")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 137},
    {"a probe, and out of memory", "", NEVER "," PROBED("livenessProbe"),
        FAILED C(LIVED("'state'", "137", "OOMKilled", "41", "55")), API_POD_FAILED, PROGRAM, "main",
        "OOMKilled", "", 137},
    {"a probe, and the pod's own deadline", "", NEVER "," PROBED("livenessProbe"),
        WHY("DeadlineExceeded", "Pod was active") C(LIVED("'state'", "137", "Error", "41", "55")),
        API_POD_FAILED, PROGRAM, "main", "DeadlineExceeded", "Pod was active", 137},
    {"a probe, and the node is drained", "", NEVER "," PROBED("livenessProbe"),
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "54")
            C(LIVED("'state'", "143", "Error", "41", "55")),
        API_POD_FAILED, NODE, "main", "EvictionByEvictionAPI", "Eviction API", 143},
    {"a probe, and somebody deletes the pod", GRACE("59", "30"), NEVER "," PROBED("livenessProbe"),
        FAILED C(LIVED("'state'", "143", "Error", "21", "30")), API_POD_FAILED, USER, "main",
        "Error", "", 143},
    {"R a probe stops it again and again", OWN("main"), ON_FAILURE "," PROBED("livenessProbe"),
        RUNNING C(LIVED("'state':{'running':{}},'lastState'", "137", "Error", "41", "55")),
        API_POD_RUNNING, PROGRAM, "main", "Error", "", 137, .repeats = true,
        .again = API_AGAIN_RUNS, .probes = API_PROBE_LIVENESS},
    {"R the pod's own deadline", "", NEVER "," MAIN,
        WHY("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            C(ENDED("main", "137", "51")),
        API_POD_FAILED, PROGRAM, "main", "DeadlineExceeded", "Pod was active", 137},
    {"R its own emptyDir is over its limit", "", NEVER "," MAIN,
        WHY("Evicted", "Usage of EmptyDir volume \\\"s\\\" exceeds the limit \\\"1Mi\\\". ")
            C(LOST_STATE),
        API_POD_FAILED, PROGRAM, "main", "Evicted", "Usage of EmptyDir volume \"s\"", 137},
    {"R its own ephemeral storage", "", NEVER "," MAIN,
        WHY("Evicted",
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ")
            C(ENDED("main", "137", "08")),
        API_POD_FAILED, PROGRAM, "main", "Evicted", "Pod ephemeral local storage", 137},
    {"ephemeral storage of one container", "", NEVER "," MAIN,
        WHY("Evicted", "Container main exceeded its local ephemeral storage limit \\\"5Mi\\\". ")
            C(ENDED("main", "137", "08")),
        API_POD_FAILED, PROGRAM, "main", "Evicted", "Container main exceeded", 137},
    {"R a forbidden sysctl, on every node", "", NEVER "," MAIN,
        REJECTED("SysctlForbidden", "forbidden sysctl: \\\"net.core.somaxconn\\\" not allowlisted"),
        API_POD_FAILED, PROGRAM, "", "SysctlForbidden", "Pod was rejected", -1},
    {"R AppArmor is not there", "", NEVER "," MAIN,
        REJECTED("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        API_POD_FAILED, PROGRAM, "", "AppArmor", "Pod was rejected", -1},
    {"R another operating system", "", NEVER "," MAIN,
        REJECTED("PodOSNotSupported", "Failed to admit pod"), API_POD_FAILED, PROGRAM, "",
        "PodOSNotSupported", "Pod was rejected", -1},
    {"it failed by itself, then its node was drained", "", NEVER "," BOTH,
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "40")
            C(ENDED("main", "3", "31") "," ENDED("ship", "143", "41")),
        API_POD_FAILED, PROGRAM, "main", "Error", "", 3},
    {"it failed by itself, then somebody deleted it", GRACE("59", "19"), NEVER "," MAIN,
        FAILED C(ENDED("main", "3", "31")), API_POD_FAILED, PROGRAM, "main", "Error", "", 3},
    /* ---- the node's doing ---- */
    {"memory of the node", "", NEVER "," MAIN,
        WHY("Evicted", LOW) BY_KUBELET(LOW, "30") C(ENDED("main", "137", "31")), API_POD_FAILED,
        NODE, "main", "Evicted", "The node was low", 137},
    {"memory of the node, Kubernetes 1.25", "", NEVER "," MAIN,
        WHY("Evicted", LOW) C(ENDED("main", "137", "31")), API_POD_FAILED, NODE, "main", "Evicted",
        "The node was low", 137},
    {"disk of the node, and its containers are gone", "", NEVER "," MAIN,
        WHY("Evicted", "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, "
                       "available: 9Mi. Container main was using 2Gi, request is 0, has larger "
                       "consumption of ephemeral-storage. ")
            BY_KUBELET("The node was low on resource: ephemeral-storage.", "30") C(LOST_STATE),
        API_POD_FAILED, NODE, "main", "Evicted", "The node was low", 137},
    {"refused while the node is short of disk", "", NEVER "," MAIN,
        REJECTED("Evicted", "The node had condition: [DiskPressure]. "), API_POD_FAILED, NODE, "",
        "Evicted", "Pod was rejected", -1},
    {"R drained, the launcher ends with 15", GRACE("31", "30"), NEVER "," MAIN,
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "01")
            C(ENDED("main", "15", "06")),
        API_POD_FAILED, NODE, "main", "EvictionByEvictionAPI", "Eviction API", 15},
    {"R preempted by the scheduler", GRACE("09", "0"), NEVER "," MAIN,
        FAILED TARGET("PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod", "04")
            C(ENDED("main", "143", "06")),
        API_POD_FAILED, NODE, "main", "PreemptionByScheduler", "default-scheduler", 143},
    {"R a taint", GRACE("08", "0"), NEVER "," MAIN,
        FAILED TARGET("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint",
            "04") C(ENDED("main", "143", "04")),
        API_POD_FAILED, NODE, "main", "DeletionByTaintManager", "Taint manager", 143},
    {"the clock of its node is a second late", "", NEVER "," MAIN,
        FAILED TARGET("PreemptionByScheduler", "preempting", "05") C(ENDED("main", "143", "04")),
        API_POD_FAILED, NODE, "main", "PreemptionByScheduler", "preempting", 143},
    {"preempted by kubelet for a critical pod", "", NEVER "," MAIN,
        WHY("Preempting", "Preempted in order to admit critical pod")
            BY_KUBELET("Pod was preempted by Kubelet to accommodate a critical pod.", "30")
                C(ENDED("main", "143", "31")),
        API_POD_FAILED, NODE, "main", "Preempting", "Preempted", 143},
    {"graceful shutdown of the node", "", NEVER "," MAIN,
        WHY("Terminated", "Pod was terminated in response to imminent node shutdown.")
            BY_KUBELET("Pod was terminated in response to imminent node shutdown.", "30")
                C(ENDED("main", "143", "31")),
        API_POD_FAILED, NODE, "main", "Terminated", "Pod was terminated", 143},
    {"the same, Kubernetes 1.21", "", NEVER "," MAIN,
        WHY("Shutdown", "Node is shutting, evicting pods") C(ENDED("main", "143", "31")),
        API_POD_FAILED, NODE, "main", "Shutdown", "Node is shutting", 143},
    {"refused by a node that shuts down", "", NEVER "," MAIN,
        REJECTED("NodeShutdown", "Pod was rejected as the node is shutting down."), API_POD_FAILED,
        NODE, "", "NodeShutdown", "Pod was rejected", -1},
    {"pod garbage collection: its node is gone", "", NEVER "," MAIN,
        FAILED TARGET("DeletionByPodGC", "PodGC: node no longer exists", "30") C(RUNS("main")),
        API_POD_FAILED, NODE, "", "DeletionByPodGC", "PodGC: node", -1},
    {"the node was rebooted, containerd does not know how it ended", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("255", AT("31"), "Unknown", "") "}}"),
        API_POD_FAILED, NODE, "main", "Unknown", "", 255},
    {"the node was rebooted, kubelet does not find the container", "", NEVER "," MAIN,
        FAILED C(LOST_STATE), API_POD_FAILED, NODE, "main", "ContainerStatusUnknown", "", 137},
    {"R no cpu left when kubelet looked", "", NEVER "," MAIN,
        REJECTED("OutOfcpu", "requested: 1000000, used: "
                             "1540, capacity: 2000"),
        API_POD_FAILED, NODE, "", "OutOfcpu", "Pod was rejected", -1},
    {"the GPUs are taken", "", NEVER "," MAIN,
        REJECTED("OutOfnvidia.com/gpu", "requested: 8, used: 8, capacity: 8"), API_POD_FAILED, NODE,
        "", "OutOfnvidia.com/gpu", "Pod was rejected", -1},
    {"R the node's labels changed", "", NEVER "," MAIN,
        REJECTED("NodeAffinity", "Predicate NodeAffinity failed"), API_POD_FAILED, NODE, "",
        "NodeAffinity", "Pod was rejected", -1},
    {"the device plugin was restarted", "", NEVER "," MAIN,
        REJECTED("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present"),
        API_POD_FAILED, NODE, "", "UnexpectedAdmissionError", "Pod was rejected", -1},
    {"no room for it on one NUMA node", "", NEVER "," MAIN,
        REJECTED("TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
        API_POD_FAILED, NODE, "", "TopologyAffinityError", "Pod was rejected", -1},
    {"a refusal that a later Kubernetes invents", "", NEVER "," MAIN,
        REJECTED("NewWord", "so it is"), API_POD_FAILED, NODE, "", "NewWord", "Pod was rejected",
        -1},
    {"Kueue stops it", GRACE("59", "30"), NEVER "," MAIN,
        FAILED "'conditions':[{'type':'TerminationTarget','status':'True','reason':'StoppedByKueue'"
               ",'message':'Preempted','lastTransitionTime':'2026-11-26T21:15:29Z'}]," C(
                   ENDED("main", "143", "31")),
        API_POD_FAILED, NODE, "main", "StoppedByKueue", "Preempted", 143},
    {"R eviction in progress", GRACE("31", "30"), NEVER "," MAIN,
        RUNNING TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "01") C(RUNS("main")),
        API_POD_RUNNING, NODE, "", "EvictionByEvictionAPI", "Eviction API", -1},
    {"an eviction that did not come about", "", NEVER "," MAIN,
        RUNNING "'conditions':[{'type':'DisruptionTarget','status':'False','reason':"
                "'PreemptionByScheduler'}]," C(RUNS("main")),
        API_POD_RUNNING, NOBODY, "", "", "", -1},
    {"containerd waits in vain for the gate's shim", "",
        NEVER ",'initContainers':[{'name':'g'}]," MAIN,
        FAILED I(UNSTARTED("g")) "," C(WAITS("main", "PodInitializing", "")), API_POD_FAILED, NODE,
        "g", "StartError", "deadline exceeded", 128, .unstarted = true},
    {"a process of the sandbox is not there", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS("128", AT("47"), "StartError",
            "OCI runtime create failed: runc create failed: namespace path: lstat /proc/0/ns/ipc: "
            "no such file or directory") "}}"),
        API_POD_FAILED, NODE, "main", "StartError", "lstat /proc/0/ns/ipc", 128, .unstarted = true},
    {"the same with Docker", "", NEVER "," MAIN,
        FAILED C("{'name':'main','state':{" ENDS(
            "128", AT("47"), "ContainerCannotRun", "context deadline exceeded") "}}"),
        API_POD_FAILED, NODE, "main", "ContainerCannotRun", "deadline exceeded", 128,
        .unstarted = true},
    {"it was not started, then its node was drained", "", NEVER "," MAIN,
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "55") C(UNSTARTED("main")),
        API_POD_FAILED, NODE, "main", "StartError", "deadline exceeded", 128, .unstarted = true},
    {"it was drained, and not started", "", NEVER "," MAIN,
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "40") C(UNSTARTED("main")),
        API_POD_FAILED, NODE, "main", "EvictionByEvictionAPI", "Eviction API", 128},
    /* ---- the user's doing ---- */
    {"R deleted, it runs on for its grace period", GRACE("31", "30"), NEVER "," MAIN,
        RUNNING C(RUNS("main")), API_POD_RUNNING, USER, "", "", "", -1},
    {"R deleted, and ended by SIGTERM", GRACE("31", "30"), NEVER "," MAIN,
        FAILED C(ENDED("main", "143", "06")), API_POD_FAILED, USER, "main", "Error", "", 143},
    {"R the same, when kubelet is done and a finalizer keeps it", GRACE("11", "0"), NEVER "," MAIN,
        FAILED C(ENDED("main", "143", "06")), API_POD_FAILED, USER, "main", "Error", "", 143},
    /* ---- several containers ---- */
    {"the first by time, not by name", "", NEVER "," BOTH,
        FAILED C(ENDED("main", "1", "49") "," ENDED("ship", "8", "44")), API_POD_FAILED, PROGRAM,
        "ship", "Error", "", 8},
    {"in the same second the training", OWN("main,ship"), NEVER "," BOTH,
        FAILED C(ENDED("ship", "8", "49") "," ENDED("main", "7", "49")), API_POD_FAILED, PROGRAM,
        "main", "Error", "", 7},
    {"R a native sidecar is stopped after the training", OWN("main"), NEVER "," SIDECAR MAIN,
        FAILED I(ENDED("a", "143", "54")) "," C(ENDED("main", "5", "51")), API_POD_FAILED, PROGRAM,
        "main", "Error", "", 5},
    {"the same within a second", OWN("main"), NEVER "," SIDECAR MAIN,
        FAILED I(ENDED("a", "143", "51")) "," C(ENDED("main", "5", "51")), API_POD_FAILED, PROGRAM,
        "main", "Error", "", 5},
    {"R a native sidecar in a crash loop, then the training fails", OWN("main"),
        NEVER "," SIDECAR MAIN, FAILED I(ENDED("a", "4", "41")) "," C(ENDED("main", "6", "51")),
        API_POD_FAILED, PROGRAM, "main", "Error", "", 6},
    {"the same, and the node is drained", OWN("main"), NEVER "," SIDECAR MAIN,
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "50")
            I(ENDED("a", "4", "41")) "," C(ENDED("main", "143", "51")),
        API_POD_FAILED, NODE, "main", "EvictionByEvictionAPI", "Eviction API", 143},
    {"the same, and the training ends with 0 because of that", OWN("main"), NEVER "," SIDECAR MAIN,
        FAILED TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "50")
            I(ENDED("a", "4", "41")) "," C(DONE("main", "51")),
        API_POD_FAILED, NODE, "", "EvictionByEvictionAPI", "Eviction API", -1},
    {"R sidecars are stopped after the training, one ends with an error", OWN("main"),
        NEVER "," SIDECAR MAIN, RUNNING I(ENDED("a", "9", "52")) "," C(DONE("main", "51")),
        API_POD_RUNNING, NOBODY, "main", "", "", 0},
    {"R the same, and it ends with 0", OWN("main"), NEVER "," SIDECAR MAIN,
        RUNNING I(DONE("a", "52")) "," C(DONE("main", "51")), API_POD_RUNNING, NOBODY, "main", "",
        "", 0},
    {"the training is started again, and so is its sidecar", OWN("main"),
        ON_FAILURE "," SIDECAR MAIN,
        RUNNING I(ENDED("a", "9", "52")) "," C(ENDED("main", "5", "51")), API_POD_RUNNING, PROGRAM,
        "main", "Error", "", 5, .repeats = true, .again = API_AGAIN_WAITS},
    {"an ephemeral container is nobody's failure", OWN("main"), NEVER "," MAIN,
        FAILED C(ENDED("main", "5", "51")) ",'ephemeralContainerStatuses':[" ENDED(
            "debug", "1", "01") "]",
        API_POD_FAILED, PROGRAM, "main", "Error", "", 5},
    {"R the training has ended well, a sidecar of the template runs on", OWN("main,ship"),
        NEVER "," BOTH, RUNNING C(DONE("main", "31") "," RUNS("ship")), API_POD_RUNNING, NOBODY,
        "main", "", "", 0},
    {"R the training has failed, a sidecar of the template runs on", OWN("main,ship"),
        NEVER "," BOTH, RUNNING C(ENDED("main", "7", "31") "," RUNS("ship")), API_POD_RUNNING,
        NOBODY, "main", "Error", "", 7},
    /* ---- containers of webhooks ---- */
    {"a proxy first: the training has ended well", OWN("main"), NEVER "," PROXIED,
        RUNNING C(DONE("main", "31") "," RUNS("proxy")), API_POD_SUCCEEDED, NOBODY, "", "", "", -1,
        .runs_on = true},
    {"R a proxy first: the training has failed", OWN("main"), NEVER "," PROXIED,
        RUNNING C(ENDED("main", "7", "55") "," RUNS("proxy")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 7, .runs_on = true},
    {"a proxy last: one of two has not ended yet", OWN("main,ship"),
        NEVER ",'containers':[{'name':'main'},{'name':'ship'},{'name':'proxy'}]",
        RUNNING C(DONE("main", "31") "," RUNS("proxy") "," RUNS("ship")), API_POD_RUNNING, NOBODY,
        "main", "", "", 0},
    {"a proxy that is stopped with 143 after the training", OWN("main"), NEVER "," PROXIED,
        FAILED C(DONE("main", "31") "," ENDED("proxy", "143", "40")), API_POD_SUCCEEDED, NOBODY, "",
        "", "", -1},
    {"a proxy that failed before the training", OWN("main"), NEVER "," PROXIED,
        FAILED C(ENDED("main", "1", "31") "," ENDED("proxy", "2", "30")), API_POD_FAILED, PROGRAM,
        "proxy", "Error", "", 2},
    {"a proxy first, and the training is started again", OWN("main"), ON_FAILURE "," PROXIED,
        RUNNING C(ENDED("main", "7", "31") "," RUNS("proxy")), API_POD_RUNNING, PROGRAM, "main",
        "Error", "", 7, .repeats = true, .again = API_AGAIN_WAITS},
    {"a proxy first, and the training ends with 0 because it is evicted", OWN("main"),
        NEVER "," PROXIED,
        RUNNING TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "30")
            C(DONE("main", "31") "," RUNS("proxy")),
        API_POD_RUNNING, NODE, "", "EvictionByEvictionAPI", "Eviction API", -1},
    {"a proxy first, the training had ended with 0 before the eviction", OWN("main"),
        NEVER "," PROXIED,
        RUNNING TARGET("EvictionByEvictionAPI", "Eviction API: evicting", "30")
            C(DONE("main", "21") "," RUNS("proxy")),
        API_POD_SUCCEEDED, NOBODY, "", "", "", -1, .runs_on = true},
    /* ---- containers that are started again ---- */
    {"R a crash loop", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(AGAIN("main", BACKS_OFF, "3", "19")), API_POD_RUNNING, PROGRAM, "main", "Error",
        "no data", 3, .repeats = true, .again = API_AGAIN_WAITS},
    {"R a crash loop between two starts", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(AGAIN("main", ENDS("9", AT("32"), "Error", "now"), "3", "19")), API_POD_RUNNING,
        PROGRAM, "main", "Error", "now", 9, .repeats = true, .again = API_AGAIN_WAITS},
    {"R an init container in a crash loop", OWN("main"),
        ON_FAILURE ",'initContainers':[{'name':'load'}]," MAIN,
        PENDING I(AGAIN("load", BACKS_OFF, "3", "20")) "," C(WAITS("main", "PodInitializing", "")),
        API_POD_PENDING, PROGRAM, "load", "Error", "no data", 3, .repeats = true,
        .again = API_AGAIN_WAITS},
    {"R a container's own restartPolicy", OWN("main"),
        NEVER ",'containers':[{'name':'main','restartPolicy':'OnFailure'}]",
        RUNNING C(AGAIN("main", ENDS("3", AT("32"), "Error", ""), "3", "19")), API_POD_RUNNING,
        PROGRAM, "main", "Error", "", 3, .repeats = true, .again = API_AGAIN_WAITS},
    /* ---- rules of containers: a code that one names is no failure, any other is as without ----
     */
    {"R a rule has restarted it", OWN("main"),
        NEVER ",'containers':[" RULED("main", "Never", "In", "41,42") "]",
        RUNNING C(AGAIN("main", "'running':{}", "42", "19")), API_POD_RUNNING, NOBODY, "main",
        "Error", "no data", 42, .again = API_AGAIN_RUNS},
    {"R a rule will restart it", OWN("main"),
        NEVER ",'containers':[" RULED("main", "Never", "In", "41,42") "]",
        RUNNING C(ENDED("main", "42", "19")), API_POD_RUNNING, NOBODY, "main", "Error", "", 42,
        .again = API_AGAIN_WAITS},
    {"R the container beside it has no rule, and a policy of its own", OWN("main,ship"),
        NEVER ",'containers':[" RULED("main", "Never", "In", "42") ",{'name':'ship',"
                                                                   "'restartPolicy':'OnFailure'}]",
        RUNNING C(RUNS("main") "," AGAIN("ship", BACKS_OFF, "5", "19")), API_POD_RUNNING, PROGRAM,
        "ship", "Error", "no data", 5, .repeats = true, .again = API_AGAIN_WAITS},
    {"its policy restarts it for a code that its rules leave out", OWN("main"),
        NEVER ",'containers':[" RULED("main", "OnFailure", "NotIn", "0,3") "]",
        RUNNING C(AGAIN("main", "'running':{}", "3", "19")), API_POD_RUNNING, PROGRAM, "main",
        "Error", "no data", 3, .repeats = true, .again = API_AGAIN_RUNS},
    {"a proxy runs on, and no rule restarts the training", OWN("main"),
        NEVER ",'containers':[" RULED("main", "Never", "In", "42") ",{'name':'proxy'}]",
        RUNNING C(ENDED("main", "3", "19") "," RUNS("proxy")), API_POD_FAILED, PROGRAM, "main",
        "Error", "", 3, .runs_on = true},
    {"a proxy runs on, and a rule restarts the training", OWN("main"),
        NEVER ",'containers':[" RULED("main", "Never", "In", "3") ",{'name':'proxy'}]",
        RUNNING C(ENDED("main", "3", "19") "," RUNS("proxy")), API_POD_RUNNING, NOBODY, "main",
        "Error", "", 3, .again = API_AGAIN_WAITS},
    {"it runs again", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(AGAIN("main", "'running':{}", "3", "19")), API_POD_RUNNING, PROGRAM, "main",
        "Error", "no data", 3, .repeats = true, .again = API_AGAIN_RUNS},
    {"its node was rebooted, and it runs again", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(LOST_AGAIN("'running':{}", "255", AT("19"), "Unknown")), API_POD_RUNNING, NOBODY,
        "main", "Unknown", "", 255, .repeats = true, .again = API_AGAIN_RUNS},
    {"kubelet has lost it, and it is started again", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(LOST_AGAIN(BACKS_OFF, "137", "null", "ContainerStatusUnknown")), API_POD_RUNNING,
        NOBODY, "main", "ContainerStatusUnknown", "", 137, .repeats = true,
        .again = API_AGAIN_WAITS},
    {"a native sidecar in a crash loop", OWN("main"), NEVER "," SIDECAR MAIN,
        RUNNING I(AGAIN("a", BACKS_OFF, "3", "20")) "," C(RUNS("main")), API_POD_RUNNING, NOBODY,
        "a", "Error", "no data", 3, .again = API_AGAIN_WAITS},
    {"R a command that is not there, started again and again", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(AGAIN(
            "main", "'waiting':{'reason':'RunContainerError','message':'no train'}", "128", "19")),
        API_POD_RUNNING, PROGRAM, "main", "Error", "no data", 128, .repeats = true,
        .again = API_AGAIN_WAITS},
    {"a hook that fails again and again", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(AGAIN(
            "main", "'waiting':{'reason':'PostStartHookError','message':'exit 1'}", "137", "19")),
        API_POD_RUNNING, PROGRAM, "main", "Error", "no data", 137, .repeats = true,
        .again = API_AGAIN_WAITS},
    {"it has run, and its image is gone", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C(AGAIN(
            "main", "'waiting':{'reason':'ImagePullBackOff','message':'no such'}", "3", "19")),
        API_POD_RUNNING, NOBODY, "main", "ImagePullBackOff", "no such", 3},
    {"R Always, and it has succeeded", OWN("main"), "'restartPolicy':'Always'," MAIN,
        RUNNING C(AGAIN("main", "'running':{}", "0", "19")), API_POD_RUNNING, NOBODY, "main",
        "Error", "no data", 0, .again = API_AGAIN_RUNS},
    {"R Always, and it waits", OWN("main"), "'restartPolicy':'Always'," MAIN,
        RUNNING C(AGAIN("main", BACKS_OFF, "0", "19")), API_POD_RUNNING, NOBODY, "main", "Error",
        "no data", 0, .again = API_AGAIN_WAITS},
    {"Always, between two starts", OWN("main"), "'restartPolicy':'Always'," MAIN,
        RUNNING C(AGAIN("main", ENDS("0", AT("32"), "Completed", ""), "0", "19")), API_POD_RUNNING,
        NOBODY, "main", "Completed", "", 0, .again = API_AGAIN_WAITS},
    {"R stopped by a probe, ended with 0", OWN("main"), ON_FAILURE "," PROBED("livenessProbe"),
        RUNNING C(LIVED("'state':{'running':{}},'lastState'", "0", "Completed", "41", "50")),
        API_POD_RUNNING, NOBODY, "main", "Completed", "", 0, .again = API_AGAIN_RUNS,
        .probes = API_PROBE_LIVENESS},
    {"it has a probe, and succeeds again and again", OWN("main"),
        "'restartPolicy':'Always'," PROBED("livenessProbe"),
        RUNNING C(LIVED("'state':{'running':{}},'lastState'", "0", "Completed", "41", "50")),
        API_POD_RUNNING, NOBODY, "main", "Completed", "", 0, .again = API_AGAIN_RUNS},
    {"its node does not start it, again and again", OWN("main"), ON_FAILURE "," MAIN,
        RUNNING C("{'name':'main','restartCount':1,'state':{" BACKS_OFF
                  "},'lastState':{" ENDS("128", AT("47"), "StartError", SHIM_LATE) "}}"),
        API_POD_RUNNING, NOBODY, "main", "StartError", "deadline exceeded", 128, .repeats = true,
        .again = API_AGAIN_WAITS, .unstarted = true},
    /* ---- pods that wait ---- */
    {"R no ConfigMap", "", NEVER "," MAIN,
        PENDING C(WAITS("main", "CreateContainerConfigError", "configmap \\\"none\\\" not found")),
        API_POD_PENDING, NOBODY, "main", "CreateContainerConfigError", "configmap", -1},
    {"R no such image", "", NEVER "," MAIN,
        PENDING C(WAITS("main", "ErrImageNeverPull", "Container image \\\"no/such:1\\\"")),
        API_POD_PENDING, NOBODY, "main", "ErrImageNeverPull", "Container image", -1},
    {"R not a name of an image", "", NEVER "," MAIN,
        PENDING I(GATE) "," C(WAITS("main", "InvalidImageName", "Failed to apply default")),
        API_POD_PENDING, NOBODY, "main", "InvalidImageName", "Failed to apply", -1},
    {"no node", "", NEVER "," MAIN,
        PENDING "'conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
                "'message':'0/1 nodes are available'}]",
        API_POD_PENDING, NOBODY, "", "Unschedulable", "0/1 nodes", -1},
};

static const char *or_empty(const char *s) {
    return s ? s : "";
}

static void what_kubernetes_says_of_a_pod_has_one_meaning(void **state) {
    (void)state;
    assert_true(CO_ARRAY_LEN(rows) >= 40);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        CO_AUTOFREE char *text =
            co_xasprintf("{'metadata':{%s%s'name':'x-worker-0'},'spec':{%s},'status':{%s}}",
                r->meta, *r->meta ? "," : "", r->spec, r->status);
        CO_AUTOJSON json_t *j = tk_json(text);
        CO_AUTOFREE char *json = co_json_dump(j);
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        assert_int_equal(co_jdoc_read(json, strlen(json), NULL, &doc, NULL), 0);
        struct api_ending e;
        api_ending_judge(doc.node, &e);
        const struct api_cause *c = &e.cause;
        if (e.phase != r->phase || e.blame != r->blame || e.repeats != r->repeats ||
            e.runs_on != r->runs_on || e.again != r->again || c->probes != r->probes ||
            c->unstarted != r->unstarted || c->exit_code != r->code ||
            strcmp(or_empty(c->container), r->container) != 0 ||
            strcmp(or_empty(c->reason), r->reason) != 0 ||
            !strstr(or_empty(c->message), r->message) ||
            strstr(or_empty(c->message), "runc create failed: unable")) {
            fail_msg(
                "%s: phase %d blame %d repeats %d runs on %d again %d probes %d code %d \"%s\" "
                "\"%s\" \"%s\"",
                r->what, (int)e.phase, (int)e.blame, e.repeats, e.runs_on, (int)e.again, c->probes,
                (int)c->exit_code, or_empty(c->container), or_empty(c->reason),
                or_empty(c->message));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_kubernetes_says_of_a_pod_has_one_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
