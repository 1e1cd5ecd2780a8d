#include "runtime/launch/job/value.h"

#include "common/json.h"
#include "common/parse.h"

static json_t *endpoint(const struct rl_job *j, uint16_t port) {
    char text[CO_HOST_MAX + 10];
    co_hostport_format(j->ip, port, text, sizeof(text));
    return co_json_string(text);
}

static json_t *endpoints(const struct rl_job *j, size_t n, const uint16_t **ports) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        co_json_append(list, endpoint(j, *(*ports)++));
    }
    return list;
}

static void add_joined(json_t *o, const struct rl_job *j, const uint16_t *ports) {
    struct rl_list l = {0};
    for (size_t i = 0; i < j->n[RL_SEAT_TRAINER]; i++) {
        char text[CO_HOST_MAX + 10];
        co_hostport_format(j->ip, ports[i], text, sizeof(text));
        rl_list_add(&l, text);
    }
    CO_AUTOFREE char *joined = rl_list_join(&l, ",");
    co_json_set(o, "endpoints", co_json_string(joined));
    rl_list_done(&l);
}

char *rl_job_value(const struct rl_job *j, const uint16_t *ports) {
    static const char *const dtypes[] = {
        [RL_DEVICE_CPU] = "cpu",
        [RL_DEVICE_GPU] = "gpu",
        [RL_DEVICE_XPU] = "xpu",
        [RL_DEVICE_CUSTOM] = "custom_device",
    };
    CO_AUTOJSON json_t *o = json_object();
    co_json_set(o, "name", co_json_string(j->node->pod));
    co_json_set(o, "rank", json_integer(j->rank));
    if (j->mode == RL_MODE_PS) {
        co_json_set(o, "servers", endpoints(j, j->n[RL_SEAT_SERVER], &ports));
        co_json_set(o, "trainers", endpoints(j, j->n[RL_SEAT_TRAINER], &ports));
        if (j->n[RL_SEAT_HETER]) { /* by stage; Paddle's value has no such list */
            json_t *stages = json_array();
            for (size_t i = 0; i < j->stages.n; i++) {
                co_json_append(stages, endpoints(j, j->stages.size[i], &ports));
            }
            co_json_set(o, "heters", stages);
        }
        co_json_set(o, "dtype", co_json_string(dtypes[j->node->device]));
        co_json_set(o, "gloo_port", json_integer(*ports));
    } else {
        co_json_set(o, "replicas", json_integer((json_int_t)j->n[RL_SEAT_TRAINER]));
        co_json_set(o, "dtype", co_json_string(dtypes[j->node->device]));
        co_json_set(o, "candidate", endpoint(j, ports[0]));
        add_joined(o, j, ports + 1);
    }
    return co_json_dump(o);
}
