/* For programs that are linked statically: names are looked up in /etc/hosts and DNS alone, which
 * are part of the program.  For any other word of /etc/nsswitch.conf the C library would load a
 * module of the image it runs in, which belongs to another version of itself: a crash. */
#include <nss.h>

__attribute__((constructor)) static void look_names_up_alone(void) {
    static const char *const others[] = {"aliases", "ethers", "group", "gshadow", "initgroups",
        "netgroup", "networks", "passwd", "protocols", "publickey", "rpc", "services", "shadow"};
    (void)__nss_configure_lookup("hosts", "files dns");
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)__nss_configure_lookup(others[i], "files");
    }
}
