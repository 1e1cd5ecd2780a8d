/* Reads lists of hosts and endpoints.  See address_lists.h. */
#include "runtime/launch/job/address_lists.h"

#include <string.h>

#include "common/parse.h"

enum {
    LEGACY_PORT = 6170, /* first port of trainers that are listed without a port, as in Paddle */
    HOSTS_PORT = 6768,  /* of the master, when the environment lists hosts without ports */
};

char *job_host_bare(const char *host) {
    size_t n = strlen(host);
    bool brackets = n > 2 && host[0] == '[' && host[n - 1] == ']';
    return brackets ? co_xstrndup(host + 1, n - 2) : co_xstrdup(host);
}

/* The host of "host:port", "[v6]:port" or "host"; the caller frees. */
static char *host_of(const char *endpoint) {
    struct co_hostport hp;
    if (co_parse_hostport("endpoint", endpoint, &hp, NULL) == 0) {
        return co_xstrdup(hp.host);
    }
    return job_host_bare(endpoint);
}

static void distinct_hosts(const struct options_list *endpoints, struct options_list *ret) {
    for (size_t i = 0; i < endpoints->n; i++) {
        CO_AUTOFREE char *host = host_of(endpoints->item[i]);
        if (!options_list_has(ret, host)) {
            options_list_add(ret, host);
        }
    }
}

/* Finds this node among the hosts: by rank, else by address. */
static int find_self(struct job *j, const char *what, struct co_err *err) {
    if (j->rank >= 0 && (size_t)j->rank < j->hosts.n) {
        return 0;
    }
    for (size_t i = 0; i < j->hosts.n; i++) {
        if (strcmp(j->hosts.item[i], j->ip) == 0) {
            j->rank = (int)i;
            return 0;
        }
    }
    CO_AUTOFREE char *list = options_list_join(&j->hosts, ",");
    return co_err_set(err, CO_INVALID,
        "this node's address \"%s\" is not in %s \"%.300s\": expected --host or POD_IP to be one "
        "of them, or --rank to say which",
        j->ip, what, list);
}

static bool has_port(const char *endpoint) {
    struct co_hostport hp;
    return co_parse_hostport("endpoint", endpoint, &hp, NULL) == 0;
}

/* ---- lists -------------------------------------------------------------------------------- */

/* Hosts without ports: there must be a rendezvous, at the first host. */
static int list_hosts(struct job *j, const char *name, struct co_err *err) {
    char text[CO_HOST_MAX + 10];
    for (size_t i = 0; i < j->endpoints.n; i++) {
        if (has_port(j->endpoints.item[i])) {
            return co_err_set(err, CO_INVALID,
                "%s has \"%.100s\" and \"%.100s\", expected a port for all or for none", name,
                j->endpoints.item[0], j->endpoints.item[i]);
        }
    }
    co_hostport_format(j->hosts.item[0], HOSTS_PORT, text, sizeof(text));
    free(j->held);
    j->master = j->held = co_xstrdup(text);
    j->discovery = JOB_DISCOVERY_MEET;
    return 0;
}

int job_discovery_endpoints(struct job *j, const char *name, const char *text, struct co_err *err) {
    options_list_split(&j->endpoints, text);
    distinct_hosts(&j->endpoints, &j->hosts);
    CO_AUTOFREE char *list = options_list_python(j->endpoints.item, j->endpoints.n);
    options_list_add_own(&j->notes, co_xasprintf("INFO args reset by env %s\n%s", name, list));
    j->nodes_min = j->nodes_max = (int)j->hosts.n;
    j->discovery = j->hosts.n > 1 ? JOB_DISCOVERY_ENDPOINTS : JOB_DISCOVERY_ALONE;
    if (j->hosts.n < 2) {
        return 0;
    }
    return has_port(j->endpoints.item[0]) ? find_self(j, name, err) : list_hosts(j, name, err);
}

int job_discovery_ips(struct job *j, const char *name, const char *text, struct co_err *err) {
    options_list_split(&j->hosts, text);
    if (j->hosts.n == 0) {
        return co_err_set(
            err, CO_INVALID, "%s is \"%.300s\", expected hosts separated by commas", name, text);
    }
    for (size_t i = 0; i < j->hosts.n; i++) {
        char *host = job_host_bare(j->hosts.item[i]);
        free(j->hosts.item[i]);
        j->hosts.item[i] = host;
    }
    if (j->hosts.n > 1 && options_list_has(&j->hosts, "127.0.0.1")) {
        return co_err_set(err, CO_INVALID,
            "127.0.0.1 in ips is not allowed in multi-nodes: %s is \"%s\"", name, text);
    }
    if (j->hosts.n == 1) {
        j->rank = 0;
    }
    j->nodes_min = j->nodes_max = (int)j->hosts.n;
    j->discovery = JOB_DISCOVERY_IPS;
    return find_self(j, name, err);
}

/* Adds ports to endpoints without one, as Paddle's old launcher does: they count on from
 * LEGACY_PORT over all kinds of processes, of which n_before endpoints come first. */
static void complete_ports(struct options_list *l, size_t n_before) {
    for (size_t i = 0; i < l->n; i++) {
        if (!has_port(l->item[i])) {
            char text[CO_HOST_MAX + 10];
            CO_AUTOFREE char *host = host_of(l->item[i]);
            co_hostport_format(host, (unsigned)(LEGACY_PORT + n_before + i), text, sizeof(text));
            free(l->item[i]);
            l->item[i] = co_xstrdup(text);
        }
    }
}

static int check_count(const struct job *j, enum options_option number, enum options_option list,
    size_t n, struct co_err *err) {
    const struct options *o = j->options;
    if (options_option_given(o, number) && o->number[number] >= 0 &&
        (size_t)o->number[number] != n) {
        return co_err_set(err, CO_INVALID,
            "--%s is %s, but --%s has %zu endpoints: expected them to agree",
            options_option_rows[number].name, o->text[number], options_option_rows[list].name, n);
    }
    return 0;
}

/* Reads --heter_workers and checks that --heter_worker_num agrees with it in every stage. */
static int list_heters(struct job *j, struct co_err *err) {
    const struct options *o = j->options;
    struct job_stages counts = {0};
    if (options_option_has(o, OPTIONS_OPT_HETER_WORKERS)) {
        CO_TRY(job_stages_parse_endpoints("--heter_workers", o->text[OPTIONS_OPT_HETER_WORKERS],
            &j->stages, &j->listed[JOB_ROLE_HETER], err));
    }
    if (options_option_has(o, OPTIONS_OPT_HETER_WORKER_NUM)) {
        CO_TRY(job_stages_parse(
            "--heter_worker_num", o->text[OPTIONS_OPT_HETER_WORKER_NUM], &counts, err));
        if (!job_stages_equal(&counts, &j->stages)) {
            return co_err_set(err, CO_INVALID,
                "--heter_worker_num is \"%.100s\", --heter_workers \"%.300s\": expected them to "
                "agree in every stage",
                o->text[OPTIONS_OPT_HETER_WORKER_NUM], o->text[OPTIONS_OPT_HETER_WORKERS]);
        }
    }
    return 0;
}

int job_discovery_lists(struct job *j, enum options_option trainers_id, struct co_err *err) {
    options_list_split(&j->listed[JOB_ROLE_SERVER], j->options->text[OPTIONS_OPT_SERVERS]);
    options_list_split(&j->listed[JOB_ROLE_TRAINER], j->options->text[trainers_id]);
    const size_t n_servers = j->listed[JOB_ROLE_SERVER].n,
                 n_trainers = j->listed[JOB_ROLE_TRAINER].n;
    CO_TRY(check_count(j, OPTIONS_OPT_SERVER_NUM, OPTIONS_OPT_SERVERS, n_servers, err));
    CO_TRY(check_count(j, OPTIONS_OPT_WORKER_NUM, trainers_id, n_trainers, err));
    CO_TRY(list_heters(j, err));
    complete_ports(&j->listed[JOB_ROLE_TRAINER], n_servers);
    complete_ports(&j->listed[JOB_ROLE_HETER], n_servers + n_trainers);
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        distinct_hosts(&j->listed[s], &j->hosts);
    }
    if (options_list_has(&j->hosts, "127.0.0.1")) {
        j->ip = "127.0.0.1";
    }
    j->discovery = JOB_DISCOVERY_LISTS;
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        for (size_t i = 0; i < j->listed[s].n; i++) {
            CO_AUTOFREE char *host = host_of(j->listed[s].item[i]);
            j->n[s] += strcmp(host, j->ip) == 0;
        }
    }
    if (job_processes(j) == 0) {
        CO_AUTOFREE char *list = options_list_join(&j->hosts, ",");
        return co_err_set(err, CO_INVALID,
            "no endpoint of --servers and --trainers is on this node, \"%s\": expected --host or "
            "POD_IP to be one of \"%.300s\"",
            j->ip, list);
    }
    return 0;
}
