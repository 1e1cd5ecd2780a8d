/* First byte: who speaks.  A launcher's header, a node's key, the master's answer, Paddle's
 * listing: nothing may crash, and what is accepted can be said again. */
#include "runtime/launch/rendezvous/wire.h"

#include <string.h>

#include "runtime/launch/rendezvous/poll.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hello(const char *text, bool leave) {
    struct rdzv_wire_hello h, again;
    char said[RDZV_WIRE_TEXT];
    if (rdzv_wire_hello_parse(text, leave, &h, NULL) == 0) {
        rdzv_wire_hello_format(&h, leave, said);
        if (rdzv_wire_hello_parse(said, leave, &again, NULL) || again.round != h.round ||
            again.code != h.code || again.max != h.max || strcmp(again.host, h.host) != 0) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    CO_AUTOFREE char *text = co_xstrndup((const char *)data + 1, size - 1);
    struct co_err err = {0};
    char name[CO_HOST_MAX];
    int rank;
    struct rdzv_wire_answer a = {0};
    struct rdzv_poll_round round = {
        .prefix_job = "j", .name = "aaaaaa", .size = 2, .sort_ip = size % 2};
    switch (data[0] % 5) {
    case 0:
    case 1:
        hello(text, data[0] % 5);
        break;
    case 2:
        (void)!rdzv_wire_key_parse(text, name, &rank, &err);
        break;
    case 3:
        if (rdzv_wire_answer_parse((const char *)data + 1, size - 1, &a, &err) == 0) {
            rdzv_wire_answer_done(&a);
        } else if (!err.code) {
            abort();
        }
        break;
    default:
        if (rdzv_poll_parse((const char *)data + 1, size - 1, &round, &err) == 0 &&
            round.complete && (round.n != 2 || round.self >= 2)) {
            abort();
        }
        rdzv_poll_done(&round);
    }
    return 0;
}
