/* Compact projections of a job's pods, Services, ConfigMap and PodGroup: what the planner needs to
 * know of them, decoded once when the watch delivers the object.
 *
 *   | struct api_pod (begins with struct api_child) | struct api_cause | "name\0" | "namespace\0" |
 * ...
 *
 * Each is one block, which free() frees.  Strings are never NULL.  Pure decoding; owned by the
 * store. */
#pragma once

#include "common/json/proto.h"
#include "operator/api/job.h"

enum api_pod_phase {
    API_POD_PENDING,
    API_POD_RUNNING,
    API_POD_SUCCEEDED,
    API_POD_FAILED,
    API_POD_UNKNOWN
};

/* What all projections begin with. */
struct api_child {
    const char *name, *ns, *uid, *resource_version;
    const char *owner_uid; /* of the controlling ownerReference; "" when none */
    const char *owner_job; /* name of that owner when it is a PaddleJob, else "" */
    /* Seconds: creationTimestamp; while it is being deleted, deletionTimestamp, which is the end of
     * the grace period.  0 when unknown. */
    int64_t at;
    bool deleting;
};

/* Whose doing it is that a pod ended, or is about to (api/ending.h). */
enum api_blame { API_BLAME_NOBODY, API_BLAME_PROGRAM, API_BLAME_NODE, API_BLAME_USER };

/* Why a pod failed, or what it waits for; all "" when neither.
 *   failed                    the container that failed first, with the pod's own reason (Evicted)
 *                             if it has one, or that of the condition by which it was asked to end
 *   asked to end              the reason and message of that condition
 *   node does not respond     reason NodeLost, message: the node, finished: since when
 *   pending                   what a container or the scheduler waits for
 *   a container was started again after it failed     how it ended
 *   runs on although the training has exited with 0   that container, code 0, no reason
 *
 * probes: of a container that ended as kubelet ends those whose probe fails, the probes that it has
 * (API_PROBE_*).  No status of a pod says more.
 *
 * unstarted: its node could not start the container, for a reason that is not the container's. */
enum { API_PROBE_LIVENESS = 1, API_PROBE_STARTUP = 2 };
struct api_cause {
    const char *container, *reason, *message; /* message: the line that says why (common/cause.h) */
    const char *finished;                     /* when that container failed, RFC 3339 */
    int32_t exit_code;                        /* -1 when it did not terminate */
    uint8_t probes;
    bool unstarted;
};

/* A container that failed is started again: it runs, or waits in CrashLoopBackOff. */
enum api_again { API_AGAIN_NO, API_AGAIN_RUNS, API_AGAIN_WAITS };

/* Kept small, because there is one for each pod. */
struct api_pod {
    struct api_child c;
    const char *ip[2]; /* podIPs in order; "" when unknown */
    const char *host_ip;
    const struct api_cause *cause; /* in the block; pods without one share an empty one */
    int32_t index;                 /* -1 when neither a label nor the name has it */
    int32_t attempt;
    int32_t restarts;    /* sum over its containers, init containers included */
    uint8_t role;        /* enum api_role */
    uint8_t phase;       /* enum api_pod_phase, as judged by the template's containers */
    uint8_t again;       /* enum api_again */
    uint8_t blame;       /* enum api_blame: whose doing it is that it ended, or is asked to end */
    bool reported : 1;   /* ip was reported by the pod (control/store), its object has none yet */
    bool ended : 1;      /* it had succeeded before it was deleted (control/store) */
    bool coord : 1;      /* the start gate's init container is running */
    bool passed : 1;     /* the start gate's init container has exited with 0 */
    bool labelled : 1;   /* has labels with the job's uid and an index; not visible to a plan */
    bool scheduled : 1;  /* it has a node; a plan does not see that */
    bool ready : 1;      /* every container and init container is ready or has exited with 0 */
    bool asks_names : 1; /* of an earlier version: waits for the DNS names of its peers' Services */
    bool runs_on : 1;    /* it is over, but for containers that a webhook has added */
    bool repeats : 1;    /* kubelet starts a failed container again, by the restart policy */
    bool lost : 1;       /* its node does not respond: all else may be stale */
    bool at_once : 1;    /* it is being deleted with a grace period of 0 */
};

struct api_service {
    struct api_child c;
    bool labelled; /* false: of an earlier version, and the watch does not select it */
};

struct api_configmap {
    struct api_child c;
    uint64_t hash;                 /* api_env_hash of its data */
    uint64_t peers;                /* api_env_peers_hash of its data */
    int64_t changed;               /* seconds: API_ANNOTATION_CHANGED; 0: absent */
    int32_t n_peers;               /* api_env_peers of its data */
    int32_t attempt;               /* the attempt whose addresses it has */
    uint32_t templates[API_ROLES]; /* api_began_hash of the good ones it has, else 0 */
    uint16_t port;                 /* its PADDLE_PORT when that is a port, else 0 */
    bool old;                      /* created by an earlier version */
    bool own_ips;                  /* api_env_own_ips of its data */
};

/* A field of schedulingPolicy that goes to the group's spec: its name there, and an annotation of
 * the group with the value that we set last.  The annotation distinguishes our value from one that
 * another writer has set. */
struct api_wish {
    const char *policy, *spec, *annotation;
};
enum { API_WISH_QUEUE, API_WISH_PRIORITY, API_WISHES };
extern const struct api_wish api_wishes[API_WISHES];

/* The group object of a gang, of any kind. */
struct api_podgroup {
    struct api_child c;
    const char *phase;
    const char *has[API_WISHES], *asked[API_WISHES]; /* its spec, its annotations; "" when absent */
    const char *message; /* why it waits, as its scheduler says; "" when it does not */
    uint64_t hash;       /* api_podgroup_hash of its spec */
};

/* The fields of a pod that are read, for pods in protobuf. */
extern const struct co_proto_message api_pod_proto;
/* Each decodes an object's nodes; NULL when it has no metadata.name. */
struct api_child *api_pod_read(const struct co_jnode *obj);
struct api_child *api_service_read(const struct co_jnode *obj);
struct api_child *api_configmap_read(const struct co_jnode *obj);
struct api_child *api_podgroup_read(const struct co_jnode *obj);
/* Decodes a tree that does not come from an API server with one of them; obj NULL: NULL. */
struct api_child *api_child_of_tree(
    struct api_child *(*read)(const struct co_jnode *obj), const json_t *obj);

/* True when a planner would see a difference; a different resourceVersion alone is none. */
bool api_pod_differs(const struct api_child *a, const struct api_child *b);
bool api_podgroup_differs(const struct api_child *a, const struct api_child *b);

/* Hash of the contract's variables in a ConfigMap's data; other keys and the order do not count. */
uint64_t api_env_hash(const json_t *data);
/* Hash of only those variables that list the job's pods. */
uint64_t api_env_peers_hash(const json_t *data);
/* Number of addresses in those lists. */
int32_t api_env_peers(const json_t *data);

/* The data also has each pod's own address, POD_IP_<role>_<index>, as with --prefer-family. */
bool api_env_own_ips(const json_t *data);

/* Hash of what a group's spec says about its pods; fields that servers and users add do not count.
 */
uint64_t api_podgroup_hash(const json_t *spec);
