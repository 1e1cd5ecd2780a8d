/* Which devices a node has, by its environment and a false /dev. */
#include "runtime/launch/node/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/folder_testing.h"

enum { NAMES = 8 };

static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "XPU_VISIBLE_DEVICES", "XPULINK_VISIBLE_DEVICES", "PADDLE_XCCL_BACKEND", "NPU_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "GCU_VISIBLE_DEVICES",
    "TOPS_VISIBLE_DEVICES"};

static void set_variables(const char *const *set) {
    for (size_t i = 0; i < CO_ARRAY_LEN(variables); i++) {
        assert_int_equal(unsetenv(variables[i]), 0);
    }
    for (size_t i = 0; i < NAMES && set[i]; i++) {
        const size_t len = strcspn(set[i], "=");
        CO_AUTOFREE char *name = co_xstrndup(set[i], len);
        assert_int_equal(setenv(name, set[i] + len + 1, 1), 0);
    }
}

static void check(
    size_t row, const char *dev, enum job_device device, const char *name, const char *want) {
    struct job_node n = {.device = JOB_DEVICE_CPU};
    node_devices_find(dev, &n);
    CO_AUTOFREE char *visible = options_list_join(&n.visible, ",");
    if (n.device != device || strcmp(visible ? visible : "", want) != 0 ||
        !(name ? n.device_name && strcmp(n.device_name, name) == 0 : !n.device_name)) {
        fail_msg("row %zu: device %d, \"%s\", named %s", row, (int)n.device, visible,
            n.device_name ? n.device_name : "(none)");
    }
    options_list_done(&n.visible);
}

static void devices_are_those_that_a_variable_shows(void **state) {
    static const struct {
        const char *variable[NAMES];
        enum job_device device;
        const char *visible; /* joined */
        const char *name;
    } rows[] = {
        {{"CUDA_VISIBLE_DEVICES=0"}, JOB_DEVICE_GPU, "0", NULL},
        {{"CUDA_VISIBLE_DEVICES=2,3"}, JOB_DEVICE_GPU, "2,3", NULL},
        {{"CUDA_VISIBLE_DEVICES= 2 , 3 ,"}, JOB_DEVICE_GPU, "2,3", NULL},
        {{"CUDA_VISIBLE_DEVICES=GPU-8932f937,MIG-3eb87630"}, JOB_DEVICE_GPU,
            "GPU-8932f937,MIG-3eb87630", NULL},
        {{"CUDA_VISIBLE_DEVICES=MIG-GPU-8932f937/1/0"}, JOB_DEVICE_GPU, "MIG-GPU-8932f937/1/0",
            NULL},
        {{"TOPS_VISIBLE_DEVICES=DRS-4a1f"}, JOB_DEVICE_CUSTOM, "DRS-4a1f", "gcu"},
        /* there is none */
        {{"CUDA_VISIBLE_DEVICES="}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES= "}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES=-1"}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES=-1,0"}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES=none"}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES=void"}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES=NoDevFiles"}, JOB_DEVICE_CPU, "", NULL},
        {{"XPU_VISIBLE_DEVICES=-1"}, JOB_DEVICE_CPU, "", NULL},
        {{"HIP_VISIBLE_DEVICES=none"}, JOB_DEVICE_CPU, "", NULL},
        {{"ASCEND_RT_VISIBLE_DEVICES=none"}, JOB_DEVICE_CPU, "", NULL},
        {{"CUDA_VISIBLE_DEVICES=1,-1,0"}, JOB_DEVICE_GPU, "1", NULL},
        {{"CUDA_VISIBLE_DEVICES=1,x,0"}, JOB_DEVICE_GPU, "1", NULL},
        /* the kinds */
        {{"XPU_VISIBLE_DEVICES=1"}, JOB_DEVICE_XPU, "1", NULL},
        {{"XPULINK_VISIBLE_DEVICES=4", "XPU_VISIBLE_DEVICES=1"}, JOB_DEVICE_XPU, "4", NULL},
        {{"XPU_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=5"}, JOB_DEVICE_GPU, "5", NULL},
        {{"XPU_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=5"}, JOB_DEVICE_GPU, "5", NULL},
        {{"HIP_VISIBLE_DEVICES=2,3"}, JOB_DEVICE_GPU, "2,3", NULL},
        {{"ASCEND_RT_VISIBLE_DEVICES=4,5"}, JOB_DEVICE_CUSTOM, "4,5", "npu"},
        {{"MLU_VISIBLE_DEVICES=0"}, JOB_DEVICE_CUSTOM, "0", "mlu"},
        /* a plugin that the user names */
        {{"PADDLE_XCCL_BACKEND=npu", "NPU_VISIBLE_DEVICES=0,1"}, JOB_DEVICE_CUSTOM, "0,1", "npu"},
        {{"PADDLE_XCCL_BACKEND=npu", "ASCEND_RT_VISIBLE_DEVICES=6"}, JOB_DEVICE_CUSTOM, "6", "npu"},
        {{"PADDLE_XCCL_BACKEND=npu", "NPU_VISIBLE_DEVICES=1", "ASCEND_RT_VISIBLE_DEVICES=6"},
            JOB_DEVICE_CUSTOM, "1", "npu"},
        {{"PADDLE_XCCL_BACKEND=npu", "CUDA_VISIBLE_DEVICES=7"}, JOB_DEVICE_CUSTOM, "", "npu"},
        {{"PADDLE_XCCL_BACKEND=npu", "NPU_VISIBLE_DEVICES=all"}, JOB_DEVICE_CUSTOM, "", "npu"},
        {{"PADDLE_XCCL_BACKEND=npu", "NPU_VISIBLE_DEVICES=-1"}, JOB_DEVICE_CUSTOM, "", "npu"},
        {{"PADDLE_XCCL_BACKEND=gcu", "TOPS_VISIBLE_DEVICES=3", "GCU_VISIBLE_DEVICES=4"},
            JOB_DEVICE_CUSTOM, "3", "gcu"},
        {{"PADDLE_XCCL_BACKEND=own", "OWN_VISIBLE_DEVICES=3"}, JOB_DEVICE_CUSTOM, "3", "own"},
        {{"PADDLE_XCCL_BACKEND=", "CUDA_VISIBLE_DEVICES=7"}, JOB_DEVICE_GPU, "7", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        set_variables(rows[i].variable);
        check(i, *state, rows[i].device, rows[i].name, rows[i].visible);
    }
}

/* Creates the files; folders must be among them before what is in them. */
static void fill(const char *dev, const char *const *files) {
    for (size_t i = 0; i < NAMES && files[i]; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dev, files[i]);
        if (path[strlen(path) - 1] == '/') {
            assert_int_equal(mkdir(path, 0755), 0);
            continue;
        }
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fclose(f), 0);
    }
}

static void devices_are_those_in_dev_unless_a_variable_hides_them(void **state) {
    static const struct {
        const char *files[NAMES], *variable[NAMES];
        enum job_device device;
        const char *visible, *name;
    } rows[] = {
        {{"null"}, {NULL}, JOB_DEVICE_CPU, "", NULL},
        {{"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}, {NULL}, JOB_DEVICE_GPU, "0,1", NULL},
        {{"nvidia0"}, {"CUDA_VISIBLE_DEVICES=all"}, JOB_DEVICE_GPU, "0", NULL},
        {{"nvidia0"}, {"CUDA_VISIBLE_DEVICES="}, JOB_DEVICE_CPU, "", NULL},
        {{"nvidia0"}, {"CUDA_VISIBLE_DEVICES=none"}, JOB_DEVICE_CPU, "", NULL},
        {{"xpu0", "xpu1", "xpu2", "xpuctrl"}, {NULL}, JOB_DEVICE_XPU, "0,1,2", NULL},
        {{"xpu0", "xpu1"}, {"XPU_VISIBLE_DEVICES=-1"}, JOB_DEVICE_CPU, "", NULL},
        {{"xpu0", "xpu1"}, {"CUDA_VISIBLE_DEVICES=1"}, JOB_DEVICE_XPU, "1", NULL},
        {{"xpu0", "xpu1"}, {"CUDA_VISIBLE_DEVICES="}, JOB_DEVICE_CPU, "", NULL},
        {{"kfd", "dri/", "dri/renderD128", "dri/renderD129", "dri/card0"}, {NULL}, JOB_DEVICE_GPU,
            "0,1", NULL},
        {{"kfd", "dri/", "dri/renderD128"}, {"HIP_VISIBLE_DEVICES=-1"}, JOB_DEVICE_CPU, "", NULL},
        {{"kfd", "dri/", "dri/renderD128"}, {"CUDA_VISIBLE_DEVICES="}, JOB_DEVICE_CPU, "", NULL},
        /* a display's */
        {{"dri/", "dri/renderD128"}, {NULL}, JOB_DEVICE_CPU, "", NULL},
        /* in a pod they keep the node's numbers, and are counted from 0 */
        {{"davinci4", "davinci7", "davinci_manager"}, {NULL}, JOB_DEVICE_CUSTOM, "0,1", "npu"},
        {{"davinci0"}, {"ASCEND_RT_VISIBLE_DEVICES="}, JOB_DEVICE_CPU, "", NULL},
        {{"davinci0"}, {"CUDA_VISIBLE_DEVICES="}, JOB_DEVICE_CUSTOM, "0", "npu"},
        {{"cambricon_dev0", "cambricon_ctl"}, {NULL}, JOB_DEVICE_CUSTOM, "0", "mlu"},
        {{"gcu0", "gcu1"}, {NULL}, JOB_DEVICE_CUSTOM, "0,1", "gcu"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *dev = co_xasprintf("%s/dev%zu", (const char *)*state, i);
        assert_int_equal(mkdir(dev, 0755), 0);
        fill(dev, rows[i].files);
        set_variables(rows[i].variable);
        check(i, dev, rows[i].device, rows[i].name, rows[i].visible);
    }
}

static void the_page_has_a_row_for_each_kind(void **state) {
    CO_AUTOBUF struct co_buf page = CO_BUF(1 << 20);
    static const char *const parts[] = {"| NVIDIA GPU | `/dev/nvidiaN` |",
        "| Hygon DCU | `/dev/dri/renderDN` and `/dev/kfd` | `HIP_VISIBLE_DEVICES`, "
        "`CUDA_VISIBLE_DEVICES` | `FLAGS_selected_gpus` |",
        "`FLAGS_selected_npus`, `PADDLE_XCCL_BACKEND=npu`, `PADDLE_DISTRI_BACKEND=xccl` | "
        "`huawei.com/Ascend910` |"};
    (void)state;
    assert_int_equal(node_devices_markdown(&page, NULL), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(parts); i++) {
        if (!strstr(page.data, parts[i])) {
            fail_msg("not on the page: %s", parts[i]);
        }
    }
    CO_AUTOBUF struct co_buf small = CO_BUF(100);
    assert_int_not_equal(node_devices_markdown(&small, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CO_TEST_IN_FOLDER(devices_are_those_that_a_variable_shows),
        CO_TEST_IN_FOLDER(devices_are_those_in_dev_unless_a_variable_hides_them),
        cmocka_unit_test(the_page_has_a_row_for_each_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
