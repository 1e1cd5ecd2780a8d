/* Reads and checks the hosts of a job (conf.h), from Python or YAML. */
#include "runtime/legacy/cluster/conf.h"

#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/parse.h"
#include "common/yaml/yaml.h"

enum { FILE_MAX = 1 << 20, WORD_MAX = 255 };

/* Whether the text is safe in ssh's command line: no option, no blank, nothing special to a shell.
 */
static bool is_word(const char *s) {
    return *s && *s != '-' && strlen(s) <= WORD_MAX &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               strlen(s);
}

static bool is_v6(const char *s) {
    return *s && strlen(s) < 64 && strspn(s, "0123456789abcdefABCDEF:.") == strlen(s);
}

/* "user@name:port"; "[v6]:port" for addresses with colons. */
static int host_read(
    const char *file, const char *text, struct cluster_host *ret, struct co_err *err) {
    const char *at = strrchr(text, '@');
    const char *name = at ? at + 1 : text;
    const char *colon = strrchr(name, ':');
    const char *close = *name == '[' ? strchr(name, ']') : NULL;
    int64_t port = 0;
    if (close && colon < close) {
        colon = NULL;
    }
    CO_AUTOFREE char *user = at ? co_xstrndup(text, (size_t)(at - text)) : co_xstrdup("");
    CO_AUTOFREE char *bare = close   ? co_xstrndup(name + 1, (size_t)(close - name - 1))
                             : colon ? co_xstrndup(name, (size_t)(colon - name))
                                     : co_xstrdup(name);
    bool tail = !close || !close[1] || colon == close + 1;
    if ((at && !is_word(user)) || !tail || !(close ? is_v6(bare) : is_word(bare)) ||
        (colon && co_parse_i64("port", colon + 1, 1, UINT16_MAX, &port, NULL))) {
        return co_err_set(err, CO_INVALID,
            "%s: HOSTS has \"%.100s\", expected user@host or user@host:port", file, text);
    }
    *ret = (struct cluster_host){
        .user = co_steal_ptr(user), .name = co_steal_ptr(bare), .port = (uint16_t)port};
    return 0;
}

static int hosts_read(
    const char *file, const json_t *list, struct cluster_conf *ret, struct co_err *err) {
    size_t n = json_array_size(list);
    if (n < 1 || n > CLUSTER_HOSTS_MAX) {
        return co_err_set(err, CO_INVALID, "%s: HOSTS is %s, expected a list of 1 to %d hosts",
            file, list ? "of another kind or length" : "not there", (int)CLUSTER_HOSTS_MAX);
    }
    ret->hosts = co_xcalloc(n, sizeof(*ret->hosts));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        CO_TRY(host_read(file, text ? text : "", &ret->hosts[i], err));
        ret->n_hosts++;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(ret->hosts[k].name, ret->hosts[i].name) == 0) {
                return co_err_set(err, CO_INVALID,
                    "%s: HOSTS has %s twice: its servers would listen on the same ports", file,
                    ret->hosts[i].name);
            }
        }
    }
    return 0;
}

static int text_read(const char *file, const json_t *values, const char *key, const char *def,
    char **ret, struct co_err *err) {
    const json_t *j = json_object_get(values, key);
    const char *text = j ? json_string_value(j) : def;
    if (!text || strpbrk(text, "\r\n")) {
        return co_err_set(err, CO_INVALID, "%s: %s is not a line of text", file, key);
    }
    *ret = co_xstrdup(text);
    return 0;
}

static int number_read(const char *file, const json_t *values, const char *key, int64_t def,
    int64_t min, int64_t max, int64_t *ret, struct co_err *err) {
    const json_t *j = json_object_get(values, key);
    int64_t v = j ? json_integer_value(j) : def;
    if ((j && !json_is_integer(j)) || v < min || v > max) {
        return co_err_set(err, CO_INVALID, "%s: %s is not a number from %lld to %lld", file, key,
            (long long)min, (long long)max);
    }
    *ret = v;
    return 0;
}

int cluster_conf_decode(
    const char *name, const json_t *values, struct cluster_conf *ret, struct co_err *err) {
    struct cluster_conf c = {.n_hosts = 0};
    const struct {
        const char *key, *def;
        char **to;
    } texts[] = {
        {"ROOT_DIR", "/home/paddle", &c.root_dir},
        {"PADDLE_NIC", "", &c.nic},
        {"LD_LIBRARY_PATH", "", &c.ld_library_path},
    };
    const struct {
        const char *key;
        int64_t def, min, max, *to;
    } numbers[] = {
        {"PADDLE_PORT", 7164, 1, UINT16_MAX, &c.port},
        {"PADDLE_PORTS_NUM", 2, 1, 1000, &c.ports_num},
        {"PADDLE_PORTS_NUM_FOR_SPARSE", 2, 0, 1000, &c.ports_num_for_sparse},
    };
    int r = hosts_read(name, json_object_get(values, "HOSTS"), &c, err);
    for (size_t i = 0; !r && i < CO_ARRAY_LEN(texts); i++) {
        r = text_read(name, values, texts[i].key, texts[i].def, texts[i].to, err);
    }
    for (size_t i = 0; !r && i < CO_ARRAY_LEN(numbers); i++) {
        r = number_read(name, values, numbers[i].key, numbers[i].def, numbers[i].min,
            numbers[i].max, numbers[i].to, err);
    }
    const char *root = c.root_dir ? c.root_dir : "";
    if (!r && *root != '/') {
        r = co_err_set(
            err, CO_INVALID, "%s: ROOT_DIR is \"%.100s\", expected an absolute path", name, root);
    }
    if (r) {
        cluster_conf_done(&c);
        return r;
    }
    *ret = c;
    return 0;
}

static int values_read(
    const char *path, const struct co_buf *text, json_t **ret, struct co_err *err) {
    const char *data = text->data ? text->data : "";
    if (!co_ends_with(path, ".yaml") && !co_ends_with(path, ".yml")) {
        return cluster_python_read(path, data, text->len, ret, err);
    }
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    int r = co_yaml_open(path, data, text->len, &y, err);
    if (!r) {
        r = co_yaml_next(y, ret, err);
    }
    return r == CO_NOTFOUND ? co_err_set(err, CO_INVALID, "%s is empty, expected HOSTS", path) : r;
}

int cluster_conf_load(const char *path, struct cluster_conf *ret, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(FILE_MAX);
    CO_AUTOJSON json_t *values = NULL;
    CO_TRY(co_file_read(path, FILE_MAX, &text, err));
    CO_TRY(values_read(path, &text, &values, err));
    return cluster_conf_decode(path, values, ret, err);
}

void cluster_conf_done(struct cluster_conf *c) {
    for (size_t i = 0; i < c->n_hosts; i++) {
        free(c->hosts[i].user);
        free(c->hosts[i].name);
    }
    free(c->hosts);
    free(c->root_dir);
    free(c->nic);
    free(c->ld_library_path);
    *c = (struct cluster_conf){.n_hosts = 0};
}
