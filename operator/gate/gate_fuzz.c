/* A list of addresses, a NUL, and what came from the one that was asked: no answer but by a status
 * line, no reason that breaks a line, no size beyond the buffer. */
int gate_main(int argc, char **argv);
#define main gate_main
#include "operator/gate/gate.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char list[ANSWER_MAX + 1], answer[ANSWER_MAX + 1];
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    if (!nul || size > ANSWER_MAX) {
        return 0;
    }
    struct gate g = {.n_addrs = 0};
    memset(list, 0, sizeof(list));
    memset(answer, 0, sizeof(answer));
    memcpy(list, data, (size_t)(nul - data));
    memcpy(answer, nul + 1, size - (size_t)(nul + 1 - data));
    parse_addrs(&g, list);
    if (g.n_addrs > ADDRS_MAX) {
        abort();
    }
    size_t n = answer_size(answer);
    if (n != SIZE_MAX && n > 2 * (size_t)ANSWER_MAX + 4) {
        abort();
    }
    enum gate_answer v = judge_answer(&g, answer, "10.0.0.1:8082");
    if (v != NO_ANSWER && strncmp(answer, "HTTP/1.", 7) != 0) {
        abort();
    }
    if (strpbrk(g.why, "\r\n")) {
        abort();
    }
    return 0;
}
