/* Makes this node's offer from its free ports.  See offer.h. */
#include "runtime/launch/job/offer.h"

#include "common/parse.h"

static char *make_endpoint(const struct rl_job *j, uint16_t port) {
    char text[CO_HOST_MAX + 10];
    co_hostport_format(j->ip, port, text, sizeof(text));
    return co_xstrdup(text);
}

size_t rl_offer_spare(const struct rl_job *j) {
    return j->mode == RL_MODE_PS ? j->n_ports - 1 : 0;
}

void rl_offer_make(const struct rl_job *j, const uint16_t *ports, struct rl_offer *ret) {
    struct rl_offer o = {.stages = j->stages};
    if (j->n[RL_SEAT_HETER] == 0) {
        o.stages.n = 0;
    }
    if (j->mode != RL_MODE_PS) {
        o.candidate = make_endpoint(j, *ports++);
    }
    for (int s = 0; s < RL_SEAT_COUNT; s++) {
        for (size_t i = 0; i < j->n[s]; i++) {
            rl_list_add_own(&o.endpoints[s], make_endpoint(j, *ports++));
        }
    }
    if (j->mode == RL_MODE_PS) {
        o.gloo_port = *ports;
    }
    *ret = o;
}

void rl_offer_done(struct rl_offer *o) {
    for (int s = 0; s < RL_SEAT_COUNT; s++) {
        rl_list_done(&o->endpoints[s]);
    }
    free(o->candidate);
    *o = (struct rl_offer){.gloo_port = 0};
}
