/* Reads a machine's address and programs from the system.  See machine.h. */
#include "runtime/launch/node/machine.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/parse.h"
#include "runtime/launch/node/devices.h"

/* ---- address ----------------------------------------------------------------------------- */

static char *format_address(const struct sockaddr *a, socklen_t len) {
    char text[INET6_ADDRSTRLEN];
    if (getnameinfo(a, len, text, sizeof(text), NULL, 0, NI_NUMERICHOST)) {
        return NULL;
    }
    return co_xstrdup(text);
}

static char *find_address_of_name(void) {
    char name[HOST_NAME_MAX + 1] = "";
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *a = NULL;
    /* no deadline: the resolver has one of its own */
    if (gethostname(name, sizeof(name) - 1) || getaddrinfo(name, NULL, &hints, &a)) {
        return co_xstrdup("127.0.0.1");
    }
    char *text = format_address(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(a);
    return text ? text : co_xstrdup("127.0.0.1");
}

/* The address from which this machine would send to other nodes.  It is needed when the host name
 * is 127.0.1.1 in /etc/hosts, which other nodes cannot use.  Connecting a UDP socket makes the
 * kernel choose the address without sending anything.  NULL: not found. */
static char *find_address_towards(const char *others) {
    const char *scheme = strstr(others, "://");
    struct co_hostport hp;
    if (co_parse_hostport("other nodes", scheme ? scheme + 3 : others, &hp, NULL)) {
        return NULL;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *a = NULL;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", hp.port);
    /* no deadline: the resolver has one of its own */
    if (getaddrinfo(hp.host, port, &hints, &a)) {
        return NULL;
    }
    CO_AUTOCLOSE int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    char *text = NULL;
    /* no wait: a datagram socket sends nothing to connect */
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &len) == 0) {
        text = format_address((struct sockaddr *)&own, len);
    }
    freeaddrinfo(a);
    return text;
}

static char *find_address(const char *others) {
    CO_AUTOFREE char *own = find_address_of_name();
    bool local = strncmp(own, "127.", 4) == 0;
    char *better = local && others ? find_address_towards(others) : NULL;
    return better ? better : co_steal_ptr(own);
}

/* ---- program and name -------------------------------------------------------------------- */

/* The interpreter of the virtual environment, or other home of Python, that this program was
 * installed into, wherever a link to it may be: as of Python's own scripts.  Not in the system's
 * folders: a package or a Dockerfile puts this program there, which says nothing about Python. */
static char *find_beside(const char *program) {
    static const char *const system[] = {"/usr/local/bin", "/usr/bin", "/bin"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash) {
        return NULL;
    }
    *slash = '\0';
    for (size_t i = 0; i < CO_ARRAY_LEN(system); i++) {
        if (strcmp(self, system[i]) == 0) {
            return NULL;
        }
    }
    CO_AUTOFREE char *file = co_xasprintf("%s/%s", self, program);
    return access(file, X_OK) == 0 ? co_steal_ptr(file) : NULL;
}

char *node_python(bool *ret_named) {
    static char *(*const where[])(const char *program) = {find_beside, co_path_find};
    const char *named = co_contract_getenv(CO_VAR_PYTHON);
    *ret_named = named != NULL;
    if (named) {
        return co_xstrdup(named);
    }
    char *found = NULL;
    for (size_t i = 0; i < CO_ARRAY_LEN(where) && !found; i++) {
        found = where[i]("python3");
        found = found ? found : where[i]("python");
    }
    return found ? found : co_xstrdup("python3"); /* starting it reports that there is none */
}

static char *make_pod_name(void) {
    unsigned char random[6] = {0};
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random)) {
        unsigned pid = (unsigned)getpid();
        memcpy(random, &pid, sizeof(pid));
    }
    char *name = co_xcalloc(sizeof(random) + 1, 1);
    for (size_t i = 0; i < sizeof(random); i++) {
        name[i] = (char)('a' + random[i] % 26);
    }
    return name;
}

void node_look(const char *others, bool wants_address, struct job_node *ret) {
    char dir[PATH_MAX];
    *ret = (struct job_node){.device = JOB_DEVICE_CPU};
    ret->ip = wants_address ? find_address(others) : co_xstrdup("127.0.0.1");
    ret->pod = make_pod_name();
    ret->python = node_python(&ret->python_named);
    ret->dir = co_xstrdup(getcwd(dir, sizeof(dir)) ? dir : "");
    char host[HOST_NAME_MAX + 1] = "";
    bool named = gethostname(host, sizeof(host) - 1) == 0 && *host && !strchr(host, '/');
    ret->host = named ? co_xstrdup(host) : NULL;
    ret->in_pod =
        co_contract_getenv_of("KUBERNETES_SERVICE_HOST") != NULL; /* kubelet sets it in every pod */
    node_devices_find("/dev", ret);
}

void node_done(struct job_node *n) {
    free(n->ip);
    free(n->pod);
    free(n->python);
    free(n->dir);
    free(n->host);
    options_list_done(&n->visible);
    *n = (struct job_node){.device = JOB_DEVICE_CPU};
}
