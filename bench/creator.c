/* Creates pods as fast as the API server takes them, with no operator: the limit that the
 * operator is measured against in the same run.  Prints one line of JSON. */
#include "common/flag.h"
#include "common/log.h"
#include "operator/kube/client.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static const struct op_kube_type pods = {"", "v1", "pods", "Pod"};

struct creator {
    struct co_loop *loop;
    struct op_kube_client *client;
    const char *ns;
    int64_t wanted, done, failed;
    char first_error[CO_ERR_MAX];
};

static void created(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct creator *c = arg;
    (void)reply;
    if (code && !c->failed++) {
        (void)snprintf(c->first_error, sizeof(c->first_error), "%s", co_err_text(err));
    }
    if (++c->done == c->wanted) {
        co_loop_stop(c->loop);
    }
}

static void create(struct creator *c, int64_t i) {
    char name[64];
    (void)snprintf(name, sizeof(name), "bare-%" PRId64, i);
    CO_AUTOJSON json_t *body = json_pack("{s:s,s:s,s:{s:s,s:{s:s}},s:{s:s,s:[{s:s,s:s}]}}",
        "apiVersion", "v1", "kind", "Pod", "metadata", "name", name, "labels", "paddle-res-name",
        name, "spec", "restartPolicy", "Never", "containers", "name", "paddle", "image", "x");
    struct op_kube_req req = op_kube_req_for(OP_KUBE_CREATE, &pods, c->ns, NULL, created, c);
    req.body = body;
    req.deadline_ms = 120000;
    (void)op_kube_do(c->client, &req);
}

int main(int argc, char *argv[]) {
    const char *kubeconfig, *ns;
    int64_t n;
    const struct co_flag flags[] = {
        {"kubeconfig", CO_FLAG_STR, &kubeconfig, "", "kubeconfig file"},
        {"namespace", CO_FLAG_STR, &ns, "default", "where the pods go"},
        {"pods", CO_FLAG_INT, &n, "300", "how many", 1, 100000},
    };
    struct co_err err = {0};
    struct creator c = {0};
    struct op_kube_config *config = NULL;
    int rest;
    (void)signal(SIGPIPE, SIG_IGN);
    if (co_flags_parse(flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &err) ||
        op_kube_config_load(
            &(struct op_kube_config_opts){.kubeconfig = kubeconfig}, &config, &err) ||
        co_loop_new(&c.loop, &err) || op_kube_client_new(c.loop, config, NULL, &c.client, &err)) {
        (void)fprintf(stderr, "creator: %s\n", co_err_text(&err));
        return 1;
    }
    c.ns = ns;
    c.wanted = n;
    int64_t start = co_now_ms();
    for (int64_t i = 0; i < n; i++) {
        create(&c, i);
    }
    co_loop_run(c.loop);
    (void)printf("{\"pods\": %" PRId64 ", \"failed\": %" PRId64 ", \"seconds\": %.3f}\n", n,
        c.failed, (double)(co_now_ms() - start) / 1e3);
    if (c.failed) {
        (void)fprintf(stderr, "creator: %s\n", c.first_error);
    }
    op_kube_client_free(c.client);
    co_loop_free(c.loop);
    return c.failed != 0;
}
