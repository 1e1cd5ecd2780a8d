/* Encodes and decodes a node's offer as JSON.  See value.h. */
#include "runtime/launch/job/value.h"

#include <string.h>

#include "common/json/json.h"
#include "common/parse.h"

static const char *const role_keys[JOB_ROLE_COUNT] = {
    [JOB_ROLE_SERVER] = "servers",
    [JOB_ROLE_TRAINER] = "trainers",
    [JOB_ROLE_HETER] = "heters", /* by stage; Paddle's value has no such list */
};

/* ---- encoding ---------------------------------------------------------------------------- */

static json_t *list_json(const struct options_list *l) {
    json_t *list = json_array();
    for (size_t i = 0; i < l->n; i++) {
        co_json_append(list, co_json_string(l->item[i]));
    }
    return list;
}

static json_t *stages_json(const struct job_offer *offer) {
    json_t *stages = json_array();
    for (size_t i = 0; i < offer->stages.n; i++) {
        const struct options_list part =
            job_stages_part(&offer->stages, &offer->endpoints[JOB_ROLE_HETER], i);
        co_json_append(stages, list_json(&part));
    }
    return stages;
}

char *job_value_encode(const struct job *j, const struct job_offer *offer) {
    static const char *const dtypes[] = {
        [JOB_DEVICE_CPU] = "cpu",
        [JOB_DEVICE_GPU] = "gpu",
        [JOB_DEVICE_XPU] = "xpu",
        [JOB_DEVICE_CUSTOM] = "custom_device",
    };
    const struct options_list *trainers = &offer->endpoints[JOB_ROLE_TRAINER];
    CO_AUTOJSON json_t *o = json_object();
    co_json_set(o, "name", co_json_string(j->node->pod));
    co_json_set(o, "rank", json_integer(j->rank));
    if (j->mode == JOB_MODE_PS) {
        co_json_set(o, role_keys[JOB_ROLE_SERVER], list_json(&offer->endpoints[JOB_ROLE_SERVER]));
        co_json_set(o, role_keys[JOB_ROLE_TRAINER], list_json(trainers));
        if (offer->stages.n) {
            co_json_set(o, role_keys[JOB_ROLE_HETER], stages_json(offer));
        }
        co_json_set(o, "dtype", co_json_string(dtypes[j->node->device]));
        co_json_set(o, "gloo_port", json_integer(offer->gloo_port));
    } else {
        CO_AUTOFREE char *joined = options_list_join(trainers, ",");
        co_json_set(o, "replicas", json_integer((json_int_t)trainers->n));
        co_json_set(o, "dtype", co_json_string(dtypes[j->node->device]));
        co_json_set(o, "candidate", co_json_string(offer->candidate));
        co_json_set(o, "endpoints", co_json_string(joined));
    }
    return co_json_dump(o);
}

/* ---- decoding, of texts that any node may have sent -------------------------------------- */

static int check_endpoints(const struct options_list *l, const char *what, struct co_err *err) {
    struct co_hostport hp;
    for (size_t i = 0; i < l->n; i++) {
        CO_TRY(co_parse_hostport(what, l->item[i], &hp, err));
    }
    return 0;
}

static void add_texts(const json_t *list, struct options_list *ret) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        options_list_add(ret, text ? text : "");
    }
}

static int decode_role(
    const json_t *o, enum job_role role, struct job_offer *offer, struct co_err *err) {
    json_t *list = NULL;
    CO_TRY(co_json_get(o, role_keys[role], JSON_ARRAY, &list, err));
    add_texts(list, &offer->endpoints[role]);
    return check_endpoints(&offer->endpoints[role], role_keys[role], err);
}

/* Reads the heterogeneous workers, a list per stage, if there are any. */
static int decode_stages(const json_t *o, struct job_offer *offer, struct co_err *err) {
    struct options_list *heters = &offer->endpoints[JOB_ROLE_HETER];
    json_t *stages = NULL;
    int r = co_json_get(o, role_keys[JOB_ROLE_HETER], JSON_ARRAY, &stages, err);
    if (r) {
        return r == CO_NOTFOUND ? 0 : r;
    }
    const size_t n = json_array_size(stages);
    if (n > JOB_STAGES_MAX) {
        return co_err_set(
            err, CO_INVALID, "%zu stages, expected at most %d", n, (int)JOB_STAGES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t before = heters->n;
        add_texts(json_array_get(stages, i), heters);
        offer->stages.size[i] = heters->n - before;
    }
    offer->stages.n = n;
    return check_endpoints(heters, role_keys[JOB_ROLE_HETER], err);
}

/* Gloo's rendezvous is on server 0's host, at a port that is free there. */
static int decode_gloo(
    const struct job *j, const json_t *o, struct job_offer *offer, struct co_err *err) {
    int64_t port = 0;
    if (offer->endpoints[JOB_ROLE_SERVER].n == 0 || j->options->number[OPTIONS_OPT_HTTP_PORT] > 0) {
        return 0;
    }
    int r = co_json_get_i64(o, "gloo_port", 1, UINT16_MAX, &port, err);
    offer->gloo_port = (uint16_t)port;
    return r;
}

static int decode_collective(const json_t *o, struct job_offer *offer, struct co_err *err) {
    const char *candidate = NULL, *endpoints = NULL;
    CO_TRY(co_json_get_str(o, "candidate", &candidate, err));
    CO_TRY(co_json_get_str(o, "endpoints", &endpoints, err));
    offer->candidate = co_xstrdup(candidate);
    options_list_split(&offer->endpoints[JOB_ROLE_TRAINER], endpoints);
    return check_endpoints(&offer->endpoints[JOB_ROLE_TRAINER], "endpoints", err);
}

static int decode_ps(
    const struct job *j, const json_t *o, struct job_offer *offer, struct co_err *err) {
    CO_TRY(decode_role(o, JOB_ROLE_SERVER, offer, err));
    CO_TRY(decode_gloo(j, o, offer, err));
    CO_TRY(decode_role(o, JOB_ROLE_TRAINER, offer, err));
    return decode_stages(o, offer, err);
}

int job_value_decode(
    const struct job *j, size_t node, const char *text, struct job_offer *ret, struct co_err *err) {
    struct job_offer offer = {.gloo_port = 0};
    CO_AUTOJSON json_t *o = NULL;
    int r = co_json_parse(text, strlen(text), &o, err);
    if (!r) {
        r = j->mode == JOB_MODE_PS ? decode_ps(j, o, &offer, err)
                                   : decode_collective(o, &offer, err);
    }
    if (r) {
        job_offer_done(&offer);
        (void)co_err_wrap(err,
            "node %zu sent \"%.200s\", expected what a launcher in mode %s sends", node, text,
            job_mode_name[j->mode]);
        return CO_INVALID;
    }
    *ret = offer;
    return 0;
}
