/* Which GPU and which libraries a rank chooses, and what the error says if it has none.
 *
 *     gpu_test wheel        checks a real libnccl.so.2, as far as possible without a GPU
 *                           (make nccl-test)
 *     gpu_test say DEVICE   opens a group of one rank on DEVICE; prints the device's name or why
 *                           that failed
 *     gpu_test driver       can this user load a GPU driver, with this LD_LIBRARY_PATH? */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/gpu_testing.h"

static void on_any(const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    (void)w;
    (void)rank;
    ret->device = "gpu";
}

static int by_place(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    char device[16];
    (void)w;
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    if (strcmp(rt_group_device(g), device) != 0) {
        return co_err_set(err, CO_INTERNAL, "%s, not %s", rt_group_device(g), device);
    }
    return 0;
}

static void ranks_of_a_machine_take_a_gpu_each(void **state) {
    (void)state;
    struct coll_world w = {.n = 3, .set = on_any};
    assert_int_equal(world_run(&w, by_place), 0);
}

/* What a process of its own says of a device, with a setting: see main. */
static char *ask(const char *setting, const char *device) {
    static char text[600];
    CO_AUTOFREE char *command = co_xasprintf("%s '%s' say '%s'", setting, gk_self, device);
    FILE *f = popen(command, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = 0;
    (void)pclose(f);
    return text;
}

static const struct {
    const char *setting, *device, *says; /* $S in a setting: the stand-ins */
} answers[] = {
    {"", "cpu", "cpu\n"},
    {"", "gpu", "gpu:0\n"},
    {"", "gpu:3", "gpu:3\n"},
    {"FLAGS_selected_gpus=2", "gpu", "gpu:2\n"},
    {"FLAGS_selected_gpus=5,6", "gpu", "gpu:5\n"},
    {"FLAGS_selected_gpus=5", "gpu:1", "gpu:1\n"},
    {"FLAGS_selected_gpus=GPU-1", "gpu",
        "FLAGS_selected_gpus is \"GPU-1\": expected GPUs' numbers"},
    {"FLAGS_selected_gpus=8", "gpu", "no GPU 8: this process sees 8"},
    {"", "gpu:", "device \"gpu:\": expected cpu, gpu or gpu:N"},
    {"", "gpu:-1", "expected cpu, gpu or gpu:N"},
    {"", "xpu", "expected cpu, gpu or gpu:N"},
    {"FLAGS_nccl_dir=$S/plain", "gpu", "gpu:0\n"},
    {"FLAGS_nccl_dir=$S/lacking", "gpu", "/lacking/libnccl.so.2 has no function ncclCommAbort"},
    {"LD_LIBRARY_PATH=$S/lacking", "gpu",
        "no driver of NVIDIA GPUs: the library libcuda.so.1 has no function cuInit"},
};

static void devices_and_libraries_are_what_the_environment_says(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(answers); i++) {
        CO_AUTOFREE char *setting = co_xasprintf("S='%s'; %s", gk_standins, answers[i].setting);
        const char *text = ask(setting, answers[i].device);
        if (!strstr(text, answers[i].says)) {
            fail_msg("%s %s: %s", answers[i].setting, answers[i].device, text);
        }
    }
}

static void a_machine_without_a_driver_says_so(void **state) {
    (void)state;
    CO_AUTOFREE char *driver = co_xasprintf("LD_LIBRARY_PATH=/none '%s' driver", gk_self);
    if (system(driver) == 0) {
        printf("# this machine has one\n");
        skip();
    }
    const char *text = ask("LD_LIBRARY_PATH=/none", "gpu");
    assert_non_null(strstr(text, "no driver of NVIDIA GPUs: cannot load the library libcuda.so.1"));
    assert_int_equal(strchr(text, '\n') - text + 1, (long)strlen(text));
}

/* pip's NCCL is where no dynamic linker looks. */
static void a_machine_without_nccl_says_how_to_name_it(void **state) {
    (void)state;
    char folder[] = "/tmp/gpu_test.XXXXXX";
    assert_non_null(mkdtemp(folder));
    CO_AUTOFREE char *from = co_xasprintf("%s/libcuda.so.1", gk_standins);
    CO_AUTOFREE char *to = co_xasprintf("%s/libcuda.so.1", folder);
    CO_AUTOFREE char *setting = co_xasprintf("LD_LIBRARY_PATH='%s'", folder);
    CO_AUTOFREE char *other = co_xasprintf("FLAGS_nccl_dir='%s' %s", folder, setting);
    assert_return_code(symlink(from, to), errno);
    const char *bare = ask(setting, "gpu");
    bool here = !strstr(bare, "cannot load the library libnccl.so.2: ");
    bool names = strstr(bare, "; FLAGS_nccl_dir can name its folder") != NULL;
    bool again = strstr(ask(other, "gpu"), "can name") != NULL;
    assert_return_code(unlink(to), errno);
    assert_return_code(rmdir(folder), errno);
    assert_false(again);
    if (here) {
        printf("# this machine has one\n");
        skip();
    }
    assert_true(names);
}

/* ---- main ---- */

static int say(const char *device) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_group_options o = {.size = 1, .device = device};
    int rc = rt_group_open(NULL, &o, &g, &err);
    puts(rc < 0 ? co_err_text(&err) : rt_group_device(g));
    rt_group_close(g);
    return rc < 0;
}

/* A real NCCL without a GPU: it loads, all functions are there, and NCCL itself, which the
 * stand-in of the driver leads to believe in one, says what is missing. */
static void a_real_library_loads(void **state) {
    (void)state;
    const char *bare = ask("LD_LIBRARY_PATH=/none", "gpu");
    assert_true(strstr(bare, "libcuda.so.1") || strstr(bare, "gpu:0"));
    CO_AUTOFREE char *setting = co_xasprintf("LD_LIBRARY_PATH='%s'", gk_standins);
    const char *text = ask(setting, "gpu");
    print_message("%s", text);
    assert_non_null(strstr(text, "NCCL: "));
}

int main(int argc, char **argv) {
    static const struct CMUnitTest wheel[] = {
        cmocka_unit_test(a_real_library_loads),
    };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_machine_take_a_gpu_each),
        cmocka_unit_test(devices_and_libraries_are_what_the_environment_says),
        cmocka_unit_test(a_machine_without_a_driver_says_so),
        cmocka_unit_test(a_machine_without_nccl_says_how_to_name_it),
    };
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "driver") == 0) {
        return dlopen("libcuda.so.1", RTLD_NOW) ? 0 : 1;
    }
    (void)gk_begin(argc, argv);
    if (strcmp(mode, "say") == 0) {
        return say(argc > 2 ? argv[2] : "gpu");
    }
    return strcmp(mode, "wheel") == 0 ? cmocka_run_group_tests_name("wheel", wheel, NULL, NULL)
                                      : cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
