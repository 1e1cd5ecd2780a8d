/* The input is what `paddlerun local` reads.  Nothing may crash; what is accepted can be
 * started. */
#include "runtime/launch/local/pods.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *const envp[] = {(char *)"PATH=/bin", NULL};
    static const struct local_image image = {"a", "b"};
    const struct local_pods_options options = {
        .images = &image, .n_images = 1, .bin_dir = "/bin", .token = "t", .envp = envp};
    struct local_pods pods = {0};
    struct co_err err = {0};
    int r = local_pods_read("input", (const char *)data, size, &options, &pods, &err);
    if (r ? !err.code : pods.n == 0) {
        abort();
    }
    for (size_t i = 0; i < pods.n; i++) {
        if (!pods.item[i].argv || !pods.item[i].argv[0] || !pods.item[i].env.item) {
            abort();
        }
    }
    local_pods_done(&pods);
    return 0;
}
