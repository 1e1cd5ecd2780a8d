/* Makes processes of rendered objects (pods.h): finds pods, ConfigMap and Secret, resolves their
 * environment, and notes what a process cannot have. */
#include "runtime/launch/local/pods.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/contract.h"
#include "common/json/json.h"
#include "common/yaml/yaml.h"

enum { DOCUMENTS_MAX = 4 * LOCAL_PODS_MAX, NOTES_MAX = 1 << 16, GRACE_MAX_S = 24 * 3600 };

struct pods_reader {
    const struct local_pods_options *options;
    struct local_pods *pods;
    json_t *objects;         /* owned: an array of all documents */
    struct co_map addresses; /* pod name -> address, borrowed from pods */
};

/* Each note once, however many pods it is about. */
static void add_note(struct pods_reader *rd, const char *text) {
    const char *all = rd->pods->notes.data;
    const char *at = all ? strstr(all, text) : NULL;
    if (!at) {
        (void)!co_buf_addf(&rd->pods->notes, NULL, "%s\n", text);
    }
}

static bool is_kind(const json_t *obj, const char *kind) {
    return co_streq(co_json_str(obj, "kind"), kind);
}

/* ---- documents ------------------------------------------------------------------------- */

static int read_documents(
    struct pods_reader *rd, const char *name, const char *text, size_t len, struct co_err *err) {
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    CO_TRY(co_yaml_open(name, text, len, &y, err));
    for (;;) {
        CO_AUTOJSON json_t *doc = NULL;
        struct co_err why = {0};
        int r = co_yaml_next(y, &doc, &why);
        if (r) {
            return r == CO_NOTFOUND ? 0 : co_err_set(err, r, "%s", why.msg);
        }
        json_t *items = is_kind(doc, "List") ? co_json_at(doc, "items") : NULL;
        if (items) {
            (void)json_array_extend(rd->objects, items);
        } else {
            (void)json_array_append(rd->objects, doc);
        }
        if (is_kind(doc, "PaddleJob")) {
            return co_err_set(err, CO_INVALID,
                "%s is a PaddleJob, expected the pods made of it: paddle-operator render FILE | "
                "paddlerun local",
                name);
        }
        if (json_array_size(rd->objects) > DOCUMENTS_MAX) {
            return co_err_set(
                err, CO_NORESOURCE, "%s has more than %d objects", name, (int)DOCUMENTS_MAX);
        }
    }
}

static const json_t *find_object(const struct pods_reader *rd, const char *kind, const char *name) {
    size_t i;
    const json_t *obj;
    json_array_foreach(rd->objects, i, obj) {
        if (is_kind(obj, kind) && co_streq(co_json_str(obj, "metadata", "name"), name)) {
            return obj;
        }
    }
    return NULL;
}

static const json_t *find_configmap(const struct pods_reader *rd, const char *name) {
    return co_json_at(find_object(rd, "ConfigMap", name), "data");
}

/* The value of a key, which the caller frees; NULL: there is no such Secret.  stringData wins, as
 * in an API server.  Without the key it is one that the operator fills in a cluster. */
static char *find_secret(const struct pods_reader *rd, const char *name, const char *key) {
    const json_t *secret = find_object(rd, "Secret", name);
    const char *text = co_json_str(secret, "stringData", key);
    const char *coded = co_json_str(secret, "data", key);
    char *value = NULL;
    size_t len;
    if (!text && coded && !co_base64_decode(coded, &value, &len, NULL)) {
        return value;
    }
    text = text || !secret ? text : rd->options->token;
    return text ? co_xstrdup(text) : NULL;
}

/* ---- environment ----------------------------------------------------------------------- */

static void set_variable(
    struct pods_reader *rd, struct job_env *e, const char *name, const char *value) {
    CO_AUTOFREE char *text = job_env_addresses(name, value, &rd->addresses);
    job_env_set(e, name, text);
}

static int env_from(
    struct pods_reader *rd, struct local_pod *pod, const json_t *list, struct co_err *err) {
    size_t i;
    const json_t *from;
    json_array_foreach(list, i, from) {
        const char *name = co_json_str(from, "configMapRef", "name");
        const char *prefix = co_json_str(from, "prefix");
        if (!name) {
            add_note(rd, "Secrets are not taken into the environment");
            continue;
        }
        json_t *data = (json_t *)find_configmap(rd, name);
        if (!data && !json_is_true(co_json_at(from, "configMapRef", "optional"))) {
            return co_err_set(err, CO_INVALID,
                "pod \"%s\" takes its environment from ConfigMap \"%s\", which is not in the input",
                pod->name, name);
        }
        const char *key;
        json_t *value;
        json_object_foreach(data, key, value) {
            if (json_is_string(value)) {
                CO_AUTOFREE char *full = co_xasprintf("%s%s", prefix ? prefix : "", key);
                set_variable(rd, &pod->env, full, json_string_value(value));
            }
        }
    }
    return 0;
}

/* "metadata.labels['x']" -> x; NULL when the path does not start so. */
static char *parse_subscript(const char *path, const char *prefix) {
    size_t n = strlen(prefix), len = strlen(path);
    if (strncmp(path, prefix, n) != 0 || len < n + 4 || strcmp(path + len - 2, "']") != 0) {
        return NULL;
    }
    return co_xstrndup(path + n + 2, len - n - 4);
}

/* Borrowed; NULL: a process has no such thing. */
static const char *find_field(const json_t *obj, const struct local_pod *pod, const char *path) {
    if (strcmp(path, "status.podIP") == 0 || strcmp(path, "status.podIPs") == 0) {
        return pod->address;
    }
    if (strcmp(path, "status.hostIP") == 0) {
        return "127.0.0.1";
    }
    CO_AUTOFREE char *label = parse_subscript(path, "metadata.labels");
    CO_AUTOFREE char *annotation = parse_subscript(path, "metadata.annotations");
    if (label) {
        return co_json_str(obj, "metadata", "labels", label);
    }
    if (annotation) {
        return co_json_str(obj, "metadata", "annotations", annotation);
    }
    const char *value = NULL;
    if (co_json_get_str(obj, path, &value, NULL)) {
        return strcmp(path, "metadata.uid") == 0         ? pod->name
               : strcmp(path, "metadata.namespace") == 0 ? "default"
               : strcmp(path, "spec.nodeName") == 0      ? "localhost"
                                                         : NULL;
    }
    return value;
}

static int env_value_from(struct pods_reader *rd, const json_t *obj, struct local_pod *pod,
    const char *name, const json_t *from, struct co_err *err) {
    const char *path = co_json_str(from, "fieldRef", "fieldPath");
    const char *map = co_json_str(from, "configMapKeyRef", "name");
    const char *key = co_json_str(from, "configMapKeyRef", "key");
    const char *secret = co_json_str(from, "secretKeyRef", "name");
    const char *secret_key = co_json_str(from, "secretKeyRef", "key");
    if (path) {
        const char *value = find_field(obj, pod, path);
        job_env_set(&pod->env, name, value ? value : "");
        return 0;
    }
    if (map && key) {
        const char *value = co_json_str(find_configmap(rd, map), key);
        if (value) {
            set_variable(rd, &pod->env, name, value);
            return 0;
        }
        if (json_is_true(co_json_at(from, "configMapKeyRef", "optional"))) {
            return 0;
        }
        return co_err_set(err, CO_INVALID,
            "pod \"%s\": %s comes from key \"%s\" of ConfigMap \"%s\", which is not in the input",
            pod->name, name, key, map);
    }
    CO_AUTOFREE char *value = secret && secret_key ? find_secret(rd, secret, secret_key) : NULL;
    if (value) {
        job_env_set(&pod->env, name, value);
        return 0;
    }
    add_note(
        rd, "variables from resources, and from Secrets that are not in the input, are not set");
    return 0;
}

static int read_environment(struct pods_reader *rd, const json_t *obj, const json_t *container,
    struct local_pod *pod, struct co_err *err) {
    job_env_inherit(&pod->env, rd->options->envp, false);
    const char *path = job_env_get(&pod->env, "PATH");
    CO_AUTOFREE char *search =
        co_xasprintf("%s:%s", rd->options->bin_dir, path ? path : "/usr/local/bin:/usr/bin:/bin");
    job_env_set(&pod->env, "PATH", search);
    /* Pods of a cluster have a directory each; here launchers of several would share "log". */
    CO_AUTOFREE char *logs = co_xasprintf("log/%s", pod->name);
    job_env_set(&pod->env, co_contract[CO_VAR_LOG_DIR].name, logs);
    job_env_set(&pod->env, "HOSTNAME", pod->name);
    job_env_set(&pod->env, "PYTHONUNBUFFERED", "1"); /* lines as they are printed */
    CO_TRY(env_from(rd, pod, co_json_at(container, "envFrom"), err));
    size_t i;
    const json_t *var;
    json_array_foreach(co_json_at(container, "env"), i, var) {
        const char *name = co_json_str(var, "name");
        const json_t *from = co_json_at(var, "valueFrom");
        if (!name || !*name || strchr(name, '=')) {
            continue;
        }
        if (from) {
            CO_TRY(env_value_from(rd, obj, pod, name, from, err));
        } else {
            const char *value = co_json_str(var, "value");
            CO_AUTOFREE char *text = job_env_expand(&pod->env, value ? value : "");
            set_variable(rd, &pod->env, name, text);
        }
    }
    return 0;
}

/* ---- command --------------------------------------------------------------------------- */

struct word_list {
    char **item;
    size_t n;
};

static void add_word(struct word_list *w, char *text_own) {
    w->item = co_xrealloc(w->item, w->n + 2, sizeof(*w->item));
    w->item[w->n++] = text_own;
    w->item[w->n] = NULL;
}

/* "a/b:tag" is "a/b:tag" and "a/b". */
static bool same_image(const char *image, const char *name) {
    size_t n = strlen(name);
    return strncmp(image, name, n) == 0 &&
           (image[n] == '\0' || image[n] == '@' || (image[n] == ':' && !strchr(image + n, '/')));
}

/* What the image's ENTRYPOINT, and its CMD when the pod has no args, are here. */
static bool image_command(
    const struct local_pods_options *o, const char *image, bool args, struct word_list *w) {
    for (size_t i = 0; i < o->n_images; i++) {
        if (same_image(image, o->images[i].name)) {
            add_word(w, co_xstrdup("/bin/sh"));
            add_word(w, co_xstrdup("-c"));
            add_word(w, co_xasprintf("%s \"$@\"", o->images[i].command));
            add_word(w, co_xstrdup(image));
            return true;
        }
    }
    if (same_image(image, "paddlejob/runtime")) {
        add_word(w, co_xasprintf("%s/paddlerun", o->bin_dir));
        add_word(w, co_xstrdup("exec"));
        add_word(w, co_xstrdup("--"));
        if (!args) {
            add_word(w, co_xasprintf("%s/wide_and_deep", o->bin_dir));
        }
        return true;
    }
    return false;
}

static void add_words(
    struct pods_reader *rd, struct local_pod *pod, const json_t *list, struct word_list *w) {
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item) {
        const char *text = json_string_value(item);
        CO_AUTOFREE char *expanded = job_env_expand(&pod->env, text ? text : "");
        add_word(w, job_env_addresses(NULL, expanded, &rd->addresses));
    }
}

/* A path inside the image whose program stands beside paddlerun here. */
static void find_here(const struct pods_reader *rd, char **program) {
    const char *slash = strrchr(*program, '/');
    if (!slash || (*program)[0] != '/' || access(*program, X_OK) == 0) {
        return;
    }
    CO_AUTOFREE char *here = co_xasprintf("%s%s", rd->options->bin_dir, slash);
    if (access(here, X_OK) == 0) {
        free(*program);
        *program = co_steal_ptr(here);
    }
}

static int read_command(
    struct pods_reader *rd, const json_t *container, struct local_pod *pod, struct co_err *err) {
    const json_t *given = co_json_at(container, "command");
    const json_t *args = co_json_at(container, "args");
    const char *image = co_json_str(container, "image");
    image = image ? image : "";
    struct word_list w = {0};
    if (json_array_size(given)) {
        add_words(rd, pod, given, &w);
    } else if (!image_command(rd->options, image, json_array_size(args) > 0, &w)) {
        return co_err_set(err, CO_INVALID,
            "pod \"%s\" has no command and image \"%.200s\" is not known here: say what it runs "
            "with --image %.200s=COMMAND",
            pod->name, image, image);
    }
    add_words(rd, pod, args, &w);
    if (w.item) { /* always; an analyser does not know that a list that is not empty adds words */
        find_here(rd, &w.item[0]);
    }
    pod->argv = w.item;
    return 0;
}

/* ---- pods ------------------------------------------------------------------------------ */

static void notes_about(struct pods_reader *rd, const json_t *spec) {
    static const struct {
        const char *key, *text;
    } rows[] = {
        {"hostNetwork", "hostNetwork is ignored: every pod has its own loopback address"},
        {"volumes", "volumes are ignored: pods see this machine's files"},
        {"nodeSelector", "nodeSelector is ignored"},
        {"affinity", "affinity is ignored"},
        {"securityContext", "securityContext is ignored"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const json_t *v = co_json_at(spec, rows[i].key);
        if (v && !json_is_false(v) && !json_is_null(v) &&
            !(json_is_array(v) && json_array_size(v) == 0)) {
            add_note(rd, rows[i].text);
        }
    }
    size_t i;
    const json_t *init;
    json_array_foreach(co_json_at(spec, "initContainers"), i, init) {
        const char *name = co_json_str(init, "name");
        if (!co_streq(name, "coord-paddle")) { /* addresses are complete here */
            CO_AUTOFREE char *text =
                co_xasprintf("init container \"%s\" is not run", name ? name : "");
            add_note(rd, text);
        }
    }
    if (json_array_size(co_json_at(spec, "containers")) > 1) {
        add_note(rd, "only the first container of a pod is run");
    }
}

static const char *job_of(const json_t *obj) {
    size_t i;
    const json_t *owner;
    json_array_foreach(co_json_at(obj, "metadata", "ownerReferences"), i, owner) {
        if (is_kind(owner, "PaddleJob")) {
            return co_json_str(owner, "name");
        }
    }
    return NULL;
}

static int name_pods(struct pods_reader *rd, struct co_err *err) {
    struct local_pods *pods = rd->pods;
    pods->item = co_xcalloc(json_array_size(rd->objects) + 1, sizeof(*pods->item));
    size_t i;
    const json_t *obj;
    json_array_foreach(rd->objects, i, obj) {
        if (!is_kind(obj, "Pod")) {
            continue;
        }
        const char *name = co_json_str(obj, "metadata", "name");
        const char *job = job_of(obj);
        if (!name || !*name || pods->n == LOCAL_PODS_MAX || co_map_get(&rd->addresses, name)) {
            return co_err_set(err, CO_INVALID,
                "pod %zu, \"%s\": expected at most %d pods, each with a name of its own", pods->n,
                name ? name : "", (int)LOCAL_PODS_MAX);
        }
        if (job && pods->job && strcmp(job, pods->job) != 0) {
            return co_err_set(err, CO_INVALID,
                "there are pods of job \"%s\" and of job \"%s\", expected one job", pods->job, job);
        }
        if (job && !pods->job) {
            pods->job = co_xstrdup(job);
        }
        struct local_pod *pod = &pods->item[pods->n];
        pod->name = co_xstrdup(name);
        pod->address =
            co_xasprintf("127.0.%zu.%zu", (rd->options->block + pods->n / LOCAL_PODS_BLOCK) & 0xff,
                10 + pods->n % LOCAL_PODS_BLOCK);
        pods->n++;
        (void)co_map_set(&rd->addresses, name, pod->address);
    }
    if (!pods->job) {
        pods->job = co_xstrdup(pods->n ? pods->item[0].name : "");
    }
    return pods->n ? 0 : co_err_set(err, CO_INVALID, "there is no Pod in the input");
}

static int fill_pod(
    struct pods_reader *rd, const json_t *obj, struct local_pod *pod, struct co_err *err) {
    const json_t *spec = co_json_at(obj, "spec");
    const json_t *container = json_array_get(co_json_at(spec, "containers"), 0);
    if (!container) {
        return co_err_set(err, CO_INVALID, "pod \"%s\" has no container", pod->name);
    }
    notes_about(rd, spec);
    const json_t *said = json_object_get(spec, "terminationGracePeriodSeconds");
    int64_t grace = json_integer_value(said);
    rd->pods->says_grace = rd->pods->says_grace || (json_is_integer(said) && grace >= 0);
    grace = grace < GRACE_MAX_S ? grace : GRACE_MAX_S;
    rd->pods->grace_s = grace > rd->pods->grace_s ? grace : rd->pods->grace_s;
    CO_TRY(read_environment(rd, obj, container, pod, err));
    CO_TRY(read_command(rd, container, pod, err));
    const char *role = job_env_get(&pod->env, co_contract[CO_VAR_TRAINING_ROLE].name);
    pod->server = co_streq(role, co_contract_role_ps);
    return 0;
}

static int fill_pods(struct pods_reader *rd, struct co_err *err) {
    size_t i, n = 0;
    const json_t *obj;
    json_array_foreach(rd->objects, i, obj) {
        if (is_kind(obj, "Pod")) {
            CO_TRY(fill_pod(rd, obj, &rd->pods->item[n++], err));
        }
    }
    return 0;
}

static void reader_done(struct pods_reader *rd) {
    co_map_done(&rd->addresses);
    co_json_decref(&rd->objects);
}

int local_pods_read(const char *name, const char *text, size_t len,
    const struct local_pods_options *options, struct local_pods *ret, struct co_err *err) {
    CO_CLEANUP(local_pods_done) struct local_pods pods = {.notes = CO_BUF(NOTES_MAX)};
    CO_CLEANUP(reader_done)
    struct pods_reader rd = {.options = options, .pods = &pods, .objects = json_array()};
    CO_TRY(read_documents(&rd, name, text, len, err));
    CO_TRY(name_pods(&rd, err));
    CO_TRY(fill_pods(&rd, err));
    *ret = pods;
    pods = (struct local_pods){0};
    return 0;
}

void local_pods_done(struct local_pods *p) {
    for (size_t i = 0; i < p->n; i++) {
        struct local_pod *pod = &p->item[i];
        for (char **w = pod->argv; w && *w; w++) {
            free(*w);
        }
        free(pod->argv);
        free(pod->name);
        free(pod->address);
        job_env_done(&pod->env);
    }
    free(p->item);
    free(p->job);
    co_buf_done(&p->notes);
    *p = (struct local_pods){0};
}
