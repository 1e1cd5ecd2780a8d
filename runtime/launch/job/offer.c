/* Makes this node's offer from its free ports.  See offer.h. */
#include "runtime/launch/job/offer.h"

#include "common/parse.h"

static char *make_endpoint(const struct job *j, uint16_t port) {
    char text[CO_HOST_MAX + 10];
    co_hostport_format(j->ip, port, text, sizeof(text));
    return co_xstrdup(text);
}

size_t job_offer_spare(const struct job *j) {
    return j->mode == JOB_MODE_PS ? j->n_ports - 1 : 0;
}

void job_offer_make(const struct job *j, const uint16_t *ports, struct job_offer *ret) {
    struct job_offer o = {.stages = j->stages};
    if (j->n[JOB_ROLE_HETER] == 0) {
        o.stages.n = 0;
    }
    if (j->mode != JOB_MODE_PS) {
        o.candidate = make_endpoint(j, *ports++);
    }
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        for (size_t i = 0; i < j->n[s]; i++) {
            options_list_add_own(&o.endpoints[s], make_endpoint(j, *ports++));
        }
    }
    if (j->mode == JOB_MODE_PS) {
        o.gloo_port = *ports;
    }
    *ret = o;
}

void job_offer_done(struct job_offer *o) {
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        options_list_done(&o->endpoints[s]);
    }
    free(o->candidate);
    *o = (struct job_offer){.gloo_port = 0};
}
