/* dlopen and dlsym behind a table. */
#include "common/library.h"

#include <dlfcn.h>
#include <string.h>

#include "common/mem.h"

static const char *reason(void) {
    const char *why = dlerror();
    return why ? why : "no reason is given";
}

int co_library_open(const char *folder, const char *file, const struct co_symbol *symbols, size_t n,
    void *ret_functions, struct co_err *err) {
    CO_AUTOFREE char *path =
        folder && *folder ? co_xasprintf("%s/%s", folder, file) : co_xstrdup(file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return co_err_set(err, CO_UNSUPPORTED, "cannot load the library %s: %s", file, reason());
    }
    for (size_t i = 0; i < n; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (!function && !symbols[i].optional) {
            return co_err_set(err, CO_UNSUPPORTED,
                "the library %s has no function %s: it is not "
                "the version that is needed",
                path, symbols[i].name);
        }
        memcpy((char *)ret_functions + symbols[i].offset, &function, sizeof(function));
    }
    return 0;
}
