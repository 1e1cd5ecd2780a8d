/* Anything that a credential plugin may print: refused with a reason, or something to sign in with
 * that fits into one header. */
#include "operator/kube/exec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct kube_exec e = {.api_version = (char[]){"client.authentication.k8s.io/v1"}};
    struct kube_exec_result r = {0};
    struct co_err err = {0};
    if (kube_exec_parse(&e, (const char *)data, size, &r, &err)) {
        if (r.token || r.cert || r.key || !err.msg[0]) {
            abort();
        }
        return 0;
    }
    if (!r.cert != !r.key || (r.token && strpbrk(r.token, "\r\n"))) {
        abort();
    }
    kube_exec_result_done(&r);
    return 0;
}
