/* Sends requests as fast as the API server accepts them.  Without an operator this measures the
 * limit with which the operator is compared in the same run; with one it creates jobs and ends
 * pods.
 *
 * Standard input has one request per line, "POST|PATCH|DELETE PATH [BODY]".  The clock starts when
 * all lines have been read.  Prints one line of JSON. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/flag.h"
#include "common/log.h"
#include "operator/kube/client.h"

struct line {
    struct load *load;
    enum kube_verb verb;
    char *path;   /* owned */
    json_t *body; /* owned; may be NULL */
    int64_t ms;   /* from the start of the clock to the answer */
};

struct load {
    struct co_loop *loop;
    struct kube_client *client;
    struct line *lines; /* owned */
    size_t n, done, failed;
    int64_t start;
    char first_error[CO_ERR_MAX];
};

static int line_parse(struct line *l, char *text, struct co_err *err) {
    static const struct {
        const char *method;
        enum kube_verb verb;
    } verbs[] = {{"POST", KUBE_CREATE}, {"PATCH", KUBE_PATCH}, {"DELETE", KUBE_DELETE}};
    char *rest = text;
    const char *method = strsep(&rest, " ");
    const char *path = strsep(&rest, " ");
    for (size_t i = 0; path && i < CO_ARRAY_LEN(verbs); i++) {
        if (strcmp(method, verbs[i].method) == 0) {
            l->verb = verbs[i].verb;
            l->path = co_xstrdup(path);
            return rest && *rest ? co_json_parse(rest, strlen(rest), &l->body, err) : 0;
        }
    }
    return co_err_set(
        err, CO_INVALID, "\"%.40s\": expected POST, PATCH or DELETE, and a path", text);
}

static int read_lines(struct load *load, struct co_err *err) {
    CO_AUTOFREE char *text = NULL;
    size_t cap = 0;
    size_t room = 0;
    while (getline(&text, &cap, stdin) > 0) {
        text[strcspn(text, "\n")] = '\0';
        if (load->n == room) {
            room = room ? room * 2 : 256;
            load->lines = co_xrealloc(load->lines, room, sizeof(*load->lines));
        }
        load->lines[load->n] = (struct line){.load = load};
        int r = line_parse(&load->lines[load->n++], text, err);
        if (r) {
            return co_err_wrap(err, "line %zu", load->n);
        }
    }
    return 0;
}

static void answered(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct line *l = arg;
    struct load *load = l->load;
    (void)reply;
    l->ms = co_now_ms() - load->start;
    if (code && !load->failed++) {
        (void)snprintf(load->first_error, sizeof(load->first_error), "%s", co_err_text(err));
    }
    if (++load->done == load->n) {
        co_loop_stop(load->loop);
    }
}

static void send_all(struct load *load) {
    load->start = co_now_ms();
    for (size_t i = 0; i < load->n; i++) {
        struct line *l = &load->lines[i];
        struct kube_req req = kube_req_for(l->verb, NULL, NULL, NULL, answered, l);
        req.path = l->path;
        req.body = l->body;
        req.deadline_ms = 600000;
        req.answer = KUBE_TEXT;
        (void)kube_do(load->client, &req);
    }
    co_loop_run(load->loop);
}

static void print(const struct load *load) {
    int64_t last = 0;
    for (size_t i = 0; i < load->n; i++) {
        last = load->lines[i].ms > last ? load->lines[i].ms : last;
    }
    (void)printf("{\"requests\": %zu, \"failed\": %zu, \"start\": %.3f, \"seconds\": %.3f}\n",
        load->n, load->failed, (double)load->start / 1e3, (double)last / 1e3);
    if (load->failed) {
        (void)fprintf(stderr, "load: %s\n", load->first_error);
    }
}

static void load_done(struct load *load) {
    kube_client_free(load->client);
    co_loop_free(load->loop);
    for (size_t i = 0; i < load->n; i++) {
        free(load->lines[i].path);
        json_decref(load->lines[i].body);
    }
    free(load->lines);
}

int main(int argc, char *argv[]) {
    const char *kubeconfig;
    const struct co_flag flags[] = {
        {"kubeconfig", CO_FLAG_STR, &kubeconfig, "", "kubeconfig file"},
    };
    struct co_err err = {0};
    struct load load = {0};
    struct kube_config *config = NULL;
    (void)signal(SIGPIPE, SIG_IGN);
    int rc = co_flags_parse_all("bench-load [flags]", flags, CO_ARRAY_LEN(flags), argc, argv, &err);
    if (rc == CO_CANCELED) {
        return 0;
    }
    if (rc || read_lines(&load, &err) ||
        kube_config_load(&(struct kube_config_opts){.kubeconfig = kubeconfig}, &config, &err) ||
        co_loop_new(&load.loop, &err) ||
        kube_client_new(load.loop, config, NULL, &load.client, &err)) {
        (void)fprintf(stderr, "load: %s\n", co_err_text(&err));
        load_done(&load);
        return rc ? 2 : 1;
    }
    if (load.n) {
        send_all(&load);
    }
    print(&load);
    load_done(&load);
    return load.failed != 0;
}
