/* Records when pods and jobs of a namespace change their phase.  Prints one line for each change,
 * "SECONDS pod|job NAME PHASE", with seconds of CLOCK_MONOTONIC and the phase "gone" for a deleted
 * object.  The line "SECONDS sync - -" says that both watches have begun.  Runs until it is killed.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/flag.h"
#include "common/log.h"
#include "common/map.h"
#include "operator/api/child.h"
#include "operator/kube/watch.h"

struct feed {
    const char *kind;
    struct kube_type type;
    struct kube_watch *watch;
    struct co_map phases; /* by name; values owned */
    bool synced;
};

static struct feed feeds[] = {
    /* Protobuf, like the scheduler and controllers of the cluster use: encoding pods in another
     * form only for this observer would be extra work for the API server, which is measured. */
    {.kind = "pod", .type = {"", "v1", "pods", "Pod", &api_pod_proto}},
    {.kind = "job", .type = {"batch.paddlepaddle.org", "v1", "paddlejobs", "PaddleJob"}},
};

static void say(const char *kind, const char *name, const char *phase) {
    (void)printf("%.3f %s %s %s\n", (double)co_now_ms() / 1e3, kind, name, phase);
    (void)fflush(stdout);
}

static void begun(void *arg, uint64_t upto) {
    (void)arg;
    (void)upto;
}

static int object(
    void *arg, enum kube_event type, const struct kube_object *obj, struct co_err *err) {
    struct feed *f = arg;
    const char *name = co_jnode_str(obj->nodes, "metadata", "name");
    const char *phase = co_jnode_str(obj->nodes, "status", "phase");
    if (!name) {
        return co_err_set(err, CO_INVALID, "an object without metadata.name");
    }
    if (type == KUBE_DELETED) {
        free(co_map_remove(&f->phases, name));
        say(f->kind, name, "gone");
    } else if (!co_streq(co_map_get(&f->phases, name), phase ? phase : "none")) {
        phase = phase ? phase : "none";
        free(co_map_set(&f->phases, name, co_xstrdup(phase)));
        say(f->kind, name, phase);
    }
    return 0;
}

static void synced(void *arg) {
    struct feed *f = arg;
    f->synced = true;
    if (feeds[0].synced && feeds[1].synced) {
        say("sync", "-", "-");
    }
}

static void broke(void *arg, const struct co_err *err, int64_t retry_ms) {
    const struct feed *f = arg;
    co_log_warn("watch ended", CO_S("kind", f->kind), CO_I("retry_ms", retry_ms), CO_E(err));
}

static const struct kube_watch_ops ops = {
    .sync_begin = begun, .object = object, .sync_end = synced, .error = broke};

int main(int argc, char *argv[]) {
    const char *kubeconfig, *ns;
    const struct co_flag flags[] = {
        {"kubeconfig", CO_FLAG_STR, &kubeconfig, "", "kubeconfig file"},
        {"namespace", CO_FLAG_STR, &ns, "default", "what to look at"},
    };
    struct co_err err = {0};
    struct kube_config *config = NULL;
    struct co_loop *loop = NULL;
    struct kube_client *client = NULL;
    struct kube_client_opts opts = {.at_once = true};
    (void)signal(SIGPIPE, SIG_IGN);
    int rc =
        co_flags_parse_all("bench-observer [flags]", flags, CO_ARRAY_LEN(flags), argc, argv, &err);
    if (rc == CO_CANCELED) {
        return 0;
    }
    if (rc ||
        kube_config_load(&(struct kube_config_opts){.kubeconfig = kubeconfig}, &config, &err) ||
        co_loop_new(&loop, &err) || kube_client_new(loop, config, &opts, &client, &err)) {
        (void)fprintf(stderr, "observer: %s\n", co_err_text(&err));
        return rc ? 2 : 1;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(feeds); i++) {
        feeds[i].watch = kube_watch_new(
            client, &(struct kube_watch_opts){
                        .type = &feeds[i].type, .ns = ns, .ops = &ops, .arg = &feeds[i]});
    }
    co_loop_run(loop); /* never returns */
    return 1;
}
