/* Job tokens from getrandom(2). */
#include "common/token.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/base64.h"

int co_token_new(char **ret, struct co_err *err) {
    unsigned char random[32];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return co_err_set(err, CO_INTERNAL, "no random bytes for a token: %s", strerror(errno));
    }
    *ret = co_base64(random, sizeof(random));
    return 0;
}
