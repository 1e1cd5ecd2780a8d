/* Finds the address of a network interface, for --nics. */
#include "runtime/legacy/pserver/nics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"

CO_DEFINE_CLEANUP(struct ifaddrs *, freeifaddrs)

/* IPv4 first, because trainers of 0.8 to 0.12 know nothing else. Link-local addresses are skipped:
 * they mean nothing without an interface, so they cannot be written as host:port. */
static bool find_address(const struct ifaddrs *all, const char *nic, size_t len, char ret[64]) {
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t f = 0; f < CO_ARRAY_LEN(families); f++) {
        for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
            if (!a->ifa_addr || a->ifa_addr->sa_family != families[f] ||
                strlen(a->ifa_name) != len || strncmp(a->ifa_name, nic, len) != 0) {
                continue;
            }
            const struct sockaddr_in *v4 = (const void *)a->ifa_addr;
            const struct sockaddr_in6 *v6 = (const void *)a->ifa_addr;
            const void *bytes =
                families[f] == AF_INET ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr;
            if (families[f] == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) {
                continue;
            }
            return inet_ntop(families[f], bytes, ret, 64) != NULL;
        }
    }
    return false;
}

static int not_there(const struct ifaddrs *all, const char *nic, size_t len, struct co_err *err) {
    CO_AUTOBUF struct co_buf names = CO_BUF(1000);
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && (a->ifa_flags & IFF_UP)) {
            (void)!co_buf_addf(&names, NULL, "%s%s", names.len ? ", " : "", a->ifa_name);
        }
    }
    return co_err_set(err, CO_NOTFOUND,
        "--nics: \"%.*s\" is not a network interface with an address, expected one of: %s",
        (int)(len < 60 ? len : 60), nic, names.data ? names.data : "(there are none)");
}

int pserver_nics_find(const char *list, struct pserver_nics *ret, struct co_err *err) {
    *ret = (struct pserver_nics){.n = 0};
    if (!*list) {
        (void)snprintf(ret->address[0], sizeof(ret->address[0]), "::");
        ret->n = 1;
        return 0;
    }
    CO_CLEANUP(freeifaddrsp) struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0) {
        return co_err_errno(err, errno, "network interfaces");
    }
    for (const char *p = list, *end; *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ',');
        if (ret->n == PSERVER_NICS_MAX) {
            return co_err_set(
                err, CO_INVALID, "--nics names more than %d interfaces", (int)PSERVER_NICS_MAX);
        }
        if (!find_address(all, p, (size_t)(end - p), ret->address[ret->n])) {
            return not_there(all, p, (size_t)(end - p), err);
        }
        ret->n++;
    }
    return 0;
}
