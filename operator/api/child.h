/* What the planner needs to know of a job's pods, Services and ConfigMap: compact projections of
 * their JSON, made once when a watch delivers it.  Each is one block, of the slab that was given or
 * of malloc when that is NULL: op_child_free releases all of it.  Strings are never NULL.  Pure
 * decoding; owned by the store. */
#pragma once

#include "common/proto.h"
#include "common/slab.h"
#include "operator/api/job.h"

enum op_pod_phase {
    OP_POD_PENDING,
    OP_POD_RUNNING,
    OP_POD_SUCCEEDED,
    OP_POD_FAILED,
    OP_POD_UNKNOWN
};

/* What all children have. */
struct op_child {
    const char *name, *ns, *uid, *resource_version;
    const char *owner_uid; /* of the controlling ownerReference; "" when none */
    const char *owner_job; /* its name when it is a PaddleJob, else "" */
    /* Seconds: creationTimestamp; of one that is being deleted deletionTimestamp, when its grace
     * period is over.  0 when unknown. */
    int64_t at;
    bool deleting;
    uint32_t size; /* of the block */
};
/* Of any kind; NULL allowed. */
void op_child_free(struct co_slab *slab, struct op_child *child);

/* Why a pod failed, else what it waits for; "" when neither.  Of a pod that goes on though its
 * first container has ended well: that container, code 0, without a reason.  A failed pod's cause
 * is the container that ended first with an exit code other than 0, else the pod's own reason
 * (Evicted, …). */
struct op_cause {
    const char *container, *reason, *message; /* message: its last non-empty line */
    const char *finished;                     /* when that container failed, RFC 3339 */
    int32_t exit_code;                        /* -1 when it did not terminate */
};

/* There are as many of it as of pods: kept small. */
struct op_pod {
    struct op_child c;
    const char *ip[2]; /* podIPs in order; "" when unknown */
    const char *host_ip;
    const struct op_cause *cause; /* in its block; most pods have none, and share an empty one */
    int32_t index;                /* -1 when no label says so and the name does not fit its role */
    int32_t attempt;
    int32_t restarts;    /* sum over its containers, init containers included */
    uint8_t role;        /* enum op_role */
    uint8_t phase;       /* enum op_pod_phase */
    bool told : 1;       /* ip is what the pod itself told (control/store), not yet its object's */
    bool ended : 1;      /* it had succeeded before it was deleted (control/store) */
    bool coord : 1;      /* the start gate's init container is running */
    bool passed : 1;     /* ... has let the pod through */
    bool labelled : 1;   /* labels say whose it is, and its index; nothing that a plan sees */
    bool scheduled : 1;  /* it has a node; that alone is no difference to a plan */
    bool ready : 1;      /* every container and init container is ready, or has ended well */
    bool asks_names : 1; /* of an earlier version, held until its peers' Services have names */
    bool disrupted : 1;  /* the cluster ends it, for reasons that are not its own */
};

struct op_service {
    struct op_child c;
    bool labelled; /* false: of an earlier version, and no watch tells of it */
};

struct op_configmap {
    struct op_child c;
    uint64_t hash;   /* op_env_hash of its data */
    uint64_t peers;  /* op_env_peers_hash of it */
    int32_t attempt; /* of the pods whose addresses it has */
    uint16_t port;   /* its PADDLE_PORT when that is a port, else 0 */
    bool old;        /* an earlier version made it */
    bool own_ips;    /* op_env_own_ips of it */
};

/* What schedulingPolicy asks for beside a size, what that is called in a group's spec, and the
 * annotation of the group with what was asked for last: what is there may be somebody else's. */
struct op_wish {
    const char *policy, *spec, *annotation;
};
enum { OP_WISH_QUEUE, OP_WISH_PRIORITY, OP_WISHES };
extern const struct op_wish op_wishes[OP_WISHES];

/* A gang's group, of whatever kind. */
struct op_podgroup {
    struct op_child c;
    const char *phase;
    const char *has[OP_WISHES], *asked[OP_WISHES]; /* its spec, its annotations; "" when absent */
    const char *message; /* why it waits, in its scheduler's words; "" when it does not say */
    uint64_t hash;       /* op_podgroup_hash of its spec */
};

/* What of a pod is read, for those who have it in protobuf. */
extern const struct co_proto_message op_pod_proto;
/* Each reads an object's nodes; NULL when it has no metadata.name. */
struct op_child *op_pod_read(struct co_slab *slab, const struct co_jnode *obj);
struct op_child *op_service_read(struct co_slab *slab, const struct co_jnode *obj);
struct op_child *op_configmap_read(struct co_slab *slab, const struct co_jnode *obj);
struct op_child *op_podgroup_read(struct co_slab *slab, const struct co_jnode *obj);
/* By one of them what was not read from an API server, of malloc; obj NULL: NULL. */
struct op_child *op_child_of_tree(
    struct op_child *(*read)(struct co_slab *slab, const struct co_jnode *obj), const json_t *obj);

/* True when a planner would see a difference: resourceVersion alone is none. */
bool op_pod_differs(const struct op_child *a, const struct op_child *b);
bool op_podgroup_differs(const struct op_child *a, const struct op_child *b);

/* Of the contract's ConfigMap keys in `data`; other keys and the order do not count. */
uint64_t op_env_hash(const json_t *data);
/* Of those among them that name the job's pods. */
uint64_t op_env_peers_hash(const json_t *data);

/* It has each pod's own address, POD_IP_<role>_<index>: with --prefer-family. */
bool op_env_own_ips(const json_t *data);

/* Of what a group's spec says about its pods; what servers and users add does not count. */
uint64_t op_podgroup_hash(const json_t *spec);
